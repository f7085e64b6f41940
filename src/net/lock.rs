//! Locks that are held for a moment.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lock for a moment. The holder must call neither the application nor the interpreter: the interpreter could switch
/// threads, and the next thread would wait here for ever while it is attached.
///
/// A panic of an earlier holder is no fault of the data, which is never half-changed under these locks.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

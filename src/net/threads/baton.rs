//! The baton: the right to use the event loop, which one thread at a time has.
//!
//! A thread only ever tries for it, and never waits for it while it is attached to the interpreter. Both taking it and
//! laying it down are uncontended atomic operations: no clock, no wake-up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::net::events::event_loop::EventLoop;
use crate::net::handler::Handler;
use crate::net::lock::lock;

/// The event loop, in the hands of the thread that has the baton.
pub type Held<'a, H> = MutexGuard<'a, EventLoop<H>>;

/// The baton.
pub struct Baton<H: Handler> {
    event_loop: Mutex<EventLoop<H>>,
    /// A thread has it; for the watchdog.
    is_held: AtomicBool,
    /// How often it was laid down.
    calls: AtomicU64,
}

impl<H: Handler> Baton<H> {
    /// That of this event loop.
    pub fn new(event_loop: EventLoop<H>) -> Self {
        Self { event_loop: Mutex::new(event_loop), is_held: AtomicBool::new(false), calls: AtomicU64::new(0) }
    }

    /// Take it, if it is free.
    pub fn take(&self) -> Option<Held<'_, H>> {
        let held = match self.event_loop.try_lock() {
            Ok(held) => held,
            // A panic of the thread that had it left the event loop as it was between two calls.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.is_held.store(true, Ordering::Relaxed);
        Some(held)
    }

    /// Wait for it, detached from the interpreter, where the server serves not yet, or no longer.
    pub fn wait(&self) -> Held<'_, H> {
        lock(&self.event_loop)
    }

    /// Lay it down, for the next thread that wants it.
    pub fn lay_down(&self, held: Held<'_, H>) {
        // No other thread writes it meanwhile, so that it needs no atomic addition, which costs more.
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.is_held.store(false, Ordering::Relaxed);
        drop(held);
    }

    /// How often it was laid down; none while a thread has it.
    pub fn calls_if_free(&self) -> Option<u64> {
        (!self.is_held.load(Ordering::Relaxed)).then(|| self.calls.load(Ordering::Relaxed))
    }
}

//! The lock of a shard, as it lies in the mapping: a mutex of POSIX that processes share, and a mark that a change began.
//!
//! Knows libc. The mutex is robust: if the thread that holds it is killed, the next one gets it and is told. So a killed
//! process leaves no lock. Whether it was killed in the middle of a change is told by the mark.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use libc::{pthread_mutex_t, pthread_mutexattr_t};

/// Bytes of a mutex.
const MUTEX: usize = size_of::<pthread_mutex_t>();

/// A lock. All its bytes may be zero before `prepare`.
#[repr(C, align(64))]
pub struct Lock {
    mutex: UnsafeCell<pthread_mutex_t>,
    mark: AtomicU32,
}

impl Lock {
    /// Make a lock of these bytes, which no other process knows yet. Returns whether libc can.
    pub fn prepare(&self) -> bool {
        let mut attributes = MaybeUninit::<pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        self.mark.store(0, Ordering::Relaxed);
        // SAFETY: the attributes are initialised first, and both pointers are to memory of the right size that lives. The
        // mutex is in use nowhere.
        let failed = unsafe {
            libc::pthread_mutexattr_init(attributes)
                | libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED)
                | libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST)
                | libc::pthread_mutex_init(self.mutex.get(), attributes)
                | libc::pthread_mutexattr_destroy(attributes)
        };
        failed == 0
    }

    /// Whether these bytes can be such a lock: all that libc writes into a new one, which is the kind of the mutex, is
    /// there. Other kinds of mutexes lead libc elsewhere.
    pub fn is_sound(&self) -> bool {
        let fresh = Self { mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), mark: AtomicU32::new(0) };
        fresh.prepare() && fresh.bytes().iter().zip(self.bytes()).all(|(fresh, found)| *fresh == 0 || *fresh == found)
    }

    /// Take the lock if it is free. Returns whether this thread has it now.
    pub fn try_acquire(&self) -> bool {
        // SAFETY: the bytes were prepared, or found sound, when they were mapped, and stay mapped for as long as `self`
        // lives. Nothing but these functions changes them.
        let found = unsafe { libc::pthread_mutex_trylock(self.mutex.get()) };
        if found == libc::EOWNERDEAD {
            // SAFETY: as above, and this thread has the mutex. The mark keeps what is to be said about its data.
            unsafe { libc::pthread_mutex_consistent(self.mutex.get()) };
        }
        found == 0 || found == libc::EOWNERDEAD
    }

    /// Give the lock back. Only for the thread that has it.
    pub fn release(&self) {
        // SAFETY: as for `try_acquire`; where this thread had not the mutex, libc would refuse.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }

    /// Note that a change begins. No part of it comes before the mark.
    pub fn set_mark(&self) {
        self.mark.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Note that the change is over. No part of it comes after that.
    pub fn clear_mark(&self) {
        fence(Ordering::SeqCst);
        self.mark.store(0, Ordering::Relaxed);
    }

    /// Whether a change began and was never over.
    pub fn is_marked(&self) -> bool {
        self.mark.load(Ordering::Relaxed) != 0
    }

    /// The bytes of the mutex, some of which others may be changing.
    fn bytes(&self) -> [u8; MUTEX] {
        // SAFETY: the pointer is to so many bytes, which are mapped. A volatile read takes what is there.
        unsafe { self.mutex.get().cast::<[u8; MUTEX]>().read_volatile() }
    }
}

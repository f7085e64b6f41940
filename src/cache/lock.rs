//! The lock of a shard, as it lies in the mapping: a mutex of POSIX that processes share, and a mark that a change began.
//!
//! Knows libc. The mutex is robust: if the thread that holds it is killed, the next one gets it and is told. So a killed
//! process leaves no lock. Whether it was killed in the middle of a change is told by the mark.
//!
//! libc believes what stands in a mutex: of which kind it is, and pointers that lead it elsewhere. Something that damages
//! the file may have put any bytes there. So the kind is looked at before each attempt; and what stood there when a thread
//! had got the mutex is put back before it lets go, since until then nobody else changes it: others try, and none waits in
//! the kernel. What is left is a write that falls between two instructions of libc, which may end the process.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use libc::{pthread_mutex_t, pthread_mutexattr_t};

/// The bytes of a mutex as words.
type Words = [usize; size_of::<pthread_mutex_t>() / size_of::<usize>()];

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The lock was not free in time.
    Busy,
    /// What stands there cannot be.
    Damaged,
}

/// What tells mutexes of the kind that `Lock::prepare` makes from others.
pub struct Kind {
    /// What libc writes into a new one.
    fresh: Words,
    /// Ones in each byte that libc writes.
    mask: Words,
}

impl Kind {
    /// That of this libc, if it has such mutexes.
    pub fn new() -> Option<Self> {
        let lock = Lock { mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), mark: AtomicU32::new(0) };
        lock.prepare().then(|| Self { fresh: lock.words(), mask: lock.words().map(ones_in_bytes_in_use) })
    }
}

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

    /// Whether these bytes can be a lock of this kind.
    pub fn is_sound(&self, kind: &Kind) -> bool {
        let Kind { fresh, mask } = kind;
        fresh.iter().zip(mask).zip(self.words()).all(|((fresh, mask), found)| found & mask == *fresh)
    }

    /// Take the lock if it is free.
    pub fn try_acquire(&self, kind: &Kind) -> Result<Guard<'_>, Failure> {
        if !self.is_sound(kind) {
            return Err(Failure::Damaged);
        }
        // SAFETY: this is a mutex of the kind that `prepare` makes, and stays mapped for as long as `self` lives. To take
        // one of that kind, libc follows no pointer that stands in it.
        match unsafe { libc::pthread_mutex_trylock(self.mutex.get()) } {
            0 => {}
            libc::EOWNERDEAD => {
                // SAFETY: as above, and this thread has the mutex. The mark keeps what is to be said about its data.
                unsafe { libc::pthread_mutex_consistent(self.mutex.get()) };
            }
            libc::EBUSY => return Err(Failure::Busy),
            _ => return Err(Failure::Damaged),
        }
        Ok(Guard { lock: self, taken: self.words() })
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
    fn words(&self) -> Words {
        // SAFETY: the pointer is to so many words, which are mapped. A volatile read takes what is there.
        unsafe { self.mutex.get().cast::<Words>().read_volatile() }
    }
}

/// A lock that this thread has, until this is dropped.
pub struct Guard<'a> {
    /// The lock.
    pub lock: &'a Lock,
    /// What stood in the mutex when this thread had got it.
    taken: Words,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let Self { lock, taken } = self;
        let is_damaged = lock.words() != *taken;
        if is_damaged {
            // Another thread may have got it as well.
            lock.set_mark();
        }
        // SAFETY: the pointer is to so many words, which are mapped. With what libc left there when this thread got the
        // mutex, its pointers lead to the list of what this thread has, as libc needs it to let go.
        unsafe {
            if is_damaged {
                lock.mutex.get().cast::<Words>().write_volatile(*taken);
            }
            libc::pthread_mutex_unlock(lock.mutex.get());
        }
    }
}

fn ones_in_bytes_in_use(word: usize) -> usize {
    usize::from_ne_bytes(word.to_ne_bytes().map(|byte| if byte == 0 { 0 } else { u8::MAX }))
}

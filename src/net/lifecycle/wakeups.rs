//! How threads that sleep are woken: the one that waits for events, and the watchdog.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

/// Wakes the thread that waits for events, by a descriptor at which it waits too.
#[derive(Debug)]
pub struct LoopWaker {
    descriptor: OwnedFd,
    is_asleep: AtomicBool,
    /// Something was left for that thread.
    has_news: AtomicBool,
}

impl LoopWaker {
    /// With a descriptor of its own.
    pub fn new() -> std::io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { descriptor, is_asleep: AtomicBool::new(false), has_news: AtomicBool::new(false) })
    }

    /// Wake the thread, or let its next wait return at once.
    pub fn wake(&self) {
        // The counter can only be full when a wake-up is due anyway.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }

    /// Wake the thread if it sleeps, or is about to.
    pub fn wake_if_asleep(&self) {
        if self.is_asleep() {
            self.wake();
        }
    }

    /// Whether the thread waits for events.
    pub fn is_asleep(&self) -> bool {
        self.is_asleep.load(Ordering::SeqCst)
    }

    /// The thread is about to sleep. Returns whether it may: not if something was left for it meanwhile.
    pub fn may_sleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        let may = !self.has_news.load(Ordering::SeqCst);
        self.is_asleep.store(may, Ordering::SeqCst);
        may
    }

    /// The thread woke up.
    pub fn slept(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// Something was left for the thread. It looks before it sleeps; one that sleeps already is not woken by this.
    pub fn announce(&self) {
        self.has_news.store(true, Ordering::SeqCst);
    }

    /// Whether something was left since this was asked last.
    pub fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::SeqCst)
    }

    /// The descriptor, readable after [`LoopWaker::wake`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The wake-up was heard.
    pub fn drain(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.descriptor, &mut count);
    }
}

/// Wakes the watchdog.
#[derive(Debug, Default)]
pub struct WatchdogWaker {
    thread: OnceLock<Thread>,
    is_asleep: AtomicBool,
}

impl WatchdogWaker {
    /// Whether there is a watchdog.
    pub fn is_started(&self) -> bool {
        self.thread.get().is_some()
    }

    /// This is the watchdog's thread.
    pub fn start(&self, thread: Thread) {
        // The caller has asked whether it is started, under a lock.
        let _ = self.thread.set(thread);
    }

    /// Something runs: look.
    pub fn rouse(&self) {
        if self.is_asleep.load(Ordering::SeqCst) && self.is_asleep.swap(false, Ordering::SeqCst) {
            if let Some(thread) = self.thread.get() {
                thread.unpark();
            }
        }
    }

    /// On the watchdog's thread: sleep until it is roused. `may_sleep` is asked when the others know that this thread
    /// sleeps.
    pub fn sleep(&self, mut may_sleep: impl FnMut() -> bool) {
        self.is_asleep.store(true, Ordering::SeqCst);
        // The holder of the loop notes that it is awake and then looks at `is_asleep`; here it is the other way round.
        while self.is_asleep.load(Ordering::SeqCst) && may_sleep() {
            std::thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// On the watchdog's thread: sleep once, until it is roused or `pause` is over. `may_sleep`: as for
    /// [`WatchdogWaker::sleep`].
    pub fn nap(&self, pause: Duration, may_sleep: impl FnOnce() -> bool) {
        self.is_asleep.store(true, Ordering::SeqCst);
        if may_sleep() {
            std::thread::park_timeout(pause);
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }
}

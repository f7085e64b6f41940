//! Time, read from the two coarse clocks of the kernel. They move once a tick (1 to 10 ms), which is enough for each
//! deadline here, and cost nanoseconds.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds of a clock that never jumps, and stands still while the machine sleeps.
pub fn now() -> u64 {
    milliseconds(clock_gettime(ClockId::MonotonicCoarse))
}

/// Seconds since the Unix epoch.
pub fn unix_second() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}

fn milliseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// When a thread entered the application, and when that gave its last sign of life. Both words are kept elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    began: &'static AtomicU64,
    last: &'static AtomicU64,
}

impl Pulse {
    /// The pulse that is kept in these words.
    pub fn new(began: &'static AtomicU64, last: &'static AtomicU64) -> Self {
        Self { began, last }
    }

    /// The thread enters the application. Returns the time.
    pub fn begin(self) -> u64 {
        let now = now().max(1);
        self.began.store(now, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
        now
    }

    /// The application has just given something. Returns the time.
    pub fn beat(self) -> u64 {
        let now = now().max(1);
        self.last.store(now, Ordering::Relaxed);
        now
    }

    /// The thread has left the application.
    pub fn rest(self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// When the thread entered the application last.
    pub fn began(self) -> u64 {
        self.began.load(Ordering::Relaxed)
    }

    /// When the last sign of life came, if the thread is in the application.
    pub fn last(self) -> Option<u64> {
        Some(self.last.load(Ordering::Relaxed)).filter(|&beat| beat != 0)
    }
}

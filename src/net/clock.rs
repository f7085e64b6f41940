//! Two clocks of the kernel's tick (1 to 10 ms): they cost nanoseconds, and no deadline here needs more.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds of a clock that never jumps. It stands still while the machine sleeps.
pub fn now() -> u64 {
    milliseconds(clock_gettime(ClockId::MonotonicCoarse))
}

/// Seconds since the Unix epoch.
pub fn unix_second() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}

/// Put a time off, unless it is 0: none.
pub fn delay(time: &AtomicU64, milliseconds: u64) {
    // It fails where it is none.
    let _ = time.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| (old != 0).then_some(old + milliseconds));
}

fn milliseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Since when a thread has been in the application, and since when without a sign of life.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    began: &'static AtomicU64,
    last: &'static AtomicU64,
}

impl Pulse {
    /// One that is kept there.
    pub fn new(began: &'static AtomicU64, last: &'static AtomicU64) -> Self {
        Self { began, last }
    }

    /// The application begins. Returns when.
    pub fn begin(self) -> u64 {
        let now = now().max(1);
        self.began.store(now, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
        now
    }

    /// A sign of life: the application has just given something.
    pub fn beat(self) {
        self.last.store(now().max(1), Ordering::Relaxed);
    }

    /// The application has returned.
    pub fn rest(self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// When it began, the last time.
    pub fn began(self) -> u64 {
        self.began.load(Ordering::Relaxed)
    }

    /// When the last sign of life came, if the application is at work.
    pub fn last(self) -> Option<u64> {
        Some(self.last.load(Ordering::Relaxed)).filter(|&beat| beat != 0)
    }
}

//! When a stop was asked for, and by when which part of it must be over. Times are milliseconds of [`clock::now`].

use std::sync::atomic::{AtomicU64, Ordering};

use crate::net::clock;
use crate::timing::REPEAT;

/// A moment, or none yet.
#[derive(Debug, Default)]
pub struct Moment(AtomicU64);

impl Moment {
    /// The moment, if there is one.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&time| time != 0)
    }

    /// So many milliseconds from now.
    pub fn set_in(&self, milliseconds: u64) {
        self.0.store((clock::now() + milliseconds).max(1), Ordering::Relaxed);
    }

    /// So many milliseconds from now, unless it is sooner already.
    pub fn set_sooner(&self, milliseconds: u64) {
        let new = (clock::now() + milliseconds).max(1);
        // It cannot fail.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(if old == 0 { new } else { new.min(old) }));
    }

    /// There is none any more.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Put it off, if there is one.
    fn put_off(&self, milliseconds: u64) {
        // It fails where there is none.
        let _ =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| (old != 0).then_some(old + milliseconds));
    }
}

/// The times of one process.
#[derive(Debug, Default)]
pub struct Times {
    /// When a signal asked to stop for the first time.
    first_signal: AtomicU64,
    /// Until when clients are sent away to a successor, before the stop.
    pub drain_until: Moment,
    /// When a stop becomes late.
    pub stop_by: Moment,
    /// When the watchdog ends the process unless every thread has left.
    pub end_by: Moment,
}

impl Times {
    /// A signal to stop came. Returns whether it is a second one, and not the first one told twice.
    pub fn is_second_signal(&self) -> bool {
        let now = clock::now();
        let first = self.first_signal.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        first.is_err_and(|first| now.saturating_sub(first) >= REPEAT)
    }

    /// The process itself stood still for so many milliseconds: put all times off.
    pub fn forgive(&self, milliseconds: u64) {
        for moment in [&self.stop_by, &self.end_by, &self.drain_until] {
            moment.put_off(milliseconds);
        }
    }
}

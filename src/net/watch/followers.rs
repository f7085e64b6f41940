//! When the next thread is woken: where the baton lies free without progress, a call blocks, and the next request need not
//! wait for it.

use std::num::NonZero;
use std::time::{Duration, Instant};

use super::admission::{Admission, Sample};
use super::cpu::{self, micros};
use super::watched::Watched;

/// The state of the threads at the last look.
pub struct Followers {
    /// How often the baton had been laid down; none while a thread held it.
    calls: Option<u64>,
    looked: Instant,
    usage: cpu::Usage,
    admission: Admission,
    /// For how long there has been no progress, in µs.
    quiet: u64,
}

impl Followers {
    /// Those of so many threads.
    pub fn new(threads: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let (usage, admission) = (cpu::Usage::new(threads), Admission::new(threads, cores));
        Self { calls: None, looked: Instant::now(), usage, admission, quiet: 0 }
    }

    /// Whether there was no progress between the last two looks.
    pub fn is_quiet(&self) -> bool {
        self.quiet > 0
    }

    /// Let the next request in, where it is time for that.
    pub fn look<S: Watched>(&mut self, server: &S) {
        if !server.has_followers() {
            return;
        }
        let calls = server.calls_if_free();
        let is_quiet = calls.is_some() && calls == self.calls;
        self.calls = calls;
        let now = Instant::now();
        let elapsed = micros(now - self.looked);
        self.looked = now;
        self.quiet = if is_quiet { self.quiet + elapsed } else { 0 };
        // Short calls are never held back, and while a thread handles events calls may wait for that.
        let is_awake = calls.is_none() && !server.shared().process.waker.is_asleep();
        if !is_quiet && (!server.watchdog().pace.is_slow() || is_awake) {
            return;
        }
        let is_new = self.usage.look(server.tasks(), Duration::from_micros(server.watchdog().pace.long()));
        let decision = self.admission.look(Sample {
            elapsed,
            is_new,
            inside: server.inside(),
            running: self.usage.running,
            short: self.usage.short,
            long: self.usage.long,
            is_free: calls.is_some(),
            quiet: self.quiet,
            usual: server.watchdog().pace.usual(),
        });
        server.watchdog().pace.set_room(decision.room);
        if decision.wakes && server.wake_one() {
            self.quiet = 0;
        }
    }
}

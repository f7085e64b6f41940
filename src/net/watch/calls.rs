//! How long each call into the application has gone on without a sign of life, in time that was watched.
//!
//! Knows numbers only. Time in which the watchdog did not run does not count: when a process was stopped, or a machine
//! slept, its calls are as old afterwards as they were before.

/// How much more than planned the time between two looks may be, and still count, in ms: a loaded machine is late too.
const SLACK: u64 = 200;
/// A late call that was interrupted gets its time-out once more, within these bounds, in ms.
const GRACE: (u64, u64) = (1000, 5000);

/// A call that is too old: its slot, its last sign of life as the pulse tells it, and its age in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Late {
    pub slot: usize,
    pub beat: u64,
    pub age: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Working,
    Late,
    Stuck,
}

#[derive(Clone, Copy, Debug, Default)]
struct Call {
    beat: Option<u64>,
    age: u64,
    stage: Stage,
    is_told: bool,
}

/// The calls of all slots. Times are milliseconds of one steady clock.
#[derive(Debug)]
pub struct Calls {
    timeout: u64,
    slow: u64,
    looked: u64,
    slots: Vec<Call>,
}

impl Calls {
    /// For so many slots. A call is slow after `slow`, late after `timeout` (0: never).
    pub fn new(slots: usize, slow: u64, timeout: u64, now: u64) -> Self {
        Self { timeout, slow, looked: now, slots: vec![Call::default(); slots] }
    }

    /// No call ran until now.
    pub fn skip(&mut self, now: u64) {
        self.looked = now;
    }

    /// Note the last signs of life, by slot. `planned`: how long after the last look this one was to be.
    pub fn look(&mut self, now: u64, planned: u64, beats: impl Iterator<Item = Option<u64>>) {
        let elapsed = now.saturating_sub(self.looked).min(planned + SLACK);
        self.looked = now;
        for (call, beat) in self.slots.iter_mut().zip(beats) {
            if beat.is_some() && beat == call.beat {
                call.age += elapsed;
            } else {
                let age = beat.map_or(0, |beat| now.saturating_sub(beat).min(elapsed));
                *call = Call { beat, age, ..Call::default() };
            }
        }
    }

    /// The calls that are slow, each once.
    pub fn newly_slow(&mut self) -> Vec<Late> {
        let slow = self.slow;
        let is_slow = |call: &Call| slow > 0 && call.age > slow && !call.is_told;
        let calls = self.slots.iter_mut().enumerate().filter(|(_, call)| is_slow(call));
        let told = calls.filter_map(|(slot, call)| {
            call.is_told = true;
            Some(Late { slot, beat: call.beat?, age: call.age })
        });
        told.collect()
    }

    /// The calls that are late and were not interrupted yet.
    pub fn late(&self) -> Vec<Late> {
        self.older(self.timeout, |stage| stage == Stage::Working)
    }

    /// These calls were interrupted.
    pub fn interrupted(&mut self, late: &[Late]) {
        self.set(late, Stage::Late);
    }

    /// The calls that did not return although they were interrupted, each once.
    pub fn newly_stuck(&mut self) -> Vec<Late> {
        let grace = self.timeout.clamp(GRACE.0, GRACE.1);
        let stuck = self.older(self.timeout + grace, |stage| stage != Stage::Stuck);
        self.set(&stuck, Stage::Stuck);
        stuck
    }

    /// All calls that did not return so: their slots and last signs of life.
    pub fn stuck(&self) -> Vec<(usize, u64)> {
        let stuck = self.slots.iter().enumerate().filter(|(_, call)| call.stage == Stage::Stuck);
        stuck.filter_map(|(slot, call)| Some((slot, call.beat?))).collect()
    }

    fn older(&self, age: u64, is_wanted: impl Fn(Stage) -> bool) -> Vec<Late> {
        let is_older = |call: &Call| self.timeout > 0 && call.age > age && is_wanted(call.stage);
        let calls = self.slots.iter().enumerate().filter(|(_, call)| is_older(call));
        calls.filter_map(|(slot, call)| Some(Late { slot, beat: call.beat?, age: call.age })).collect()
    }

    fn set(&mut self, late: &[Late], stage: Stage) {
        for late in late {
            if let Some(call) = self.slots.get_mut(late.slot) {
                call.stage = stage;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Look every 100 ms until `end`, one call since 1000.
    fn watched(calls: &mut Calls, from: u64, end: u64) {
        let mut now = from;
        while now < end {
            now += 100;
            calls.look(now, 100, [Some(1000)].into_iter());
        }
    }

    #[test]
    fn a_call_is_late_then_stuck_each_once() {
        let mut calls = Calls::new(1, 0, 3000, 1000);
        watched(&mut calls, 1000, 4000);
        assert_eq!(calls.late(), []);
        watched(&mut calls, 4000, 4100);
        let late = calls.late();
        assert_eq!(late, [Late { slot: 0, beat: 1000, age: 3100 }]);
        calls.interrupted(&late);
        assert_eq!(calls.late(), []);
        watched(&mut calls, 4100, 7000);
        assert_eq!(calls.newly_stuck(), []);
        watched(&mut calls, 7000, 7100);
        assert_eq!(calls.newly_stuck(), [Late { slot: 0, beat: 1000, age: 6100 }]);
        assert_eq!((calls.newly_stuck(), calls.stuck()), (vec![], vec![(0, 1000)]));
        calls.look(7200, 100, [Some(7150)].into_iter());
        assert_eq!(calls.stuck(), [], "it came back");
    }

    #[test]
    fn a_slow_call_is_told_once_until_it_gives_something() {
        let mut calls = Calls::new(1, 500, 0, 1000);
        watched(&mut calls, 1000, 1500);
        assert_eq!(calls.newly_slow(), []);
        watched(&mut calls, 1500, 1600);
        assert_eq!(calls.newly_slow(), [Late { slot: 0, beat: 1000, age: 600 }]);
        watched(&mut calls, 1600, 9000);
        assert_eq!(calls.newly_slow(), []);
    }

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        let mut calls = Calls::new(1, 0, 3000, 1000);
        watched(&mut calls, 1000, 2000);
        calls.look(1_000_000, 100, [Some(1000)].into_iter());
        assert_eq!(calls.late(), []);
        watched(&mut calls, 1_000_000, 1_001_800);
        assert_eq!(calls.late().first().map(|late| late.age), Some(3100));
    }

    #[test]
    fn a_stop_before_the_first_look_does_not_count_either() {
        let mut calls = Calls::new(1, 0, 3000, 0);
        calls.skip(999_000);
        calls.look(999_100, 100, [Some(1000)].into_iter());
        assert_eq!(calls.late(), []);
    }

    #[test]
    fn a_thread_that_rests_is_not_late_and_zero_is_never() {
        let mut calls = Calls::new(2, 1000, 1000, 0);
        for now in 0..100 {
            calls.look(now * 100, 100, [None, Some(now * 100)].into_iter());
        }
        assert_eq!((calls.newly_slow(), calls.late(), calls.newly_stuck()), (vec![], vec![], vec![]));
        let mut calls = Calls::new(1, 0, 0, 1000);
        watched(&mut calls, 1000, 100_000);
        assert_eq!((calls.late(), calls.newly_stuck()), (vec![], vec![]));
    }
}

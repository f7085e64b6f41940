//! How many calls are let into the application at once.
//!
//! Calls that wait (for a database, for a timer) cost nothing beside one another. Calls that compute share one interpreter,
//! whose lock is not fair: the more of them are inside, the more often they switch, and the longer the unlucky ones take.
//! So there is room for as many calls as keep one core busy, and no more: for one call per thread where calls only wait,
//! for one where they only compute, for three where each waits twice as long as it computes.
//!
//! How long a call will take is not known beforehand. Beside a call that takes several times as long as is usual the next
//! one is let in, a few milliseconds after it began. Where several such long calls are inside, all threads serve: the more
//! threads wait for the interpreter with short calls, the larger is the share of it that the short calls get.
//!
//! The threads of the server note and obey a [`Pace`]; the watchdog decides by an [`Admission`]. Both know numbers only.
//! Times are microseconds.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A call that takes longer than this makes the application slow ...
const SLOW_CALL: u64 = 300;
/// ... until so many calls in a row were faster.
const SLOW_MEMORY: u32 = 16;

/// How long calls took lately, and how many may be inside at once. Several threads may note something at once: nothing
/// here needs to be exact.
#[derive(Debug)]
pub struct Pace {
    /// Above 0 while calls are slow.
    slow: AtomicU32,
    /// CPU time of the usual call.
    usual: AtomicU64,
    room: AtomicUsize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { slow: AtomicU32::new(0), usual: AtomicU64::new(0), room: AtomicUsize::new(usize::MAX) }
    }
}

impl Pace {
    /// Whether calls have been slow lately. While they are not, nothing else is asked or noted, which would cost time.
    pub fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed) > 0
    }

    /// A thread came back from a call and found that another one has the baton.
    pub fn note_slow(&self) {
        self.slow.store(SLOW_MEMORY, Ordering::Relaxed);
    }

    /// A call took so much time, and so much CPU time.
    pub fn note(&self, time: u64, cpu: u64) {
        // Half of the calls are above this value and move it up, the others move it down.
        let usual = self.usual();
        let step = usual / 4 + 1;
        self.usual.store(if cpu > usual { usual + step } else { usual.saturating_sub(step) }, Ordering::Relaxed);
        if time > SLOW_CALL {
            self.note_slow();
        } else {
            self.slow.store(self.slow.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        }
    }

    /// CPU time of the usual call: about half of the calls have less.
    pub fn usual(&self) -> u64 {
        self.usual.load(Ordering::Relaxed)
    }

    /// CPU time that makes a call a long one, beside which usual calls do not wait outside.
    pub fn long(&self) -> u64 {
        (LONG_FACTOR * self.usual()).max(LEAST_LONG)
    }

    /// How many short calls may be inside at once while calls are slow.
    pub fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// From now on so many may be inside.
    pub fn set_room(&self, room: usize) {
        self.room.store(room, Ordering::Relaxed);
    }
}

/// After so many samples in a row in which a call ran there is less room.
const SAMPLES: usize = 8;
/// Where so many calls run at once, in hundredths, they compute outside the lock of the interpreter, side by side.
const PARALLEL: usize = 150;
/// How many run at once is a mean over about so many samples.
const MEAN: usize = 4;
/// A call is a long one when it has so many times the CPU time of a usual one. Until then the next one waits outside.
const LONG_FACTOR: u64 = 4;
/// CPU time of a long call, at least.
const LEAST_LONG: u64 = 2_000;
/// For how long a call waits beside one that computes, at least and at most.
const BESIDE_ONE: (u64, u64) = (2_000, 10_000);
/// For how long a call waits beside several that compute, at least and at most.
const BESIDE_MORE: (u64, u64) = (10_000, 100_000);
/// How often it is tried whether calls can compute side by side, where there are several cores.
const TRY_EVERY: u64 = 250_000;
/// For how long calls count as computing side by side once they were seen to.
const PARALLEL_HOLDS: u64 = 50_000;
/// For how long there count as several long calls once there were: the calls that follow are not known as long at once.
const SEVERAL_HOLD: u64 = 100_000;

/// A sample of the calls at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Time since the sample before.
    pub elapsed: u64,
    /// The fields below were measured anew.
    pub is_new: bool,
    /// Calls in the application.
    pub inside: usize,
    /// Calls that run, or would if there were a core for them.
    pub running: usize,
    /// Calls that compute, so that they run or wait for the interpreter, and are not long.
    pub short: usize,
    /// Calls that compute and are long.
    pub long: usize,
    /// No thread has the baton, so none takes the next request.
    pub is_free: bool,
    /// For how long that has been so while no call has begun.
    pub quiet: u64,
    /// CPU time of the usual call.
    pub usual: u64,
}

/// The decision after a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Wake a thread for the next request.
    pub wakes: bool,
    /// From now on so many short calls may be inside.
    pub room: usize,
}

/// Decides, from sample to sample.
#[derive(Debug)]
pub struct Admission {
    threads: usize,
    cores: usize,
    room: usize,
    /// Samples in a row in which a call ran.
    busy: usize,
    /// How many calls run at once, a mean, in hundredths.
    mean: usize,
    until_try: u64,
    /// For how long calls still count as computing side by side.
    parallel: u64,
    /// For how long it counts that there were several long calls.
    long: u64,
}

impl Admission {
    /// For a process of so many threads that may use so many cores.
    pub fn new(threads: usize, cores: usize) -> Self {
        Self { threads, cores, room: threads, busy: 0, mean: 0, until_try: TRY_EVERY, parallel: 0, long: 0 }
    }

    /// Decide.
    pub fn look(&mut self, sample: Sample) -> Decision {
        let Sample { elapsed, is_new, inside, running, short, long, is_free, quiet, .. } = sample;
        let is_idle = is_free && running == 0 && inside > 0;
        if is_new && inside > 0 {
            self.adjust(running, is_idle);
        }
        self.parallel = if self.mean >= PARALLEL { PARALLEL_HOLDS } else { self.parallel.saturating_sub(elapsed) };
        self.until_try = self.until_try.saturating_sub(elapsed);
        self.long = if long > 1 { SEVERAL_HOLD } else { self.long.saturating_sub(elapsed) };
        let room = match (self.long > 0, self.parallel > 0) {
            (true, _) => self.threads,
            (false, true) => self.room.max(self.cores),
            (false, false) => self.room,
        };
        Decision { wakes: is_idle || (quiet > 0 && (short < room || self.is_due(sample))), room }
    }

    /// Make more room where no call runs and no thread takes the next request; less where a call always runs.
    fn adjust(&mut self, running: usize, is_idle: bool) {
        self.mean = (self.mean * (MEAN - 1) + 100 * running) / MEAN;
        if running == 0 {
            self.busy = 0;
            self.room = (self.room + usize::from(is_idle)).min(self.threads);
            return;
        }
        self.busy += 1;
        if self.busy >= SAMPLES {
            self.busy = 0;
            self.room = if self.room > 4 { self.room / 2 } else { self.room.saturating_sub(1).max(1) };
        }
    }

    /// Whether the next call has waited outside for long enough although there is no room.
    fn is_due(&mut self, Sample { short, quiet, usual, .. }: Sample) -> bool {
        if self.until_try == 0 && self.cores > 1 {
            self.until_try = TRY_EVERY;
            return true;
        }
        let (least, most) = if short < 2 { BESIDE_ONE } else { BESIDE_MORE };
        quiet >= (LONG_FACTOR * usual * short as u64).clamp(least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 500;
    const ALL: usize = 32;

    /// A call that computes, beside seven that wait.
    const COMPUTES: Sample = Sample {
        elapsed: STEP,
        is_new: true,
        inside: 8,
        running: 1,
        short: 1,
        long: 0,
        is_free: true,
        quiet: STEP,
        usual: 1_000,
    };

    /// An admission that has seen enough of these samples to know them, and its last decision.
    fn settled(cores: usize, sample: Sample) -> (Admission, Decision) {
        let mut admission = Admission::new(ALL, cores);
        let mut decision = admission.look(sample);
        for _ in 0..400 {
            decision = admission.look(sample);
        }
        (admission, decision)
    }

    #[test]
    fn beside_calls_that_wait_there_is_room_for_all() {
        for inside in [1, 2, 31] {
            let waits = Sample { inside, running: 0, short: 0, ..COMPUTES };
            assert_eq!(settled(1, waits).1, Decision { wakes: true, room: ALL });
            let (_, decision) = settled(1, Sample { is_free: false, quiet: 0, ..waits });
            assert_eq!(decision, Decision { wakes: false, room: ALL }, "a thread stands ready");
        }
        let (mut admission, _) = settled(1, COMPUTES);
        assert!(admission.look(Sample { running: 0, short: 0, ..COMPUTES }).wakes, "it computed until now, and waits");
    }

    #[test]
    fn there_is_room_for_as_many_as_keep_the_core_busy() {
        // Each call runs, or would if it had the interpreter, for so many of a hundred moments, and there is always a next.
        for (runs, rooms) in [(100, 1..=1), (50, 2..=8), (33, 3..=12), (5, 16..=ALL)] {
            let mut admission = Admission::new(ALL, 1);
            let (mut room, mut chance) = (ALL, 1_u64);
            let mut seen = Vec::new();
            for _ in 0..4_000 {
                let mut is_running = || {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (chance >> 33) % 100 < runs
                };
                let running = usize::from((0..room).filter(|_| is_running()).count() > 0);
                room = admission.look(Sample { inside: room, running, short: running, ..COMPUTES }).room;
                seen.push(room);
            }
            let usual = seen[1_000..].iter().sum::<usize>() / 3_000;
            assert!(rooms.contains(&usual), "room {usual} where a call runs in {runs} of 100 moments");
        }
    }

    #[test]
    fn beside_a_call_that_computes_the_next_one_waits_in_proportion_to_the_usual_one() {
        let cases = [
            // short ones inside, usual, quiet before the next one is let in
            (1, 0, 2_000),
            (1, 100, 2_000),
            (1, 1_000, 4_000),
            (1, 2_000, 8_000),
            (1, 20_000, 10_000),
            (2, 100, 10_000),
            (2, 5_000, 40_000),
            (4, 5_000, 80_000),
            (2, 20_000, 100_000),
        ];
        for (short, usual, quiet) in cases {
            let (mut admission, _) = settled(1, Sample { short, usual, ..COMPUTES });
            for (quiet, wakes) in [(quiet - 1, false), (quiet, true)] {
                let decision = admission.look(Sample { short, quiet, usual, ..COMPUTES });
                assert_eq!(decision, Decision { wakes, room: 1 }, "{short} inside, usual {usual}, quiet {quiet}");
            }
        }
    }

    #[test]
    fn beside_a_long_call_there_is_room_for_a_short_one_and_beside_several_for_all() {
        for (long, short, wakes, room) in [(1, 0, true, 1), (1, 1, false, 1), (2, 1, true, ALL)] {
            let decision = settled(1, Sample { short, long, ..COMPUTES }).1;
            assert_eq!(decision, Decision { wakes, room }, "{long} long, {short} short");
        }
        let (mut admission, _) = settled(1, Sample { long: 2, ..COMPUTES });
        let mut room = || admission.look(COMPUTES).room;
        assert!((STEP..SEVERAL_HOLD).step_by(500).all(|_| room() == ALL), "the next long ones are not known at once");
        assert_eq!(room(), 1);
    }

    #[test]
    fn calls_that_compute_outside_the_lock_of_the_interpreter_get_the_cores_that_there_are() {
        let room = |cores, short, running| settled(cores, Sample { running, short, ..COMPUTES }).1.room;
        assert_eq!(room(4, 2, 2), 4);
        assert_eq!(room(1, 2, 2), 1, "two wait for the only core");
        assert_eq!(room(4, 3, 1), 1, "one at a time has the interpreter");
    }

    #[test]
    fn whether_they_do_is_tried_now_and_then() {
        let tries = |cores| {
            let (mut admission, _) = settled(cores, COMPUTES);
            (0..2 * TRY_EVERY / STEP).filter(|_| admission.look(COMPUTES).wakes).count()
        };
        assert_eq!([tries(1), tries(2)], [0, 2]);
    }

    #[test]
    fn the_usual_call_is_one_of_the_middle() {
        let pace = Pace::default();
        pace.note_slow();
        for round in 0..100 {
            pace.note(1_000, if round % 10 == 0 { 20_000 } else { 1_000 });
        }
        assert!((500..2_000).contains(&pace.usual()), "{}", pace.usual());
        assert!(pace.is_slow());
        for _ in 0..SLOW_MEMORY {
            pace.note(SLOW_CALL, 0);
        }
        assert!(!pace.is_slow());
    }
}

//! The threads of one process: which of them sleep, which are in the application since when, and what one leaves for
//! another.
//!
//! One thread has the baton; the others are in the application, or sleep here. The one that fell asleep last is woken
//! first: its memory is still in the cache, and threads that are not needed stay asleep. The health thread, where there is
//! one, has the last slot and is woken last, as it never calls the application. A thread with streams, which are answers
//! that wait for their clients, is woken before it and after all others.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::net::clock::Pulse;
use crate::net::lock::lock;
use crate::net::watch::cpu;

/// The threads; `Q` is what one of them can leave for another.
#[derive(Debug)]
pub struct Team<Q> {
    slots: Vec<Slot<Q>>,
    asleep: Mutex<Vec<usize>>,
    is_dismissed: AtomicBool,
    has_health_thread: bool,
}

/// The place of one thread.
#[derive(Debug)]
struct Slot<Q> {
    is_taken: AtomicBool,
    /// 1 until its thread has seen that it was woken. A futex and not std's parking, which a signal does not interrupt.
    woken: AtomicU32,
    /// It was summoned, perhaps just before it was on the list of those that sleep.
    is_summoned: AtomicBool,
    queue: Mutex<Vec<Q>>,
    /// How many answers of this thread wait for their clients: no other thread can go on with them.
    streams: AtomicUsize,
    thread: cpu::Thread,
}

impl<Q> Slot<Q> {
    fn new(pulse: Pulse) -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            woken: AtomicU32::new(0),
            is_summoned: AtomicBool::new(false),
            queue: Mutex::default(),
            streams: AtomicUsize::new(0),
            thread: cpu::Thread::new(pulse),
        }
    }

    fn has_streams(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }

    fn rouse(&self) {
        self.woken.store(1, Ordering::Release);
        // It cannot fail.
        let _ = futex::wake(&self.woken, futex::Flags::PRIVATE, 1);
    }
}

impl<Q> Team<Q> {
    /// A team of threads with these pulses; the last one may be the health thread.
    pub fn new(pulses: impl Iterator<Item = Pulse>, has_health_thread: bool) -> Self {
        let slots: Vec<_> = pulses.map(Slot::new).collect();
        let asleep = Mutex::new(Vec::with_capacity(slots.len()));
        Self { slots, asleep, is_dismissed: AtomicBool::new(false), has_health_thread }
    }

    /// The calling thread takes `slot`. Returns its pulse. Fails where there is no such slot, or it is taken.
    pub fn join(&self, slot: usize) -> Result<Pulse, &'static str> {
        let slot = self.slots.get(slot).ok_or("there is no such slot: it must be below `threads`")?;
        if slot.is_taken.swap(true, Ordering::Relaxed) {
            return Err("another thread has this slot");
        }
        slot.thread.adopt();
        Ok(slot.thread.pulse)
    }

    /// Whether there is a health thread.
    pub fn has_health_thread(&self) -> bool {
        self.has_health_thread
    }

    /// Whether `slot` is that of the health thread.
    pub fn is_health_thread(&self, slot: usize) -> bool {
        self.has_health_thread && slot + 1 == self.slots.len()
    }

    /// Whether a thread may have to be woken because another one is in the application.
    pub fn has_followers(&self) -> bool {
        self.slots.len() > 1
    }

    /// Whether a thread sleeps that may call the application.
    pub fn has_sleeper(&self) -> bool {
        lock(&self.asleep).iter().any(|&slot| !self.is_health_thread(slot))
    }

    /// Whether no thread sleeps.
    pub fn is_awake(&self) -> bool {
        lock(&self.asleep).is_empty()
    }

    /// All threads, by slot.
    pub fn threads(&self) -> impl Iterator<Item = &cpu::Thread> + Clone {
        self.slots.iter().map(|slot| &slot.thread)
    }

    /// The thread of `slot` begins a call.
    pub fn begin_call(&self, slot: usize) {
        self.slots.get(slot).into_iter().for_each(|slot| slot.thread.begin());
    }

    /// Sleep until woken, until something is queued, or until a signal comes; not at all once dismissed. `tell` is called
    /// when others can wake this thread.
    pub fn sleep(&self, slot: usize, tell: impl FnOnce()) {
        let Some(own) = self.slots.get(slot) else { return };
        let mut asleep = lock(&self.asleep);
        let place = match asleep.first() {
            _ if self.is_health_thread(slot) => 0,
            Some(&first) if own.has_streams() => usize::from(self.is_health_thread(first)),
            _ => asleep.len(),
        };
        asleep.insert(place, slot);
        drop(asleep);
        tell();
        // What came before the slot was on the list woke no thread.
        let is_summoned = own.is_summoned.swap(false, Ordering::SeqCst);
        if is_summoned || !lock(&own.queue).is_empty() || self.is_dismissed.load(Ordering::SeqCst) {
            self.wake(slot);
        }
        while own.woken.swap(0, Ordering::Acquire) == 0 {
            if futex::wait(&own.woken, futex::Flags::PRIVATE, 0, None) == Err(Errno::INTR) {
                // Where it is on the list no more, another thread is about to rouse it.
                self.wake(slot);
            }
        }
    }

    /// Wake the thread that fell asleep last. Returns whether there was one.
    pub fn wake_one(&self) -> bool {
        let slot = lock(&self.asleep).pop();
        if let Some(slot) = slot.and_then(|slot| self.slots.get(slot)) {
            slot.rouse();
        }
        slot.is_some()
    }

    /// Whether a thread without streams can serve in place of that of `slot`, which has some. It is woken if it sleeps. A
    /// thread that is awake and idle, or has yet to start, comes of itself, unless something else keeps it: `may_hope`
    /// tells whether to rely on that.
    pub fn wake_substitute(&self, slot: usize, may_hope: impl FnOnce() -> bool) -> bool {
        if !self.slots.get(slot).is_some_and(Slot::has_streams) {
            return false;
        }
        let is_free = |other: usize| {
            let has_streams = self.slots.get(other).is_none_or(Slot::has_streams);
            !has_streams && !self.is_health_thread(other)
        };
        let mut asleep = lock(&self.asleep);
        let sleeper = asleep.iter().rposition(|&other| is_free(other)).map(|position| asleep.remove(position));
        drop(asleep);
        if let Some(sleeper) = sleeper.and_then(|slot| self.slots.get(slot)) {
            sleeper.rouse();
            return true;
        }
        let is_idle = |(_, slot): (usize, &Slot<Q>)| !slot.thread.is_inside();
        may_hope() && self.slots.iter().enumerate().filter(|&(other, _)| is_free(other)).any(is_idle)
    }

    /// The thread of `slot` has one stream more than before, or one less.
    pub fn note_stream(&self, slot: usize, before: bool, after: bool) {
        let Some(slot) = self.slots.get(slot) else { return };
        match (before, after) {
            (false, true) => slot.streams.fetch_add(1, Ordering::Relaxed),
            (true, false) => slot.streams.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Wake all threads, for good.
    pub fn dismiss(&self) {
        self.is_dismissed.store(true, Ordering::SeqCst);
        while self.wake_one() {}
    }

    /// Leave something for the thread of `slot`: it is woken if it sleeps, and looks before it sleeps or waits.
    pub fn queue(&self, slot: usize, item: Q) {
        if let Some(own) = self.slots.get(slot) {
            lock(&own.queue).push(item);
            self.wake(slot);
        }
    }

    /// Take what was left for the thread of `slot`, one after another.
    pub fn next_queued(&self, slot: usize) -> Option<Q> {
        self.slots.get(slot).and_then(|slot| lock(&slot.queue).pop())
    }

    /// Wake the thread of `slot`. One that is about to fall asleep, and has looked for signals before, does not.
    pub fn summon(&self, slot: usize) {
        if let Some(slot) = self.slots.get(slot) {
            slot.is_summoned.store(true, Ordering::SeqCst);
        }
        self.wake(slot);
    }

    /// Wake the thread of `slot` if it sleeps.
    fn wake(&self, slot: usize) {
        let mut asleep = lock(&self.asleep);
        if let Some(position) = asleep.iter().position(|&other| other == slot) {
            asleep.remove(position);
            drop(asleep);
            if let Some(slot) = self.slots.get(slot) {
                slot.rouse();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::net::report::scoreboard::Row;

    #[test]
    fn a_thread_with_a_stream_hopes_for_those_that_are_idle_or_have_yet_to_start() {
        let team = Team::<()>::new(Row::private(3, 3).unwrap().pulses(), false);
        team.join(0).unwrap();
        assert!(!team.wake_substitute(0, || true), "it has no stream");
        team.note_stream(0, false, true);
        let idle = team.join(1).unwrap();
        assert!(team.wake_substitute(0, || true) && !team.wake_substitute(0, || false));
        idle.begin();
        assert!(team.wake_substitute(0, || true), "a third one has yet to start");
        let last = team.join(2).unwrap();
        last.begin();
        assert!(!team.wake_substitute(0, || true), "all are in the application");
    }

    #[test]
    fn a_thread_that_is_summoned_before_it_sleeps_does_not_sleep() {
        let team = Arc::new(Team::<()>::new(Row::private(2, 2).unwrap().pulses(), false));
        team.summon(0);
        let (tell, told) = channel();
        let sleeper = Arc::clone(&team);
        let thread = std::thread::spawn(move || {
            sleeper.sleep(0, || ());
            tell.send(()).unwrap();
        });
        let has_woken = told.recv_timeout(Duration::from_secs(20)).is_ok();
        team.dismiss();
        thread.join().unwrap();
        assert!(has_woken);
        assert!(!team.has_sleeper());
    }
}

//! The threads of one process: who sleeps, who is in the application since when, and what is kept for whom.
//!
//! One thread holds the event loop (the baton); the others are in the application or sleep here as followers. The one
//! that fell asleep last is woken first: its memory is still in the cache, and threads that are not needed stay asleep.
//! The caretaker, where there is one, has the last slot and is woken last: it never calls the application.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::net::clock::Pulse;
use crate::net::watch::cpu;

/// The threads; `M` is what one thread can leave for another.
#[derive(Debug)]
pub struct Team<M> {
    seats: Vec<Seat<M>>,
    asleep: Mutex<Vec<usize>>,
    dismissed: AtomicBool,
    has_caretaker: bool,
}

#[derive(Debug)]
struct Seat<M> {
    taken: AtomicBool,
    /// 1 until its thread has seen that it was woken. A futex and not std's parking, which a signal does not interrupt.
    woken: AtomicU32,
    /// It was summoned, perhaps just before it was on the list of those who sleep.
    is_summoned: AtomicBool,
    mail: Mutex<Vec<M>>,
    /// Answers of this thread that wait for their clients: nobody else can go on with them.
    streams: AtomicUsize,
    pulse: Pulse,
    thread: cpu::Thread,
}

impl<M> Team<M> {
    /// A team of threads with these pulses; the last one may be a caretaker.
    pub fn new(pulses: impl Iterator<Item = Pulse>, has_caretaker: bool) -> Self {
        let seat = |pulse| Seat {
            taken: AtomicBool::new(false),
            woken: AtomicU32::new(0),
            is_summoned: AtomicBool::new(false),
            mail: Mutex::new(Vec::new()),
            streams: AtomicUsize::new(0),
            pulse,
            thread: cpu::Thread::default(),
        };
        let seats: Vec<_> = pulses.map(seat).collect();
        Self {
            asleep: Mutex::new(Vec::with_capacity(seats.len())),
            seats,
            dismissed: AtomicBool::new(false),
            has_caretaker,
        }
    }

    /// The calling thread is that of `slot`, and this is its pulse. Fails where there is no such slot, or it is taken.
    pub fn join(&self, slot: usize) -> Result<Pulse, &'static str> {
        let seat = self.seats.get(slot).ok_or("there is no such slot: it must be below `threads`")?;
        if seat.taken.swap(true, Ordering::Relaxed) {
            return Err("another thread has this slot");
        }
        seat.thread.adopt();
        Ok(seat.pulse)
    }

    /// Whether there is a caretaker.
    pub fn has_caretaker(&self) -> bool {
        self.has_caretaker
    }

    /// Whether `slot` is that of the caretaker.
    pub fn is_caretaker(&self, slot: usize) -> bool {
        self.has_caretaker && slot + 1 == self.seats.len()
    }

    /// Whether a thread may have to be woken because another one is in the application.
    pub fn has_followers(&self) -> bool {
        self.seats.len() > 1
    }

    /// Whether a thread sleeps that may call the application.
    pub fn has_sleeper(&self) -> bool {
        lock(&self.asleep).iter().any(|&slot| !self.is_caretaker(slot))
    }

    /// Whether no thread sleeps.
    pub fn is_awake(&self) -> bool {
        lock(&self.asleep).is_empty()
    }

    /// The pulse of the thread of `slot`.
    pub fn pulse(&self, slot: usize) -> Option<Pulse> {
        self.seats.get(slot).map(|seat| seat.pulse)
    }

    /// The thread of `slot` begins a call.
    pub fn begin(&self, slot: usize) {
        self.seats.get(slot).into_iter().for_each(|seat| seat.thread.begin());
    }

    /// All threads, and whether they are in the application, by slot.
    pub fn threads(&self) -> impl Iterator<Item = (&cpu::Thread, bool)> + Clone {
        self.seats.iter().map(|seat| (&seat.thread, seat.pulse.last().is_some()))
    }

    /// How many threads are in the application.
    pub fn inside(&self) -> usize {
        self.pulses().filter(|pulse| pulse.last().is_some()).count()
    }

    /// All pulses, by slot.
    pub fn pulses(&self) -> impl Iterator<Item = Pulse> {
        self.seats.iter().map(|seat| seat.pulse)
    }

    /// Sleep until woken, or until there is mail or a signal; not at all once dismissed. `tell` that it can be woken.
    pub fn sleep(&self, slot: usize, tell: impl FnOnce()) {
        let Some(seat) = self.seats.get(slot) else { return };
        let mut asleep = lock(&self.asleep);
        // Who has streams is woken last but for the caretaker.
        let place = match asleep.first() {
            _ if self.is_caretaker(slot) => 0,
            Some(&first) if self.has_streams(slot) => usize::from(self.is_caretaker(first)),
            _ => asleep.len(),
        };
        asleep.insert(place, slot);
        drop(asleep);
        tell();
        // Whatever came before the slot was on the list woke nobody.
        let is_summoned = seat.is_summoned.swap(false, Ordering::SeqCst);
        if is_summoned || !lock(&seat.mail).is_empty() || self.dismissed.load(Ordering::SeqCst) {
            self.wake(slot);
        }
        while seat.woken.swap(0, Ordering::Acquire) == 0 {
            if futex::wait(&seat.woken, futex::Flags::PRIVATE, 0, None) == Err(Errno::INTR) {
                // Where it is on the list no more, somebody else is about to rouse it.
                self.wake(slot);
            }
        }
    }

    /// Wake the thread that fell asleep last. Returns whether there was one.
    pub fn wake_one(&self) -> bool {
        let slot = lock(&self.asleep).pop();
        if let Some(seat) = slot.and_then(|slot| self.seats.get(slot)) {
            seat.rouse();
        }
        slot.is_some()
    }

    /// Whether a thread without streams can serve in place of that of `slot`, which has some. It is woken if it sleeps; one
    /// that is awake and idle, or has yet to start, comes of itself, unless something else keeps it: so `is_patient` tells
    /// whether to hope.
    pub fn relieves(&self, slot: usize, is_patient: impl FnOnce() -> bool) -> bool {
        if !self.has_streams(slot) {
            return false;
        }
        let mut asleep = lock(&self.asleep);
        let free = asleep.iter().rposition(|&other| !self.is_caretaker(other) && !self.has_streams(other));
        let free = free.map(|position| asleep.remove(position));
        drop(asleep);
        if let Some(seat) = free.and_then(|slot| self.seats.get(slot)) {
            seat.rouse();
            return true;
        }
        is_patient()
            && (0..self.seats.len()).any(|other| other != slot && !self.is_caretaker(other) && self.is_idle(other))
    }

    fn has_streams(&self, slot: usize) -> bool {
        self.seats.get(slot).is_some_and(|seat| seat.streams.load(Ordering::Relaxed) > 0)
    }

    /// Whether the thread of `slot` has no stream and is not in the application.
    fn is_idle(&self, slot: usize) -> bool {
        !self.has_streams(slot) && self.seats.get(slot).is_some_and(|seat| seat.pulse.last().is_none())
    }

    /// The thread of `slot` has one stream more than before, or one less.
    pub fn note_stream(&self, slot: usize, before: bool, after: bool) {
        let Some(seat) = self.seats.get(slot) else { return };
        match (before, after) {
            (false, true) => seat.streams.fetch_add(1, Ordering::Relaxed),
            (true, false) => seat.streams.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Wake everybody, for good.
    pub fn dismiss(&self) {
        self.dismissed.store(true, Ordering::SeqCst);
        while self.wake_one() {}
    }

    /// Leave `mail` for `slot`: it is woken if it sleeps, and looks before it sleeps or waits.
    pub fn send(&self, slot: usize, mail: M) {
        if let Some(seat) = self.seats.get(slot) {
            lock(&seat.mail).push(mail);
            self.wake(slot);
        }
    }

    /// Take what was left for `slot`.
    pub fn mail(&self, slot: usize) -> Option<M> {
        self.seats.get(slot).and_then(|seat| lock(&seat.mail).pop())
    }

    /// Wake the thread of `slot`. One that is about to fall asleep, and has looked for signals before, does not.
    pub fn summon(&self, slot: usize) {
        if let Some(seat) = self.seats.get(slot) {
            seat.is_summoned.store(true, Ordering::SeqCst);
        }
        self.wake(slot);
    }

    /// Wake the thread of `slot` if it sleeps.
    pub fn wake(&self, slot: usize) {
        let mut asleep = lock(&self.asleep);
        if let Some(position) = asleep.iter().position(|&other| other == slot) {
            asleep.remove(position);
            drop(asleep);
            if let Some(seat) = self.seats.get(slot) {
                seat.rouse();
            }
        }
    }
}

impl<M> Seat<M> {
    fn rouse(&self) {
        self.woken.store(1, Ordering::Release);
        // It cannot fail.
        let _ = futex::wake(&self.woken, futex::Flags::PRIVATE, 1);
    }
}

/// Lock for a moment, in which nothing of the application's and no interpreter may be called: it could switch threads,
/// and the next one would wait here for ever, attached.
/// What is kept under these locks is never half-changed, so they are taken even if their last holder panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::net::report::board::Row;

    #[test]
    fn who_has_a_stream_hopes_for_those_who_are_idle_or_have_yet_to_start() {
        let team = Team::<()>::new(Row::private(3, 3).unwrap().pulses(), false);
        team.join(0).unwrap();
        assert!(!team.relieves(0, || true), "it has no stream");
        team.note_stream(0, false, true);
        let idle = team.join(1).unwrap();
        assert!(team.relieves(0, || true) && !team.relieves(0, || false));
        idle.begin();
        assert!(team.relieves(0, || true), "a third one has yet to start");
        let last = team.join(2).unwrap();
        last.begin();
        assert!(!team.relieves(0, || true), "all are in the application");
    }

    #[test]
    fn who_is_summoned_before_he_sleeps_does_not_sleep() {
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

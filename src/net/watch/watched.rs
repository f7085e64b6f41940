//! The wall between the watchdog and the server it watches: what the watchdog asks of a server, and what both
//! look at.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Instant;

use super::admission::Pace;
use super::cpu;
use crate::net::clock::Pulse;
use crate::net::handler::Handler;
use crate::net::lock::lock;
use crate::net::shared::Shared;

/// A server whose calls are watched.
pub trait Watched: Send + Sync + 'static {
    /// Its application.
    type Handler: Handler;

    /// What everything in it has in common.
    fn shared(&self) -> &Shared<Self::Handler>;

    /// The state that it shares with its watchdog.
    fn watchdog(&self) -> &Watchdog;

    /// All threads, by slot.
    fn tasks(&self) -> impl Iterator<Item = &cpu::Thread> + Clone;

    /// Whether a thread may have to be woken because another one is in the application.
    fn has_followers(&self) -> bool;

    /// Whether no thread sleeps.
    fn is_awake(&self) -> bool;

    /// Wake the thread that fell asleep last. Returns whether there was one.
    fn wake_one(&self) -> bool;

    /// How often the baton was laid down; none while a thread holds it.
    fn calls_if_free(&self) -> Option<u64>;

    /// Whether an event waits for the event loop: a client at a listener, a request on a connection.
    fn is_awaited(&self) -> bool;

    /// Leave new clients to other workers, if they are to serve them and all threads of this one are in the application:
    /// none of its threads comes to that soon.
    fn leave_clients(&self);

    /// Answer 503 to all clients that wait: every thread is lost.
    fn excuse(&self);

    /// The pulse of the thread of `slot`, if there is one.
    fn pulse(&self, slot: usize) -> Option<Pulse> {
        self.tasks().nth(slot).map(|thread| thread.pulse)
    }

    /// When the call on the thread of `slot` gave its last sign of life, if there is a call.
    fn last_beat(&self, slot: usize) -> Option<u64> {
        self.pulse(slot).and_then(Pulse::last)
    }

    /// How many threads are in the application.
    fn inside(&self) -> usize {
        self.tasks().filter(|thread| thread.is_inside()).count()
    }

    /// Whether a thread is in the application.
    fn is_busy(&self) -> bool {
        self.tasks().any(cpu::Thread::is_inside)
    }

    /// How many connections are not waited for, in a stop either: their calls do not return, and were answered in their
    /// place as far as that can be. A call may have returned since it was given up.
    fn given_up(&self) -> usize {
        lock(&self.watchdog().stuck).iter().filter(|&&(slot, beat)| self.last_beat(slot) == Some(beat)).count()
    }
}

/// The state that a server shares with its watchdog.
#[derive(Debug)]
pub struct Watchdog {
    /// How many threads call the application.
    pub threads: usize,
    /// How calls go.
    pub pace: Pace,
    /// The first thread, which ends the process, is in its run.
    pub has_first: AtomicBool,
    /// Locked while the watchdog is started.
    pub(super) handle: Mutex<Option<JoinHandle<()>>>,
    pub(super) interrupter: Mutex<InterrupterThread>,
    /// The slots of the calls that do not return, with their last signs of life.
    stuck: Mutex<Vec<(usize, u64)>>,
}

/// The thread that waits for the interpreter in place of the watchdog, if there is one now.
#[derive(Debug, Default)]
pub(super) struct InterrupterThread {
    pub thread: Option<JoinHandle<()>>,
    pub since: Option<Instant>,
    pub is_retired: bool,
}

impl InterrupterThread {
    /// Whether it is still at work.
    pub fn is_at_work(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Watchdog {
    /// For a server that has so many threads which call the application.
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            pace: Pace::default(),
            has_first: AtomicBool::new(false),
            handle: Mutex::default(),
            interrupter: Mutex::default(),
            stuck: Mutex::default(),
        }
    }

    /// Wait for the end of the watchdog, which is due.
    pub fn join(&self) {
        let Some(handle) = lock(&self.handle).take() else { return };
        handle.thread().unpark();
        // Its panic would not concern the caller.
        let _ = handle.join();
    }

    /// Interrupt no call any more; returns once no thread does.
    pub fn retire(&self) {
        let mut interrupter = lock(&self.interrupter);
        interrupter.is_retired = true;
        let thread = interrupter.thread.take();
        drop(interrupter);
        // Its panic would not concern the caller.
        let _ = thread.map(JoinHandle::join);
    }

    /// These calls do not return: their slots, with their last signs of life. Returns whether that is new.
    pub(super) fn give_up(&self, calls: Vec<(usize, u64)>) -> bool {
        let mut stuck = lock(&self.stuck);
        let is_new = *stuck != calls;
        *stuck = calls;
        is_new
    }
}

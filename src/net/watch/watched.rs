//! The wall between the watchdog and the server it watches: what the watchdog asks of a server, and the state of the
//! watchdog that the server keeps.

use std::sync::Mutex;
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

    /// The state of its watchdog.
    fn watchdog(&self) -> &Watchdog;

    /// How calls go.
    fn pace(&self) -> &Pace;

    /// How many threads call the application.
    fn threads(&self) -> usize;

    /// Whether the first thread, which ends the process, is in its run.
    fn has_first(&self) -> bool;

    /// The pulses of all threads, by slot.
    fn pulses(&self) -> impl Iterator<Item = Pulse>;

    /// All threads, and whether they are in the application, by slot.
    fn tasks(&self) -> impl Iterator<Item = (&cpu::Thread, bool)> + Clone;

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

    /// When the call on the thread of `slot` gave its last sign of life, if there is a call.
    fn last_beat(&self, slot: usize) -> Option<u64> {
        self.pulses().nth(slot).and_then(Pulse::last)
    }

    /// Whether the thread of `slot` is in a call that began then.
    fn is_in(&self, slot: usize, began: u64) -> bool {
        self.pulses().nth(slot).is_some_and(|pulse| pulse.last().is_some() && pulse.began() == began)
    }

    /// How many threads are in the application.
    fn inside(&self) -> usize {
        self.pulses().filter(|pulse| pulse.last().is_some()).count()
    }

    /// Whether a thread is in the application.
    fn is_busy(&self) -> bool {
        self.pulses().any(|pulse| pulse.last().is_some())
    }
}

/// The state of the watchdog that other threads look at.
#[derive(Debug, Default)]
pub struct Watchdog {
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

    /// How many connections are not waited for, in a stop either: their calls do not return, and were answered in their
    /// place as far as that can be. `last_beat` tells the last sign of life of a slot: a call may have returned since.
    pub fn given_up(&self, last_beat: impl Fn(usize) -> Option<u64>) -> usize {
        lock(&self.stuck).iter().filter(|&&(slot, beat)| last_beat(slot) == Some(beat)).count()
    }
}

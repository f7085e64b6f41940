//! What the watchdog asks of the server it watches: the wall between `watch` and `threads`.

use super::admission::Pace;
use super::cpu;
use super::watchdog::Watchdog;
use crate::net::clock::Pulse;
use crate::net::handler::Handler;
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

    /// Leave new clients to other workers, if a successor serves them, and all threads are in the application: none of
    /// those comes to it soon.
    fn leave_clients(&self);

    /// Every thread is lost: let the clients know that wait for one.
    fn excuse(&self);

    /// When the call on the thread of `slot` gave its last sign of life, if there is a call.
    fn last_beat(&self, slot: usize) -> Option<u64> {
        self.pulses().nth(slot).and_then(Pulse::last)
    }

    /// Whether the call on the thread of `slot` goes on that gave its last sign of life then.
    fn is_still(&self, slot: usize, beat: u64) -> bool {
        self.last_beat(slot) == Some(beat)
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

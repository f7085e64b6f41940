//! What the thread does that has the baton: it takes the next event, does what that asks for, and waits where nothing is
//! ready. The other threads sleep.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::baton::Held;
use super::server::{SIGNAL_SLOT, Server};
use crate::net::connections::connection::{Connection, Verdict};
use crate::net::connections::scratch::Scratch;
use crate::net::events::event_loop::{Event, EventLoop, Keyed};
use crate::net::events::table::Key;
use crate::net::handler::Handler;
use crate::net::lifecycle::process::read_control;
use crate::net::shared::Shared;
use crate::net::watch::watched::Watched;

/// How long the thread with the baton sleeps at most while others are in the application: if that closes the descriptor at
/// which it waits, nothing wakes it.
const LOOK_UP: Duration = Duration::from_secs(1);

impl<H: Handler> Server<H> {
    /// Serve until this server is finished.
    pub(super) fn take_turns(&self, scratch: &mut Scratch<H>) {
        let slot = scratch.thread.slot;
        let mut held = self.take_baton_as(slot);
        while !self.shared.process.is_finished() {
            held = match held {
                Some(event_loop) => self.turn(event_loop, scratch),
                None => {
                    self.hear_signals(slot);
                    self.shared.handler.detached(|| self.team.sleep(slot, || self.tell_asleep(slot)));
                    if slot == SIGNAL_SLOT {
                        // Perhaps it was a signal, and the thread with the baton is stuck.
                        self.shared.process.watchdog.rouse();
                    }
                    self.hear_signals(slot);
                    self.serve_queued(scratch).or_else(|| self.take_baton_as(slot))
                }
            };
        }
    }

    /// The thread of `slot` goes to sleep: now the watchdog has a thread to wake, and the health thread may lay the baton
    /// down for it.
    fn tell_asleep(&self, slot: usize) {
        self.shared.process.watchdog.rouse();
        if self.team.has_health_thread() && !self.team.is_health_thread(slot) {
            self.shared.process.waker.wake_if_asleep();
        }
    }

    /// Lay the baton down, for the next thread that wants it.
    pub(super) fn lay_down(&self, event_loop: Held<'_, H>) {
        self.shared.process.watchdog.rouse();
        self.baton.lay_down(event_loop);
    }

    /// One turn of the event loop. Returns the baton unless another thread took it meanwhile.
    fn turn<'a>(&'a self, mut event_loop: Held<'a, H>, scratch: &mut Scratch<H>) -> Option<Held<'a, H>> {
        let (process, slot) = (&self.shared.process, scratch.thread.slot);
        match event_loop.next_event() {
            Some(Event::Accept(listener)) => event_loop.accept(listener, &self.shared),
            Some(Event::Ready(key)) => return self.work_on(key, event_loop, scratch, Connection::advance),
            Some(Event::Late(key)) => return self.work_on(key, event_loop, scratch, Connection::late),
            Some(Event::Control(index)) => self.obey_control(&mut event_loop, index, slot),
            Some(Event::Wake) => {
                process.waker.drain();
                if process.take_unheard_signals() {
                    self.tell_interpreter(slot);
                }
            }
            None if self.team.is_health_thread(slot) => return self.wait_as_health_thread(event_loop, slot),
            None => match self.team.next_queued(slot).or_else(|| event_loop.next_pipelined()) {
                Some(keyed) => return self.begin(event_loop, keyed, scratch),
                None => self.wait(&mut event_loop, slot),
            },
        }
        Some(event_loop)
    }

    /// Do `work` for the connection of `key`, if it is still there and this thread may do it.
    fn work_on<'a>(
        &'a self,
        key: Key,
        mut event_loop: Held<'a, H>,
        scratch: &mut Scratch<H>,
        work: impl FnOnce(&mut Connection<H>, &Shared<H>, &mut Scratch<H>) -> Verdict,
    ) -> Option<Held<'a, H>> {
        let mut taken = event_loop.take(key);
        if self.team.is_health_thread(scratch.thread.slot) {
            taken = taken.and_then(|connection| self.leave_to_others(&mut event_loop, key, connection));
        }
        let Some(mut connection) = taken else { return Some(event_loop) };
        let verdict = self.guarded(&mut connection, scratch, work);
        self.settle(event_loop, (key, connection), verdict, scratch)
    }

    /// Do what a verdict says.
    fn settle<'a>(
        &'a self,
        mut event_loop: Held<'a, H>,
        (key, connection): Keyed<H>,
        verdict: Verdict,
        scratch: &mut Scratch<H>,
    ) -> Option<Held<'a, H>> {
        match verdict {
            Verdict::Park => event_loop.park(key, connection, &self.shared),
            Verdict::Close => event_loop.close(key, connection, &self.shared),
            Verdict::Serve => match connection.owner() {
                Some(owner) if owner != scratch.thread.slot => self.team.queue(owner, (key, connection)),
                _ if self.team.is_health_thread(scratch.thread.slot) => {
                    event_loop.settle(key, connection, verdict, &self.shared);
                }
                _ => return self.begin(event_loop, (key, connection), scratch),
            },
        }
        Some(event_loop)
    }

    /// Nothing is ready: see to a stop, then wait for events.
    pub(super) fn wait(&self, event_loop: &mut EventLoop<H>, slot: usize) {
        let (shared, process) = (&self.shared, &self.shared.process);
        // The health thread has just looked: a connection that was returned since keeps it from sleeping.
        if !self.team.is_health_thread(slot) {
            self.adopt_returned(event_loop);
            event_loop.release_unread();
        }
        if process.leaves_clients() {
            event_loop.leave(shared);
        }
        if !event_loop.stood_still() {
            process.end_drain(event_loop.connections(), || self.given_up());
        }
        if process.is_stopping() {
            event_loop.stop(process.stop_deadline().unwrap_or(0), shared);
            if event_loop.is_done(self.given_up()) {
                return process.finish();
            }
        }
        let is_needed = self.team.is_health_thread(slot).then_some(|| !self.relieves_health_thread());
        let most = || self.is_busy().then_some(LOOK_UP);
        if let Err(error) = event_loop.wait(shared, most, is_needed, || !self.hear_signals(slot)) {
            shared.handler.report('C', None, &format!("waiting for events failed: {error}; stopping"));
            self.has_failed.store(true, Ordering::Relaxed);
            process.finish();
        }
        if event_loop.was_interrupted() {
            self.hear_signals(slot);
        }
    }

    /// Let the interpreter's handlers run for the signals that came. A signal comes as a byte too, as a rule; but the
    /// application may have taken the descriptor of those. Returns whether a stop began.
    fn hear_signals(&self, slot: usize) -> bool {
        let stops = slot == SIGNAL_SLOT && self.shared.handler.hear_signals();
        if stops {
            self.shared.process.begin_stop();
        }
        stops
    }

    /// Signals came over a control descriptor, or the parent died.
    fn obey_control(&self, event_loop: &mut EventLoop<H>, index: usize, slot: usize) {
        let process = &self.shared.process;
        let Some(control) = process.controls().get(index) else { return };
        let (signals, has_ended) = read_control(control);
        if has_ended {
            event_loop.forget(control.as_fd());
        }
        if !signals.is_empty() {
            self.tell_interpreter(slot);
        }
        process.obey(&signals, has_ended);
        if process.leaves_clients() {
            event_loop.leave(&self.shared);
        }
    }

    /// The interpreter runs its handlers on the main thread only, which may be asleep now.
    fn tell_interpreter(&self, slot: usize) {
        self.team.summon(SIGNAL_SLOT);
        self.hear_signals(slot);
    }
}

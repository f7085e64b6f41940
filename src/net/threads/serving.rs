//! How a connection is given to the application, without the baton, and what becomes of the baton afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use super::baton::Held;
use super::server::Server;
use crate::net::clock;
use crate::net::connections::connection::{Connection, Verdict};
use crate::net::connections::scratch::Scratch;
use crate::net::events::event_loop::{EventLoop, Keyed};
use crate::net::handler::Handler;
use crate::net::lock::lock;
use crate::net::panics;
use crate::net::shared::Shared;
use crate::net::watch::cpu::{self, micros};
use crate::net::watch::watched::Watched;

/// How long a request may wait for a thread that is awake and idle, or has yet to start, in ms: on a loaded machine that
/// takes a while; where no thread can be started it never comes.
const HOPE: u64 = 500;
/// Time in which a thread closes the streams that a stop left behind, in ms; a supervisor kills after a second.
const LAST_CLOSES: u64 = 500;

impl<H: Handler> Server<H> {
    /// Lay the baton down and serve. A thread that has streams leaves that to one that has none: the clients that wait for
    /// the next part of its streams would have to wait for this call too.
    pub(super) fn begin<'a>(
        &'a self,
        mut event_loop: Held<'a, H>,
        (key, connection): Keyed<H>,
        scratch: &mut Scratch<H>,
    ) -> Option<Held<'a, H>> {
        let slot = scratch.thread.slot;
        if connection.owner().is_none() && self.team.wake_substitute(slot, || connection.is_fresh(HOPE)) {
            event_loop.settle(key, connection, Verdict::Serve, &self.shared);
            self.lay_down(event_loop);
            return None;
        }
        self.lay_down(event_loop);
        self.serve((key, connection), scratch)
    }

    /// Give a connection to the application, without the baton, and take the baton up again if it is free.
    fn serve(&self, (key, mut connection): Keyed<H>, scratch: &mut Scratch<H>) -> Option<Held<'_, H>> {
        let (shared, slot) = (&self.shared, scratch.thread.slot);
        self.team.begin_call(slot);
        let began = (self.watchdog.threads > 1 && self.watchdog.pace.is_slow()).then(|| {
            if self.has_room(slot, 1) {
                self.team.wake_one();
            }
            (Instant::now(), cpu::own_time())
        });
        let had_stream = connection.owner().is_some();
        let verdict = self.guarded(&mut connection, scratch, Connection::serve);
        self.team.note_stream(slot, had_stream, connection.owner().is_some());
        if let Some((began, cpu)) = began {
            fence(Ordering::SeqCst); // see `keep`
            self.watchdog.pace.note(micros(began.elapsed()), micros(cpu::own_time().saturating_sub(cpu)));
        }
        if let Some(mut event_loop) = self.baton.take() {
            event_loop.settle(key, connection, verdict, shared);
            return self.keep(event_loop, slot);
        }
        self.watchdog.pace.note_slow();
        lock(&self.returned).push(((key, connection), verdict));
        shared.process.waker.announce();
        // The thread with the baton sees it before it sleeps, or is woken; unless it laid the baton down just now.
        let held = self.baton.take();
        if held.is_none() {
            shared.process.waker.wake_if_asleep();
        }
        self.keep(held?, slot)
    }

    /// Keep the baton for the next request if there is room for its call; else leave it to the threads that are inside.
    fn keep<'a>(&'a self, event_loop: Held<'a, H>, slot: usize) -> Option<Held<'a, H>> {
        if self.has_room(slot, 0) {
            return Some(event_loop);
        }
        self.lay_down(event_loop);
        // They may have returned meanwhile, and found the baton taken: they rest their pulse before they try for it.
        fence(Ordering::SeqCst);
        if self.has_room(slot, 0) { self.baton.take() } else { None }
    }

    /// Whether there is room in the application for one more call than the short ones of other threads than that of `slot`,
    /// and `more`.
    fn has_room(&self, slot: usize, more: usize) -> bool {
        let room = if self.watchdog.pace.is_slow() { self.watchdog.pace.room() } else { usize::MAX };
        room >= self.watchdog.threads || {
            let others = self.team.threads().enumerate().filter(|&(other, _)| other != slot);
            let short = others.filter(|(_, thread)| thread.is_inside() && !thread.takes_no_room());
            short.count() + more < room
        }
    }

    /// Do `work`. A panic is a defect of the engine, and costs this connection and no other.
    pub(super) fn guarded(
        &self,
        connection: &mut Connection<H>,
        scratch: &mut Scratch<H>,
        work: impl FnOnce(&mut Connection<H>, &Shared<H>, &mut Scratch<H>) -> Verdict,
    ) -> Verdict {
        let shared = &self.shared;
        catch_unwind(AssertUnwindSafe(|| work(connection, shared, scratch))).unwrap_or_else(|panic| {
            scratch.thread.pulse.rest();
            shared.handler.report('C', None, &panics::told(&*panic));
            catch_unwind(AssertUnwindSafe(|| connection.fail(shared, scratch))).unwrap_or(Verdict::Close)
        })
    }

    /// Go on with the streams of this thread that others found ready.
    pub(super) fn serve_queued(&self, scratch: &mut Scratch<H>) -> Option<Held<'_, H>> {
        while let Some(keyed) = self.team.next_queued(scratch.thread.slot) {
            if let Some(event_loop) = self.serve(keyed, scratch) {
                return Some(event_loop);
            }
        }
        None
    }

    /// Put the connections back that threads without the baton have served. Returns whether there were any.
    pub(super) fn adopt_returned(&self, event_loop: &mut EventLoop<H>) -> bool {
        if !self.shared.process.waker.take_news() {
            return false;
        }
        let returned = std::mem::take(&mut *lock(&self.returned));
        let is_any = !returned.is_empty();
        for ((key, connection), verdict) in returned {
            event_loop.settle(key, connection, verdict, &self.shared);
        }
        is_any
    }

    /// After a stop: tell how many connections are left unfinished, and break off those of this thread's streams among
    /// them, so that the application closes them.
    pub(super) fn close_streams(&self, scratch: &mut Scratch<H>) {
        let (slot, is_late) = (scratch.thread.slot, self.shared.process.is_stop_late());
        // A thread queues a stream with the baton in hand: no more come later.
        let (streams, unfinished) = self.shared.handler.detached(|| {
            let mut event_loop = self.baton.wait();
            self.adopt_returned(&mut event_loop);
            let unfinished = event_loop.unfinished().saturating_sub(self.given_up());
            let mut streams = event_loop.take_streams(slot);
            streams.extend(std::iter::from_fn(|| self.team.next_queued(slot)));
            if is_late {
                event_loop.answer_untaken(&self.shared);
            }
            (streams, unfinished)
        });
        if is_late && unfinished > 0 && !self.is_lateness_told.swap(true, Ordering::Relaxed) {
            let text = format!("the time of the stop is over; unfinished connections: {unfinished}");
            self.shared.handler.report('W', None, &text);
        }
        let end = clock::now() + LAST_CLOSES;
        for (_, mut connection) in streams {
            if clock::now() > end {
                break;
            }
            connection.break_off();
            self.guarded(&mut connection, scratch, Connection::serve);
        }
    }
}

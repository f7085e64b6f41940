//! The thread that answers health checks while all others are in the application. There is one where there is a `health`
//! path and one process.
//!
//! It never calls the application. It holds the event loop while all other threads are in there, and lays the baton down
//! as soon as one of them is back. It leaves requests for the application unread: if no thread comes back, a new
//! program gets them. It also leaves a connection unread whose client has ended it without sending anything: a watchdog
//! program asks so whether anything serves.

use std::sync::atomic::Ordering;

use super::baton::Held;
use super::server::Server;
use crate::net::connections::connection::Connection;
use crate::net::events::event_loop::EventLoop;
use crate::net::events::table::Key;
use crate::net::handler::Handler;

impl<H: Handler> Server<H> {
    /// Whether this thread is to hold the baton no longer: a thread is there that may serve, or the process ends.
    pub(super) fn relieves_health_thread(&self) -> bool {
        self.team.has_sleeper() || self.is_lost.load(Ordering::SeqCst)
    }

    /// Take the baton for the thread of `slot`, if it is free; the health thread leaves it to threads that may serve.
    pub(super) fn take_baton_as(&self, slot: usize) -> Option<Held<'_, H>> {
        if self.team.is_health_thread(slot) && self.relieves_health_thread() {
            self.team.wake_one();
            return None;
        }
        self.baton.take()
    }

    /// On this thread, where nothing is ready: wait for events, or lay the baton down for a thread that is back.
    pub(super) fn wait_as_health_thread<'a>(&'a self, mut event_loop: Held<'a, H>, slot: usize) -> Option<Held<'a, H>> {
        if self.adopt_returned(&mut event_loop) || self.relieves_health_thread() {
            self.lay_down(event_loop);
            self.team.wake_one();
            return None;
        }
        self.wait(&mut event_loop, slot);
        Some(event_loop)
    }

    /// On this thread: leave what has come for the application to another one. Returns the connection if this thread may
    /// go on with it.
    pub(super) fn leave_to_others(
        &self,
        event_loop: &mut EventLoop<H>,
        key: Key,
        connection: Box<Connection<H>>,
    ) -> Option<Box<Connection<H>>> {
        if connection.is_for_application(&self.shared) {
            event_loop.keep_unread((key, connection));
            return None;
        }
        if connection.is_unread && connection.watched.is_none() {
            // This thread must not read bytes that were not there when it looked: the poller tells when some have come.
            event_loop.park(key, connection, &self.shared);
            return None;
        }
        Some(connection)
    }
}

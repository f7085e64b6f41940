//! The end of a loop: which clients are still accepted, which connections a successor gets, and which requests are answered
//! with 503 because no thread will serve them.

use super::acceptor::Accepting;
use super::event_loop::{Event, EventLoop, Keyed};
use crate::net::connections::connection::Phase;
use crate::net::connections::transport::Transport;
use crate::net::handler::Handler;
use crate::net::shared::Shared;

impl<H: Handler> EventLoop<H> {
    /// Accept no more, since other workers do; but accept one client at each listener for which the kernel woke this process
    /// alone. The listeners are closed at once: when the other workers stop, their queue must end, or clients in it would
    /// be reset later.
    pub fn leave(&mut self, shared: &Shared<H>) {
        self.acceptor.pause(Accepting::Closed, &self.poller);
        let listeners = std::mem::take(&mut self.acceptor.listeners);
        for index in std::mem::take(&mut self.acceptor.woken_for) {
            if let Some(listener) = listeners.get(index) {
                self.accept_last(listener, index, 1, shared);
            }
        }
        shared.process.note_closed();
    }

    /// [`EventLoop::leave`] if the supervisor has asked for it, without the interpreter, which a call may keep; not if a
    /// client is to be accepted first, which takes the interpreter.
    pub fn leave_detached(&mut self, shared: &Shared<H>) {
        if shared.process.leaves_clients() && self.acceptor.woken_for.is_empty() {
            self.leave(shared);
        }
    }

    /// Accept no more, close idle connections, and end at `deadline` at the latest.
    pub fn stop(&mut self, deadline: u64, shared: &Shared<H>) {
        if self.stop_at.replace(deadline).is_none() {
            self.queued.extend(self.table.waiting().into_iter().map(Event::Ready));
            self.acceptor.pause(Accepting::Closed, &self.poller);
        }
        // A successor accepts the clients that wait.
        if !shared.process.has_successor() && !self.acceptor.listeners.is_empty() {
            self.close_listeners(shared);
        }
    }

    /// Whether the loop is stopping and has no connections but `given_up` whose calls do not return.
    pub fn is_done(&self, given_up: usize) -> bool {
        // Connections with a pipelined request have a place in the table, too.
        self.stop_at.is_some() && self.table.count() <= given_up && self.queued.is_empty()
    }

    /// How many connections have an unfinished request. (After a stop idle ones remain only where the loop could not close
    /// them yet.)
    pub fn unfinished(&mut self) -> usize {
        let mut idle = 0;
        for key in self.table.waiting() {
            if let Some(connection) = self.table.take(key) {
                idle += usize::from(connection.phase == Phase::Idle);
                self.table.put(key, connection, u64::MAX);
            }
        }
        self.table.count() - idle
    }

    /// Take the waiting connections whose suspended answer belongs to the thread of `slot`. Nothing is sent any more, so
    /// connections with another incomplete answer that no thread will resume are reset.
    pub fn take_streams(&mut self, slot: usize) -> Vec<Keyed<H>> {
        let mut streams = Vec::new();
        for key in self.table.waiting() {
            match self.table.take(key) {
                Some(stream) if stream.owner() == Some(slot) => streams.push((key, stream)),
                Some(other) => {
                    if other.owner().is_none() && other.is_incomplete() {
                        other.transport.reset();
                    }
                    self.table.put(key, other, u64::MAX);
                }
                None => {}
            }
        }
        streams
    }

    /// Take the connections from which nothing was read, with the numbers of their listeners.
    pub fn take_unread(&mut self) -> Vec<(Transport, usize)> {
        self.release_unread();
        let waiting = self.table.waiting();
        let connections = waiting.into_iter().filter_map(|key| self.table.take(key));
        let unread = connections.filter(|connection| connection.is_unread);
        unread.map(|connection| (connection.transport.clone(), connection.listener)).collect()
    }

    /// No thread will serve any request: answer all that have begun with 503.
    pub fn answer_unserved(&mut self, shared: &Shared<H>) {
        for key in self.table.waiting() {
            if let Some(connection) = self.table.take(key) {
                connection.answer_unserved(shared);
            }
        }
        self.answer_untaken(shared);
    }

    /// No thread will serve the requests that wait for their turn: answer them with 503.
    pub fn answer_untaken(&mut self, shared: &Shared<H>) {
        for (_, connection) in self.pipelined.drain(..).chain(self.unread.drain(..)) {
            connection.answer_unserved(shared);
        }
    }
}

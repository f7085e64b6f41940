//! Accepting clients: how many in a turn, which of them get a place, and which connection is cut to make room for one.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::acceptor::Accepting;
use super::event_loop::{EventLoop, Keyed};
use super::listener::{Accepted, HANDSHAKE, Listener};
use crate::net::connections::connection::Connection;
use crate::net::connections::own_answers;
use crate::net::connections::transport::Transport;
use crate::net::handler::Handler;
use crate::net::proxies::per_address::Place;
use crate::net::shared::Shared;

/// Most clients that are accepted in one turn.
const ACCEPTS: usize = 32;
/// Most clients that are taken from the queue of each listener at a stop: the longest `backlog` and one.
const LAST_ACCEPTS: usize = 65536;

impl<H: Handler> EventLoop<H> {
    /// Accept clients that wait at `listener`. Each connection is read after the events of this batch: its request has often
    /// come by then, which saves an event; the next client at the listener does not wait for its call; and a successor may
    /// still take it over unread.
    pub fn accept(&mut self, listener: usize, shared: &Shared<H>) {
        let most = self.most_accepts(shared);
        for number in 0..most {
            // As a rule one client waits. To ask costs a fifth of an accept in vain, for which the kernel makes a socket.
            if number == 1 && !self.has_client(listener) {
                return;
            }
            let Some((key, connection)) = self.accept_one(listener, shared) else { return };
            let deadline = connection.deadline(shared);
            self.table.put(key, connection, deadline);
            self.poller.put_last(key.token());
        }
        self.crowded = Some(listener);
    }

    /// Whether a client waits at a listener where the last turn left some behind.
    pub(super) fn is_crowded(&mut self) -> bool {
        self.crowded.take().is_some_and(|listener| self.has_client(listener))
    }

    fn has_client(&self, listener: usize) -> bool {
        self.acceptor.listeners.get(listener).is_some_and(Listener::has_client)
    }

    fn most_accepts(&self, shared: &Shared<H>) -> usize {
        match (self.acceptor.has_pauses(), shared.limits.has_neighbours) {
            // An accept pause may begin before a second client would be served.
            (true, _) => 1,
            // Another process may be free sooner: accept no more clients than have asked here.
            (false, true) => self.batch_size.clamp(1, ACCEPTS),
            (false, false) => ACCEPTS,
        }
    }

    fn accept_one(&mut self, listener: usize, shared: &Shared<H>) -> Option<Keyed<H>> {
        let was_woken = self.acceptor.woken_for.contains(&listener);
        if shared.process.is_supervised() && self.is_late() && !was_woken {
            // During a call perhaps no thread has read that new clients are for other workers now.
            shared.process.read_controls();
        }
        if !self.acceptor.is_open() || shared.process.leaves_clients() {
            return None;
        }
        self.acceptor.woken_for.retain(|&it| it != listener);
        if shared.limits.has_neighbours {
            self.acceptor.yield_to_others(self.table.count(), &self.poller);
        }
        let mut accepted = self.acceptor.accept_at(self.acceptor.listeners.get(listener)?);
        while matches!(accepted, Accepted::Failed(_)) && self.make_room(shared) {
            accepted = self.acceptor.accept_at(self.acceptor.listeners.get(listener)?);
        }
        if !matches!(accepted, Accepted::Failed(_) | Accepted::Paused) {
            self.acceptor.report_recovery(shared);
        }
        match accepted {
            Accepted::Connection(transport, peer) => return self.admit(transport, peer, listener, shared),
            Accepted::Nothing if was_woken => self.acceptor.drop_if_hung_up(listener, &self.poller),
            Accepted::Nothing => {}
            Accepted::Paused => self.acceptor.pause_shortly(&self.poller),
            Accepted::Failed(error) => self.acceptor.fail(error, &self.poller, shared),
        }
        None
    }

    /// Give a new connection a place, unless its client has too many.
    fn admit(
        &mut self,
        transport: Transport,
        peer: Option<SocketAddr>,
        listener: usize,
        shared: &Shared<H>,
    ) -> Option<Keyed<H>> {
        shared.row.counts.accepted.fetch_add(1, Ordering::Relaxed);
        let connection = Box::new(Connection::new(transport, peer, listener, &shared.proxies));
        if shared.proxies.proxy_protocol && !connection.peer.is_trusted && !shared.proxies.is_control(listener) {
            own_answers::lacks_proxy_header(shared, "its peer is not among trusted_proxies", peer);
            return None;
        }
        let place = self.per_address.add(connection.peer.counted(), shared.limits.max_connections_per_address);
        if place != Place::Taken {
            own_answers::refuse_connection(shared, &connection.transport, peer, place == Place::Full);
            return None;
        }
        if self.table.count() >= shared.limits.max_connections {
            self.make_room(shared);
        }
        let key = self.table.reserve(connection.transport.as_fd().as_raw_fd());
        let is_full = self.table.count() >= shared.limits.max_connections && self.evictable.is_empty();
        if is_full && self.acceptor.is_open() {
            // Not only when the next client comes: that is to wake another process.
            self.acceptor.pause(Accepting::Full, &self.poller);
        }
        self.show_count(shared);
        Some((key, connection))
    }

    /// Cut a lingering connection, whose place or descriptor is needed. Returns whether there was one.
    fn make_room(&mut self, shared: &Shared<H>) -> bool {
        let next = self.evictable.pop().and_then(|key| Some((key, self.table.take(key)?)));
        next.map(|(key, connection)| self.close(key, connection, shared)).is_some()
    }

    /// Go on with a connection that the program before this one accepted.
    pub fn adopt(&mut self, socket: OwnedFd, listener: usize, shared: &Shared<H>) {
        let Ok(peer) = rustix::net::getpeername(&socket) else { return }; // its client is disconnected
        let peer = peer.and_then(|peer| peer.try_into().ok());
        if let Some(keyed) = self.admit(Transport::new(socket), peer, listener, shared) {
            self.look_again(keyed);
        }
    }

    /// Accept the clients that wait at `listener`, at most `most`, although the process is leaving.
    pub(super) fn accept_last(&mut self, listener: &Listener, index: usize, most: usize, shared: &Shared<H>) {
        for _ in 0..most {
            let Accepted::Connection(transport, peer) = self.acceptor.accept_at(listener) else { break };
            if let Some(keyed) = self.admit(transport, peer, index, shared) {
                self.look_again(keyed);
            }
        }
    }

    /// Accept all clients that wait, since they are connected already, and close the listeners. All are accepted before the
    /// first is served, since a client that is answered may connect again at once.
    pub(super) fn close_listeners(&mut self, shared: &Shared<H>) {
        let listeners = std::mem::take(&mut self.acceptor.listeners);
        self.accept_all(&listeners, shared);
        // Only now: between `shut` and the close, clients that connect have to try again a second later.
        if !self.acceptor.has_pauses() && shared.process.is_last() {
            listeners.iter().for_each(Listener::shut);
            let until = Instant::now() + HANDSHAKE;
            self.accept_all(&listeners, shared);
            while Instant::now() < until {
                self.accept_all(&listeners, shared);
            }
        }
        // From here on the kernel refuses new clients.
        drop(listeners);
        shared.process.note_closed();
    }

    fn accept_all(&mut self, listeners: &[Listener], shared: &Shared<H>) {
        for (index, listener) in listeners.iter().enumerate() {
            self.accept_last(listener, index, LAST_ACCEPTS, shared);
        }
    }
}

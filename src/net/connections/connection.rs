//! One connection: its transport, its protocol, and what it waits for. It never blocks.
//!
//! The life of a request, read downward: [`Connection::advance`] receives and parses (`reading`), [`Connection::serve`] gives
//! the whole request to the application (`serving`), the outbox is flushed and perhaps the connection closed (`closing`). The
//! thread that holds the event loop advances connections. Serving needs the connection alone, so another thread can hold the
//! loop meanwhile.

use std::net::SocketAddr;

use super::lingering::{BEFORE_RESET, Lingering};
use super::outbox::Outbox;
use super::own_answers;
use super::scratch::{READ, Scratch};
use super::spool::Body;
use super::transport::{Interest, Transport};
use crate::http::protocol::Inbound;
use crate::http::reject::Reject;
use crate::net::clock;
use crate::net::handler::Handler;
use crate::net::proxies::peer::Peer;
use crate::net::proxies::policy::ProxyPolicy;
use crate::net::shared::Shared;

/// The phase of a connection: the event that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The next request.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a body.
    Body,
    /// The application.
    App,
    /// Room to write: the client must first take some bytes.
    Flush,
    /// The end of what the client sends, which is discarded.
    Linger,
}

/// What the event loop has to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Let it wait until its descriptor is ready or its deadline passes.
    Park,
    /// Let a thread serve it: [`Connection::serve`].
    Serve,
    /// End it.
    Close,
}

/// What follows when the outbox is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterFlush {
    /// The next request.
    Next,
    /// The connection is closed.
    Close,
    /// The connection is closed when the client has stopped sending.
    Linger,
}

/// A connection.
pub struct Connection<H: Handler> {
    /// Its socket.
    pub transport: Transport,
    /// The client, and what trusted proxies say about it.
    pub peer: Peer,
    /// The number of its listener.
    pub listener: usize,
    /// The event that it waits for.
    pub phase: Phase,
    pub(super) after_flush: AfterFlush,
    /// When the phase began, in ms of [`clock::now`].
    pub(super) since: u64,
    pub(super) inbound: Option<Box<Inbound<Body>>>,
    pub(super) outbox: Outbox,
    pub(super) stream: Option<Stream<H>>,
    pub(super) lingering: Lingering,
    /// Number of bytes that the client had still to take when its deadline was last set.
    pub(super) untaken: u32,
    /// Nothing was read from it yet.
    pub is_unread: bool,
    /// Its request was logged as a slow one.
    pub(super) was_slow: bool,
    /// It was idle after a stop had begun, and was looked at once more.
    pub was_looked_at: bool,
    /// What the poller watches its descriptor for.
    pub watched: Option<Interest>,
    /// It lingers and may be cut.
    pub is_evictable: bool,
}

/// A suspended answer, and the thread that resumes it.
pub(super) struct Stream<H: Handler> {
    pub(super) answer: H::Stream,
    pub(super) owner: usize,
}

impl<H: Handler> Connection<H> {
    /// A new connection of `peer` through the listener of this number.
    pub fn new(transport: Transport, peer: Option<SocketAddr>, listener: usize, proxies: &ProxyPolicy) -> Self {
        let peer = if proxies.is_control(listener) {
            Peer::new(peer, &ProxyPolicy::default())
        } else {
            Peer::new(peer, proxies)
        };
        Self {
            transport,
            // A proxy sends the header of the PROXY protocol at once.
            phase: if peer.awaits_header() { Phase::Head } else { Phase::Idle },
            peer,
            listener,
            after_flush: AfterFlush::Next,
            since: clock::now(),
            inbound: None,
            outbox: Outbox::default(),
            stream: None,
            lingering: Lingering::default(),
            untaken: 0,
            is_unread: true,
            was_slow: false,
            was_looked_at: false,
            watched: None,
            is_evictable: false,
        }
    }

    /// Its descriptor is ready: do all that needs neither the application nor waiting.
    pub fn advance(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        match self.phase {
            Phase::Idle | Phase::Head => self.receive(READ, shared, scratch),
            Phase::Body => self.receive_body(shared, scratch),
            Phase::App => Verdict::Serve,
            Phase::Flush => self.flush(shared, scratch),
            Phase::Linger => self.linger(shared, scratch),
        }
    }

    /// Its deadline has passed.
    pub fn late(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        // While all threads were in the application, bytes that came in time were not read.
        let reads = matches!(self.phase, Phase::Idle | Phase::Head | Phase::Body | Phase::Linger);
        if reads && !self.transport.peek().is_empty() {
            let verdict = self.advance(shared, scratch);
            if verdict != Verdict::Park || self.deadline(shared) > clock::now() {
                return verdict;
            }
        }
        match self.phase {
            Phase::Head if self.peer.awaits_header() => {
                own_answers::lacks_proxy_header(shared, "there was none within head_timeout", self.peer.address);
                Verdict::Close
            }
            Phase::Head => self.refuse(Reject::late("the head took longer than head_timeout"), shared, scratch),
            Phase::Body => self.refuse(Reject::late("the body paused for longer than body_timeout"), shared, scratch),
            // The kernel reports room only once a third of its buffer is free: a slow reader may still be reading.
            Phase::Flush if self.transport.unacknowledged() < self.untaken => Verdict::Park,
            // A stop does not wait: the kernel goes on sending.
            Phase::Linger if !shared.process.is_stopping() && self.is_taking() => self.enter_linger(),
            Phase::Linger if self.awaits_reset(shared) => Verdict::Park,
            Phase::Flush if self.stream.is_some() => {
                self.outbox.break_off();
                Verdict::Serve
            }
            Phase::Idle | Phase::App | Phase::Flush | Phase::Linger => Verdict::Close,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = clock::now();
    }

    /// Until when it may wait, in ms of [`clock::now`].
    pub fn deadline(&self, shared: &Shared<H>) -> u64 {
        let limits = &shared.limits;
        match self.phase {
            // Without keep-alive the only request may take as long as its head.
            Phase::Idle if limits.keepalive_timeout == 0 => self.since + limits.head_timeout,
            Phase::Idle => self.since + limits.keepalive_timeout,
            Phase::Head => self.since + limits.head_timeout,
            Phase::Body => clock::now() + limits.body_timeout,
            Phase::App => u64::MAX,
            Phase::Flush => clock::now() + limits.write_timeout,
            Phase::Linger if self.transport.ends_by_reset() => self.since + BEFORE_RESET,
            // No connection delays a stop for longer.
            Phase::Linger if shared.process.is_stopping() => self.since + limits.linger_timeout,
            Phase::Linger => clock::now() + self.lingering.patience(limits),
        }
    }

    /// What to watch its descriptor for; none: it is not watched.
    pub fn interest(&self) -> Option<Interest> {
        match self.phase {
            Phase::Flush => Some(Interest::Write),
            // The kernel would report the end of the stream again and again.
            Phase::Linger if self.lingering.has_ended => None,
            _ => Some(Interest::Read),
        }
    }

    /// Note how many bytes the client has still to take.
    pub fn note_untaken(&mut self) {
        self.untaken = self.transport.unacknowledged();
    }

    /// Number of bytes of memory that it keeps.
    pub fn memory(&self) -> usize {
        self.outbox.memory() + self.inbound.as_ref().map_or(0, |inbound| inbound.held())
    }

    /// Whether nothing was read from it and the received bytes are for the application, and not a health check.
    pub fn is_for_application(&self, shared: &Shared<H>) -> bool {
        self.is_unread && {
            let begin = self.transport.peek();
            if begin.is_empty() {
                // A watchdog may connect and end without a request; our end tells it that a thread serves.
                self.transport.has_ended()
            } else {
                // A request behind the header of the PROXY protocol is not looked for.
                !self.peer.awaits_header() && !shared.proxies.begins_health(&begin)
            }
        }
    }

    /// Whether its phase began less than `milliseconds` ago.
    pub fn is_fresh(&self, milliseconds: u64) -> bool {
        clock::now() < self.since + milliseconds
    }

    /// The thread that must serve it, if only one may.
    pub fn owner(&self) -> Option<usize> {
        self.stream.as_ref().map(|stream| stream.owner)
    }

    /// Whether an answer has begun and its client has not got all of it.
    pub fn is_incomplete(&self) -> bool {
        self.outbox.is_incomplete()
    }

    /// Send nothing more: the suspended answer only has to be cleaned up.
    pub fn break_off(&mut self) {
        self.outbox.break_off();
    }
}

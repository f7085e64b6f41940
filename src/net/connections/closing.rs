//! Sending what is in the outbox and ending a connection: flush, linger, refuse, reset. A client must be able to read the last
//! answer although it may still send, and must not take an incomplete answer for a complete one.

use super::connection::{AfterFlush, Connection, Phase, Verdict};
use super::lingering::Lingering;
use super::outbox::Flushed;
use super::own_answers;
use super::scratch::{READ, Scratch};
use super::transport::Received;
use crate::http::head::RequestHead;
use crate::http::reject::Reject;
use crate::net::clock;
use crate::net::handler::Handler;
use crate::net::shared::Shared;

/// Most bytes that are read and dropped before a request is answered that no thread will serve, in order not to reset the
/// connection.
const UNREAD: usize = 1024 * 1024;

/// Method and target of a request, for the log; none if they could not be read.
fn request_line(head: &RequestHead, bytes: &[u8]) -> Option<String> {
    let (method, target) = (head.method.of(bytes), head.target.of(bytes));
    let is_there = !method.is_empty() && !target.is_empty();
    is_there.then(|| format!("{} {}", String::from_utf8_lossy(method), String::from_utf8_lossy(target)))
}

/// Whether a request, which may be malformed, has the method HEAD. An empty line may precede it (RFC 9112 2.2).
fn is_to_head(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"\r\n").unwrap_or(bytes).starts_with(b"HEAD ")
}

impl<H: Handler> Connection<H> {
    /// Send the outbox, then do what `after` says.
    pub(super) fn send_and(&mut self, after: AfterFlush) -> Verdict {
        self.after_flush = after;
        self.wait_for_room()
    }

    /// Wait until the client takes bytes. Its deadline counts from the last bytes that it took, so `since` stays.
    pub(super) fn wait_for_room(&mut self) -> Verdict {
        self.phase = Phase::Flush;
        Verdict::Park
    }

    /// Send as much as the client takes. When everything is sent, go on with what follows.
    pub(super) fn flush(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        let memory = self.outbox.memory();
        let is_last = self.after_flush != AfterFlush::Next && self.stream.is_none();
        let flushed =
            if is_last { self.outbox.flush_last(&self.transport) } else { self.outbox.flush(&self.transport) };
        match flushed {
            Flushed::Pending => self.park(scratch),
            Flushed::Broken | Flushed::Drained if self.stream.is_some() => Verdict::Serve,
            Flushed::Broken => Verdict::Close,
            Flushed::Drained => {
                shared.note_freed(memory);
                let is_incomplete = self.outbox.is_incomplete();
                scratch.take_outbound(&mut self.outbox);
                if self.after_flush == AfterFlush::Next {
                    return self.next_request(shared, scratch);
                }
                self.return_inbound(shared, scratch);
                self.finish(is_incomplete)
            }
        }
    }

    /// The answer is sent. A whole request behind it is served in a turn of its own.
    fn next_request(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        self.enter(Phase::Idle);
        match &self.inbound {
            Some(inbound) if !inbound.is_empty() || inbound.has_begun() => self.parse(shared, scratch),
            _ => self.park(scratch),
        }
    }

    /// The last answer is sent: end the connection.
    fn finish(&mut self, is_incomplete: bool) -> Verdict {
        if is_incomplete {
            self.transport.reset_unless_finished();
            return self.enter_linger();
        }
        let lingers = self.after_flush == AfterFlush::Linger;
        if self.peer.address.is_none() && !lingers {
            // `close` alone is the same on a unix socket, and wakes the client once less.
            return Verdict::Close;
        }
        // The answer and the end leave in one packet. So they would with `close` alone; but `close` drops the answer if the
        // client has sent more meanwhile, and, if the client does so later, the bytes that it has no room for yet.
        self.transport.finish();
        if lingers || self.transport.has_unsent() { self.enter_linger() } else { Verdict::Close }
    }

    pub(super) fn enter_linger(&mut self) -> Verdict {
        self.note_untaken();
        self.enter(Phase::Linger);
        Verdict::Park
    }

    /// Discard some of the received bytes; the rest waits for the next turn.
    pub(super) fn linger(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        scratch.spare.resize(READ, 0);
        match self.transport.discard(&mut scratch.spare) {
            Received::Bytes(count) => self.lingering.note(count),
            Received::Nothing => return Verdict::Park,
            Received::End => {
                // A client that sends no more may still read: a reset now would overtake the answer.
                self.lingering.has_ended = true;
                return if self.awaits_reset(shared) { Verdict::Park } else { Verdict::Close };
            }
        }
        let elapsed = clock::now() - self.since;
        // A client that is busy reading a long answer may send little meanwhile.
        let is_too_slow = self.lingering.is_too_slow(elapsed, &shared.limits) && !self.is_taking();
        if is_too_slow || self.lingering.is_over(elapsed) { Verdict::Close } else { Verdict::Park }
    }

    /// Whether the client has taken some bytes since [`Connection::note_untaken`], and not all.
    pub(super) fn is_taking(&self) -> bool {
        (1..self.untaken).contains(&self.transport.unacknowledged())
    }

    /// Whether a reset now would overtake the last bytes of an incomplete answer.
    pub(super) fn awaits_reset(&self, shared: &Shared<H>) -> bool {
        let is_early = clock::now() < self.since + shared.limits.linger_timeout;
        self.transport.ends_by_reset()
            && is_early
            && !shared.process.is_stopping()
            && self.transport.unacknowledged() > 0
    }

    /// Refuse a request: answer with the status of `reject`, linger so that the client can read the answer, and close.
    pub(super) fn refuse(&mut self, reject: Reject, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        let is_head = self.inbound.as_ref().is_some_and(|inbound| is_to_head(inbound.head_bytes()));
        let line = self.inbound.as_ref().and_then(|inbound| {
            self.peer.identify(inbound.head(), inbound.head_bytes(), &shared.proxies);
            request_line(inbound.head(), inbound.head_bytes())
        });
        let done = own_answers::refuse(shared, reject, is_head, &self.peer, line, &mut self.outbox);
        self.log(done, shared);
        // The rest of a request that came too late is not waited for.
        let announced = self.inbound.as_ref().filter(|_| reject.status != 408).map_or(0, |inbound| inbound.announced());
        self.lingering = Lingering::new(announced);
        self.answer_and_close(shared, scratch)
    }

    /// The handler panicked: answer 500, unless an answer has begun.
    pub fn fail(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        self.stream = None;
        if matches!(self.phase, Phase::Flush | Phase::Linger) || self.outbox.is_broken() {
            return Verdict::Close;
        }
        if self.outbox.is_untouched() {
            own_answers::fail(shared, &self.peer, &mut self.outbox);
        }
        self.answer_and_close(shared, scratch)
    }

    fn answer_and_close(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        self.return_inbound(shared, scratch);
        self.send_and(AfterFlush::Linger);
        self.flush(shared, scratch)
    }

    /// No thread will serve this connection. If a request has begun, answer it with 503 (RFC 9110 15.6.4), so that the client
    /// knows that it was not served.
    pub fn answer_unserved(&self, shared: &Shared<H>) {
        let mut begin = self.transport.peek();
        if let Some(inbound) = &self.inbound {
            begin.splice(..0, inbound.head_bytes().iter().copied());
        }
        let waits = matches!(self.phase, Phase::Idle | Phase::Head | Phase::Body | Phase::App) && self.stream.is_none();
        if !waits || begin.is_empty() || self.peer.awaits_header() {
            return;
        }
        // Closing with unread bytes would reset the connection, and the client could lose the answer.
        let mut unread = Vec::with_capacity(READ);
        while unread.len() < UNREAD && matches!(self.transport.receive(&mut unread), Received::Bytes(_)) {
            unread.reserve(READ);
        }
        own_answers::unserved(shared, &self.transport, is_to_head(&begin));
    }
}

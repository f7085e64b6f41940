//! Reading a request: receive bytes, parse them, and say when the request is whole. Does not know how it is answered.

use super::connection::{AfterFlush, Connection, Phase, Verdict};
use super::outbox::Flushed;
use super::own_answers;
use super::scratch::{READ, READ_OF_BODY, Scratch};
use super::transport::Received;
use crate::http::protocol::Step;
use crate::http::reject::Reject;
use crate::http::response::CONTINUE;
use crate::net::clock;
use crate::net::handler::Handler;
use crate::net::shared::Shared;

impl<H: Handler> Connection<H> {
    /// Bytes of a body can be read.
    pub(super) fn receive_body(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        let announced = self.inbound.as_ref().map_or(0, |inbound| inbound.announced());
        let room = usize::try_from(announced).unwrap_or(usize::MAX).clamp(READ, READ_OF_BODY);
        self.receive(room, shared, scratch)
    }

    /// Bytes can be read, of which at least `room` are to find room.
    pub(super) fn receive(&mut self, room: usize, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        let mut inbound = self.inbound.take().unwrap_or_else(|| scratch.lend_inbound());
        inbound.make_room(room, &mut scratch.spare);
        let received = self.transport.receive(inbound.buffer());
        self.inbound = Some(inbound);
        self.is_unread &= received == Received::Nothing;
        match received {
            Received::Bytes(_) if self.peer.awaits_header() => self.read_proxy_header(shared, scratch),
            Received::Bytes(_) => self.parse(shared, scratch),
            Received::Nothing => self.park(scratch),
            Received::End => {
                self.return_inbound(shared, scratch);
                Verdict::Close
            }
        }
    }

    /// A connection that does not begin with the header of the PROXY protocol is closed, as its section 2 demands.
    fn read_proxy_header(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        let Some(inbound) = &mut self.inbound else { return self.park(scratch) };
        match self.peer.read_header(inbound.buffer(), shared.limits.max_head, &shared.proxies) {
            Ok(true) => {
                self.enter(Phase::Idle);
                self.parse(shared, scratch)
            }
            Ok(false) => self.park(scratch),
            Err(fault) => {
                own_answers::lacks_proxy_header(shared, fault, self.peer.address);
                self.return_inbound(shared, scratch);
                Verdict::Close
            }
        }
    }

    /// Parse received bytes up to the verdict about them.
    pub(super) fn parse(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        loop {
            let Some(step) = self.step(shared) else { return self.park(scratch) };
            match step {
                Ok(Step::Whole) => {
                    if self.asks_health(shared) && self.inbound.as_ref().is_some_and(|inbound| inbound.is_last()) {
                        return self.answer_health(shared, scratch);
                    }
                    self.enter(Phase::App);
                    return Verdict::Serve;
                }
                Ok(Step::Continue) => {
                    self.outbox.bytes.extend_from_slice(CONTINUE);
                    if self.outbox.flush(&self.transport) != Flushed::Drained {
                        return self.send_and(AfterFlush::Next);
                    }
                }
                Ok(Step::More) => return self.wait_for_more(shared, scratch),
                Err(reject) => return self.refuse(reject, shared, scratch),
            }
        }
    }

    /// Parse the next part of a request. As soon as the head is there, learn the client from it: an error in its fields is
    /// reported before the body has come, and before any error in the body, however the bytes are cut.
    pub(super) fn step(&mut self, shared: &Shared<H>) -> Option<Result<Step, Reject>> {
        let inbound = self.inbound.as_mut()?;
        let step = inbound.advance(&shared.limits);
        if inbound.has_head() {
            if let Err(reject) = self.peer.read_fields(inbound.head(), inbound.head_bytes(), &shared.proxies) {
                return Some(Err(reject));
            }
        }
        Some(step)
    }

    fn wait_for_more(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        let Some(inbound) = &self.inbound else { return self.park(scratch) };
        let phase = match (inbound.in_body(), inbound.has_begun()) {
            (true, _) => Phase::Body,
            (false, true) => Phase::Head,
            (false, false) => Phase::Idle,
        };
        let is_body = phase == Phase::Body && self.phase == Phase::Body;
        if is_body && shared.limits.is_too_slow(inbound.body_received, clock::now() - self.since) {
            return self.refuse(Reject::late("the body comes more slowly than body_rate"), shared, scratch);
        }
        if phase != self.phase {
            self.enter(phase);
        }
        self.park(scratch)
    }

    /// Wait with as little memory as possible.
    pub(super) fn park(&mut self, scratch: &mut Scratch<H>) -> Verdict {
        match &mut self.inbound {
            Some(inbound) if !inbound.is_empty() || inbound.has_begun() => scratch.pack(inbound),
            _ => {
                if let Some(inbound) = self.inbound.take() {
                    scratch.keep_inbound(inbound);
                }
            }
        }
        Verdict::Park
    }

    /// Nothing more is read: give the receiver back.
    pub(super) fn return_inbound(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) {
        if let Some(mut inbound) = self.inbound.take() {
            shared.note_freed(inbound.held());
            inbound.clear();
            scratch.keep_inbound(inbound);
        }
    }
}

//! Serving whole requests: call the application or resume its answer, log it, and go on with the request behind it. Needs no
//! event loop, so that another thread can hold that meanwhile.

use std::sync::atomic::Ordering;

use super::connection::{AfterFlush, Connection, Phase, Stream, Verdict};
use super::own_answers;
use super::scratch::Scratch;
use crate::http::protocol::Step;
use crate::http::response::{Asked, CONTINUE};
use crate::net::clock;
use crate::net::handler::{Done, Handler, Outcome, Request, Resumed, Thread};
use crate::net::report::access_log::Entry;
use crate::net::report::scoreboard::Served;
use crate::net::shared::Shared;

/// Time in which pipelined requests of one client are answered without a pause for other clients, in ms.
const PIPELINED_TIME: u64 = 10;

impl<H: Handler> Connection<H> {
    /// Serve the whole request and the pipelined ones behind it, or resume an answer. Never returns [`Verdict::Serve`].
    pub fn serve(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        scratch.lend_outbound(&mut self.outbox);
        let mut verdict = self.answer(shared, &mut scratch.thread);
        // The turn begins with the first call.
        let began = scratch.thread.pulse.began();
        while verdict.is_none() {
            let has_more = self.inbound.as_ref().is_some_and(|inbound| !inbound.is_empty());
            let step = if has_more && clock::now() <= began + PIPELINED_TIME { self.step(shared) } else { None };
            verdict = match step {
                Some(Ok(Step::Whole)) => self.answer(shared, &mut scratch.thread),
                Some(Ok(Step::Continue)) => {
                    self.outbox.bytes.extend_from_slice(CONTINUE);
                    None
                }
                Some(Ok(Step::More)) | None => Some(self.send_and(AfterFlush::Next)),
                Some(Err(reject)) => Some(self.refuse(reject, shared, scratch)),
            };
        }
        scratch.thread.pulse.rest();
        if self.phase == Phase::Flush && self.stream.is_none() {
            verdict = Some(self.flush(shared, scratch));
        } else if self.outbox.is_empty() {
            scratch.take_outbound(&mut self.outbox);
        }
        if self.stream.is_some() {
            self.park(scratch);
        }
        verdict.unwrap_or(Verdict::Close)
    }

    /// Answer one request, or give the next part of an answer. None: go on with the next request.
    fn answer(&mut self, shared: &Shared<H>, thread: &mut Thread<H::ThreadState>) -> Option<Verdict> {
        let began = thread.pulse.begin();
        let outcome = match self.stream.take() {
            Some(stream) => self.resume(stream.answer, shared, thread, began),
            None => self.call(shared, thread, began)?,
        };
        match outcome {
            Outcome::Suspended(answer) => {
                self.was_slow |= shared.row.was_told(thread.slot, began);
                self.stream = Some(Stream { answer, owner: thread.slot });
                Some(self.wait_for_room())
            }
            Outcome::Done(done) => {
                // The application is not to blame for what follows, such as waiting for a log that nobody reads.
                thread.pulse.rest();
                self.conclude(done, shared)
            }
        }
    }

    fn resume(
        &mut self,
        stream: H::Stream,
        shared: &Shared<H>,
        thread: &mut Thread<H::ThreadState>,
        began: u64,
    ) -> Outcome<H::Stream> {
        let resumed = Resumed { transport: &self.transport, thread };
        if let Some(inbound) = &self.inbound {
            let (head, bytes) = (inbound.head(), inbound.head_bytes());
            let served = Served { began, head, bytes, peer: &self.peer, is_told: self.was_slow };
            shared.row.show(resumed.thread.slot, &served);
        }
        shared.handler.resume(stream, resumed, &mut self.outbox)
    }

    fn call(
        &mut self,
        shared: &Shared<H>,
        thread: &mut Thread<H::ThreadState>,
        began: u64,
    ) -> Option<Outcome<H::Stream>> {
        let asked = self.asked(shared);
        if self.asks_health(shared) {
            return Some(Outcome::Done(own_answers::health(shared, asked, &self.peer, &mut self.outbox)));
        }
        let inbound = self.inbound.as_mut()?;
        let (head, bytes, body) = inbound.request();
        if head.asterisk {
            return Some(Outcome::Done(own_answers::asterisk(shared, asked, &self.peer, &mut self.outbox)));
        }
        let (peer, listener, transport) = (&self.peer, self.listener, &self.transport);
        let asks_status = peer.is_for_status(head, bytes, listener, &shared.proxies);
        let id = peer.answered_id(&shared.proxies);
        shared.row.show(thread.slot, &Served { began, head, bytes, peer, is_told: false });
        let request = Request { head, bytes, body, peer, listener, transport, asked, id, asks_status, thread };
        Some(shared.handler.call(request, &mut self.outbox))
    }

    /// The answer is complete: log it and decide what follows. None: go on with the next request.
    fn conclude(&mut self, done: Done, shared: &Shared<H>) -> Option<Verdict> {
        // Health checks come every few seconds for ever, and are not logged.
        if !self.asks_health(shared) {
            shared.count_request(done.status);
            self.log(done, shared);
        }
        self.was_slow = false;
        self.peer.end_request();
        let head = self.inbound.as_ref().map(|inbound| inbound.head());
        let client_goes_on = head.is_some_and(|head| head.persistent);
        if let Some(dropped @ 1..) = head.map(|head| head.dropped) {
            shared.row.counts.dropped.fetch_add(dropped.into(), Ordering::Relaxed);
        }
        if let Some(inbound) = &mut self.inbound {
            let answered = usize::try_from(done.length).unwrap_or(usize::MAX);
            shared.note_freed(inbound.held().saturating_add(answered));
            inbound.next_request();
        }
        if !done.persistent {
            // Bytes that the client sent behind this request, or sends before it has read the answer, must be read: else
            // closing would reset the connection and the client could lose the answer (RFC 9112 9.6). A client that asked
            // for the close itself sends no more.
            let more_came = self.inbound.as_ref().is_some_and(|inbound| !inbound.is_empty());
            let lingers = more_came || client_goes_on;
            return Some(self.send_and(if lingers { AfterFlush::Linger } else { AfterFlush::Close }));
        }
        (self.outbox.is_full() || self.outbox.is_broken()).then(|| self.send_and(AfterFlush::Next))
    }

    pub(super) fn log(&self, done: Done, shared: &Shared<H>) {
        if let Some(inbound) = self.inbound.as_ref().filter(|_| shared.access_log.is_on()) {
            let id = Some(self.peer.id()).filter(|id| !id.is_empty());
            let (peer, head, bytes) = (self.peer.client(), inbound.head(), inbound.head_bytes());
            let entry = Entry { peer, head, bytes, id, status: done.status, length: done.length };
            if shared.access_log.record(&entry, |second| shared.handler.utc_offset(second)) {
                shared.handler.detached(|| shared.flush_log());
            }
        }
    }

    /// Whether the whole request is a health check.
    pub(super) fn asks_health(&self, shared: &Shared<H>) -> bool {
        let inbound = self.inbound.as_ref();
        inbound.is_some_and(|inbound| shared.proxies.is_health(inbound.head(), inbound.head_bytes()))
    }

    /// Answer a health check without the application and without waiting for a free thread.
    pub(super) fn answer_health(&mut self, shared: &Shared<H>, scratch: &mut Scratch<H>) -> Verdict {
        scratch.lend_outbound(&mut self.outbox);
        let done = own_answers::health(shared, self.asked(shared), &self.peer, &mut self.outbox);
        if self.conclude(done, shared).is_none() {
            self.send_and(AfterFlush::Next);
        }
        self.flush(shared, scratch)
    }

    /// What decides the framing of the answer.
    fn asked(&self, shared: &Shared<H>) -> Asked {
        self.inbound.as_ref().map_or_else(Asked::default, |inbound| Asked {
            is_head: inbound.head().method.of(inbound.head_bytes()) == b"HEAD",
            version: inbound.head().version,
            persistent: inbound.head().persistent && shared.keeps_alive(),
        })
    }
}

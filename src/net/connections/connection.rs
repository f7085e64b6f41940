//! One connection: its transport, its protocol, and what it waits for.
//!
//! [`Connection::advance`] is one request's life, read downward: receive and parse, give to the application
//! ([`Connection::serve`]), flush, linger. It never blocks. The thread that holds the event loop advances connections;
//! serving needs no more than the connection itself, so it happens with the loop handed on.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::Ordering;

use super::lingering::{BEFORE_RESET, Lingering};
use super::outbox::{Flushed, Outbox};
use super::spool::Body;
use super::transport::{Received, Transport};
use crate::http::head::RequestHead;
use crate::http::protocol::{Inbound, Step};
use crate::http::reject::Reject;
use crate::http::response::{Asked, CONTINUE};
use crate::net::clock;
use crate::net::events::poller::Interest;
use crate::net::handler::{Done, Handler, Outcome, Request, Resumed, Thread};
use crate::net::proxies::front::Fronts;
use crate::net::proxies::peer::Peer;
use crate::net::report::access_log::Entry;
use crate::net::report::board::Served;
use crate::net::threads::shared::Shared;

/// Bytes read at once.
const READ: usize = 64 * 1024;
/// Largest buffer that a thread keeps for its next request.
const POOLED: usize = 4 * READ;
/// Time in which one client's requests are answered one after another before others have their turn, in ms.
const TURN: u64 = 10;
/// Bytes that are read, so that they do not reset the connection, before a request is answered that nobody will serve.
const UNREAD: usize = 1024 * 1024;

/// What a connection waits for.
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
    /// Room to write.
    Flush,
    /// The client to take the last answer, and to stop sending.
    Linger,
}

/// What the event loop has to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Keep it until it is ready, or late.
    Park,
    /// A thread must serve it: [`Connection::serve`].
    Serve,
    /// It is over.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterFlush {
    Next,
    Close,
    Linger,
}

/// What a thread lends to the connection it works on, so that one which waits holds almost no memory.
pub struct Desk<H: Handler> {
    inbound: Option<Box<Inbound<Body>>>,
    outbound: Vec<u8>,
    /// For what is received next; emptied before.
    spare: Vec<u8>,
    /// The thread.
    pub thread: Thread<H::Seat>,
}

impl<H: Handler> Desk<H> {
    /// That of `thread`.
    pub fn new(thread: Thread<H::Seat>) -> Self {
        Self { inbound: None, outbound: Vec::new(), spare: Vec::new(), thread }
    }

    /// Keep what received a request, and is empty, for the next one.
    fn keep(&mut self, mut inbound: Box<Inbound<Body>>) {
        self.inbound = (inbound.buffer().capacity() <= POOLED).then_some(inbound);
    }
}

/// A connection.
pub struct Connection<H: Handler> {
    transport: Transport,
    peer: Peer,
    listener: usize,
    phase: Phase,
    after_flush: AfterFlush,
    /// When the phase began, in ms of [`clock::now`].
    since: u64,
    inbound: Option<Box<Inbound<Body>>>,
    outbox: Outbox,
    stream: Option<Stream<H>>,
    lingering: Lingering,
    /// Bytes that the client had still to take when its deadline was last set.
    untaken: u32,
    /// Nothing has been read of it yet.
    pub is_unread: bool,
    /// Its request was logged as a slow one.
    is_told: bool,
    /// It was idle after a stop had begun, and was looked at once more.
    pub was_looked_at: bool,
    /// What the poller watches its descriptor for.
    pub watched: Option<Interest>,
    /// It was noted as one that lingers.
    pub is_expendable: bool,
}

/// An answer that waits for its client, and whose it is.
struct Stream<H: Handler> {
    answer: H::Stream,
    owner: usize,
}

/// Method and target of a request, for the log; none where they could not be read.
fn request_line(head: &RequestHead, bytes: &[u8]) -> Option<String> {
    let (method, target) = (head.method.of(bytes), head.target.of(bytes));
    let is_there = !method.is_empty() && !target.is_empty();
    is_there.then(|| format!("{} {}", String::from_utf8_lossy(method), String::from_utf8_lossy(target)))
}

/// Whether a request that may be wrong asks for a head only. One empty line may precede it (RFC 9112 2.2).
fn is_to_head(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"\r\n").unwrap_or(bytes).starts_with(b"HEAD ")
}

impl<H: Handler> Connection<H> {
    /// A connection that was just accepted.
    pub fn new(transport: Transport, peer: Option<SocketAddr>, listener: usize, fronts: &Fronts) -> Self {
        let peer = if fronts.is_own(listener) { Peer::new(peer, &Fronts::default()) } else { Peer::new(peer, fronts) };
        Self {
            transport,
            // The header of the PROXY protocol is sent at once.
            phase: if peer.is_awaited() { Phase::Head } else { Phase::Idle },
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
            is_told: false,
            was_looked_at: false,
            watched: None,
            is_expendable: false,
        }
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.transport.as_fd().as_raw_fd()
    }

    /// Its transport.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The number of its listener.
    pub fn listener(&self) -> usize {
        self.listener
    }

    /// Its peer.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// How many bytes it holds for its client.
    pub fn held(&self) -> usize {
        self.outbox.held() + self.inbound.as_ref().map_or(0, |inbound| inbound.held())
    }

    /// Whether it waits for a new request only.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether all that it waits for is that its client has sent and read enough.
    pub fn lingers(&self) -> bool {
        self.phase == Phase::Linger
    }

    /// Whether what has come is for a thread that serves, and nothing of it was read: somebody else may still read it.
    pub fn is_for_application(&self, shared: &Shared<H>) -> bool {
        self.is_unread && {
            let begin = self.transport.peek();
            if begin.is_empty() {
                // Who ends without a word learns by our end that somebody serves: so a watchdog asks.
                self.transport.has_ended()
            } else {
                // What stands behind the header of the PROXY protocol is not looked for.
                !self.peer.is_awaited() && !shared.fronts.begins_health(&begin)
            }
        }
    }

    /// Whether what it waits for has been awaited for less than `milliseconds`.
    pub fn is_fresh(&self, milliseconds: u64) -> bool {
        clock::now() < self.since + milliseconds
    }

    /// The thread that must serve it, if only one may.
    pub fn owner(&self) -> Option<usize> {
        self.stream.as_ref().map(|stream| stream.owner)
    }

    /// Whether its client has not got all of an answer that has begun.
    pub fn is_unfinished(&self) -> bool {
        self.outbox.is_unfinished()
    }

    /// Send nothing more: its stream only has to be cleaned up.
    pub fn break_off(&mut self) {
        self.outbox.break_off();
    }

    /// What to watch its descriptor for. None: it is not watched.
    pub fn interest(&self) -> Option<Interest> {
        match self.phase {
            Phase::Flush => Some(Interest::Write),
            // The kernel would tell the end of the stream without pause.
            Phase::Linger if self.lingering.has_ended => None,
            _ => Some(Interest::Read),
        }
    }

    /// Note how much the client has still to take.
    pub fn note_untaken(&mut self) {
        self.untaken = self.transport.unacknowledged();
    }

    /// When it will have waited too long.
    pub fn deadline(&self, shared: &Shared<H>) -> u64 {
        let limits = &shared.limits;
        match self.phase {
            // Without keep-alive only the first request is waited for, as long as for a head.
            Phase::Idle if limits.keepalive_timeout == 0 => self.since + limits.head_timeout,
            Phase::Idle => self.since + limits.keepalive_timeout,
            Phase::Head => self.since + limits.head_timeout,
            Phase::Body => clock::now() + limits.body_timeout,
            Phase::App => u64::MAX,
            Phase::Flush => clock::now() + limits.write_timeout,
            Phase::Linger if self.transport.is_held() => self.since + BEFORE_RESET,
            // A stop is held up by none for longer than that.
            Phase::Linger if shared.is_stopping() => self.since + limits.linger_timeout,
            Phase::Linger => clock::now() + self.lingering.patience(limits),
        }
    }

    /// Its descriptor is ready: do what can be done without the application and without waiting.
    pub fn advance(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        match self.phase {
            Phase::Idle | Phase::Head | Phase::Body => self.receive(shared, desk),
            Phase::App => Verdict::Serve,
            Phase::Flush => self.flush(shared, desk),
            Phase::Linger => self.linger(shared, desk),
        }
    }

    /// Its deadline came.
    pub fn late(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        // What came in time lies unread where all threads were in the application meanwhile.
        let reads = matches!(self.phase, Phase::Idle | Phase::Head | Phase::Body | Phase::Linger);
        if reads && !self.transport.peek().is_empty() {
            let verdict = self.advance(shared, desk);
            if verdict != Verdict::Park || self.deadline(shared) > clock::now() {
                return verdict;
            }
        }
        match self.phase {
            Phase::Head if self.peer.is_awaited() => {
                shared.refuse_introduction("there was none within head_timeout", self.peer.address);
                Verdict::Close
            }
            Phase::Head => self.refuse(Reject::late("the head took longer than head_timeout"), shared, desk),
            Phase::Body => self.refuse(Reject::late("the body paused for longer than body_timeout"), shared, desk),
            // There is room to write only once a third of the buffer is free: a slow reader is not a dead one.
            Phase::Flush if self.transport.unacknowledged() < self.untaken => Verdict::Park,
            // A stop waits for none: the kernel goes on sending.
            Phase::Linger if !shared.is_stopping() && self.is_taking() => self.enter_linger(),
            Phase::Linger if self.awaits_reset(shared) => Verdict::Park,
            Phase::Flush if self.stream.is_some() => {
                self.outbox.break_off();
                Verdict::Serve
            }
            Phase::Idle | Phase::App | Phase::Flush | Phase::Linger => Verdict::Close,
        }
    }

    fn receive(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        let mut inbound = self.inbound.take().or_else(|| desk.inbound.take()).unwrap_or_default();
        inbound.make_room(READ, &mut desk.spare);
        let received = self.transport.receive(inbound.buffer());
        self.inbound = Some(inbound);
        self.is_unread &= received == Received::Nothing;
        match received {
            Received::Bytes(_) if self.peer.is_awaited() => self.introduce(shared, desk),
            Received::Bytes(_) => self.parse(shared, desk),
            Received::Nothing => self.park(desk),
            Received::End => {
                self.return_inbound(shared, desk);
                Verdict::Close
            }
        }
    }

    /// Read the header of the PROXY protocol. What does not begin with one is cut off, as its section 2 has it.
    fn introduce(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        let Some(inbound) = &mut self.inbound else { return self.park(desk) };
        match self.peer.introduce(inbound.buffer(), shared.limits.max_head, &shared.fronts) {
            Ok(true) => {
                self.enter(Phase::Idle);
                self.parse(shared, desk)
            }
            Ok(false) => self.park(desk),
            Err(fault) => {
                shared.refuse_introduction(fault, self.peer.address);
                self.return_inbound(shared, desk);
                Verdict::Close
            }
        }
    }

    /// Read on in what was received. Once the head is there, learn whose request it is: a fault in that waits for no body,
    /// and comes before one of the body in whichever pieces both come.
    fn step(&mut self, shared: &Shared<H>) -> Option<Result<Step, Reject>> {
        let inbound = self.inbound.as_mut()?;
        let step = inbound.advance(&shared.limits);
        if inbound.has_head()
            && let Err(reject) = self.peer.hear(inbound.head(), inbound.head_bytes(), &shared.fronts)
        {
            return Some(Err(reject));
        }
        Some(step)
    }

    /// Read on in the bytes that are here.
    fn parse(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        loop {
            let Some(step) = self.step(shared) else { return self.park(desk) };
            match step {
                Ok(Step::Whole) => {
                    if self.asks_health(shared) && self.inbound.as_ref().is_some_and(|inbound| inbound.is_last()) {
                        return self.tell_health(shared, desk);
                    }
                    self.enter(Phase::App);
                    return Verdict::Serve;
                }
                Ok(Step::Continue) => {
                    self.outbox.bytes.extend_from_slice(CONTINUE);
                    if self.outbox.flush(&self.transport) != Flushed::Drained {
                        self.after_flush = AfterFlush::Next;
                        return self.wait_for_room();
                    }
                }
                Ok(Step::More) => return self.wait_for_more(shared, desk),
                Err(reject) => return self.refuse(reject, shared, desk),
            }
        }
    }

    /// Whether the request that is whole asks for the health of this server.
    fn asks_health(&self, shared: &Shared<H>) -> bool {
        let inbound = self.inbound.as_ref();
        inbound.is_some_and(|inbound| shared.fronts.is_health(inbound.head(), inbound.head_bytes()))
    }

    /// Answer without the application and, where all its threads are busy, without waiting for one of them.
    fn tell_health(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        self.borrow_outbound(desk);
        let asked = self.asked(shared);
        let done = shared.answer_health(asked, &self.peer, &mut self.outbox);
        if self.conclude(done, shared).is_none() {
            self.after_flush = AfterFlush::Next;
            self.enter(Phase::Flush);
        }
        self.flush(shared, desk)
    }

    /// What decides the framing of the answer to the request that is whole.
    fn asked(&self, shared: &Shared<H>) -> Asked {
        self.inbound.as_ref().map_or_else(Asked::default, |inbound| Asked {
            is_head: inbound.head().method.of(inbound.head_bytes()) == b"HEAD",
            version: inbound.head().version,
            persistent: inbound.head().persistent && shared.keeps_alive(),
        })
    }

    fn wait_for_more(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        let Some(inbound) = &self.inbound else { return self.park(desk) };
        let phase = match (inbound.in_body(), inbound.has_begun()) {
            (true, _) => Phase::Body,
            (false, true) => Phase::Head,
            (false, false) => Phase::Idle,
        };
        if phase == Phase::Body && self.phase == Phase::Body && self.is_too_slow(shared) {
            return self.refuse(Reject::late("the body comes more slowly than body_rate"), shared, desk);
        }
        if phase != self.phase {
            self.enter(phase);
        }
        self.park(desk)
    }

    fn is_too_slow(&self, shared: &Shared<H>) -> bool {
        let received = self.inbound.as_ref().map_or(0, |inbound| inbound.body_received);
        shared.limits.is_too_slow(received, clock::now() - self.since)
    }

    /// Serve the request that is whole, and those that came behind it, or go on with a stream. Never returns [`Verdict::Serve`].
    pub fn serve(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        self.borrow_outbound(desk);
        let mut verdict = self.answer(shared, &mut desk.thread);
        // Of the first call, which counts too.
        let began = desk.thread.pulse.began();
        while verdict.is_none() {
            let has_more = self.inbound.as_ref().is_some_and(|inbound| !inbound.is_empty());
            if !has_more || clock::now() > began + TURN {
                self.after_flush = AfterFlush::Next;
                verdict = Some(self.wait_for_room());
                break;
            }
            verdict = match self.step(shared) {
                Some(Ok(Step::Whole)) => self.answer(shared, &mut desk.thread),
                Some(Ok(Step::Continue)) => {
                    self.outbox.bytes.extend_from_slice(CONTINUE);
                    None
                }
                Some(Ok(Step::More)) | None => {
                    self.after_flush = AfterFlush::Next;
                    Some(self.wait_for_room())
                }
                Some(Err(reject)) => Some(self.refuse(reject, shared, desk)),
            };
        }
        desk.thread.pulse.rest();
        if self.phase == Phase::Flush && self.stream.is_none() {
            verdict = Some(self.flush(shared, desk));
        } else if self.outbox.is_empty() {
            self.return_outbound(desk);
        }
        if self.stream.is_some() {
            self.park(desk);
        }
        // A request that came meanwhile begins a new turn, so that no client can keep a thread for itself.
        verdict.unwrap_or(Verdict::Close)
    }

    /// One request, or the next part of a stream. None: go on with the next request.
    fn answer(&mut self, shared: &Shared<H>, thread: &mut Thread<H::Seat>) -> Option<Verdict> {
        let began = thread.pulse.begin();
        let outcome = match self.stream.take() {
            Some(stream) => self.resume(stream.answer, shared, thread, began),
            None => self.call(shared, thread, began)?,
        };
        match outcome {
            Outcome::Suspended(answer) => {
                self.is_told |= shared.row.was_told(thread.slot, began);
                self.stream = Some(Stream { answer, owner: thread.slot });
                Some(self.wait_for_room())
            }
            Outcome::Done(done) => {
                // What comes now, such as a log that nobody reads, is not the application's fault.
                thread.pulse.rest();
                self.conclude(done, shared)
            }
        }
    }

    fn resume(
        &mut self,
        stream: H::Stream,
        shared: &Shared<H>,
        thread: &mut Thread<H::Seat>,
        began: u64,
    ) -> Outcome<H::Stream> {
        let resumed = Resumed { transport: &self.transport, thread };
        let Some(inbound) = &self.inbound else {
            return shared.handler.resume(stream, resumed, &mut self.outbox);
        };
        let (peer, is_told) = (&self.peer, self.is_told);
        let served = Served { began, head: inbound.head(), bytes: inbound.head_bytes(), peer, is_told };
        shared.row.show(resumed.thread.slot, &served);
        shared.handler.resume(stream, resumed, &mut self.outbox)
    }

    fn call(&mut self, shared: &Shared<H>, thread: &mut Thread<H::Seat>, began: u64) -> Option<Outcome<H::Stream>> {
        let asked = self.asked(shared);
        if self.asks_health(shared) {
            return Some(Outcome::Done(shared.answer_health(asked, &self.peer, &mut self.outbox)));
        }
        let inbound = self.inbound.as_mut()?;
        let (head, bytes, body) = inbound.request();
        if head.asterisk {
            return Some(Outcome::Done(shared.answer_asterisk(asked, &self.peer, &mut self.outbox)));
        }
        let (peer, listener, transport) = (&self.peer, self.listener, &self.transport);
        let asks_status = shared.fronts.is_status(head, bytes, peer, listener);
        let id = peer.answered_id(&shared.fronts);
        shared.row.show(thread.slot, &Served { began, head, bytes, peer, is_told: false });
        let request = Request { head, bytes, body, peer, listener, transport, asked, id, asks_status, thread };
        Some(shared.handler.call(request, &mut self.outbox))
    }

    /// The answer is complete: log it, and say what comes after it.
    fn conclude(&mut self, done: Done, shared: &Shared<H>) -> Option<Verdict> {
        // Health is asked for every other second, for ever.
        if !self.asks_health(shared) {
            shared.count_request(done.status);
            self.log(done, shared);
        }
        self.is_told = false;
        self.peer.forget();
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
            // What the client sent behind the last request, or sends before it has read the answer, must be read, or
            // closing would reset the connection under the answer (RFC 9112 9.6). One that asked for the close itself
            // is to send no more.
            let more_came = self.inbound.as_ref().is_some_and(|inbound| !inbound.is_empty());
            self.after_flush = if more_came || client_goes_on { AfterFlush::Linger } else { AfterFlush::Close };
            return Some(self.wait_for_room());
        }
        if self.outbox.is_full() || self.outbox.is_broken() {
            self.after_flush = AfterFlush::Next;
            return Some(self.wait_for_room());
        }
        None
    }

    fn log(&self, done: Done, shared: &Shared<H>) {
        if let Some(inbound) = self.inbound.as_ref().filter(|_| shared.access_log.is_on()) {
            let id = Some(self.peer.id()).filter(|id| !id.is_empty());
            let entry = Entry { peer: self.peer.client(), head: inbound.head(), bytes: inbound.head_bytes(), id, done };
            if shared.access_log.record(&entry, |second| shared.handler.utc_offset(second)) {
                shared.handler.detached(|| shared.flush_log());
            }
        }
    }

    fn wait_for_room(&mut self) -> Verdict {
        // Its deadline counts from when the client took something last: nobody asks when it began.
        self.phase = Phase::Flush;
        Verdict::Park
    }

    /// Send what is to be sent; once all is, go on with what comes after.
    fn flush(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        let held = self.outbox.held();
        let is_last = self.after_flush != AfterFlush::Next && self.stream.is_none();
        let flushed =
            if is_last { self.outbox.flush_last(&self.transport) } else { self.outbox.flush(&self.transport) };
        match flushed {
            Flushed::Pending => self.park(desk),
            Flushed::Broken | Flushed::Drained if self.stream.is_some() => Verdict::Serve,
            Flushed::Broken => Verdict::Close,
            Flushed::Drained => {
                shared.note_freed(held);
                let is_cut = self.outbox.is_unfinished();
                self.return_outbound(desk);
                match self.after_flush {
                    AfterFlush::Next => self.go_on(shared, desk),
                    after => {
                        self.return_inbound(shared, desk);
                        if is_cut {
                            self.transport.hold_end();
                            return self.enter_linger();
                        }
                        // Sends the answer and the end in one packet. Closing alone would do so too, but would throw
                        // the answer away where the client has sent more meanwhile; and where it does so later, what
                        // it has no room for yet.
                        self.transport.finish();
                        let lingers = after == AfterFlush::Linger || self.transport.has_unsent();
                        if lingers { self.enter_linger() } else { Verdict::Close }
                    }
                }
            }
        }
    }

    /// The answer is sent. What came behind its request is parsed in a turn of its own where it is whole.
    fn go_on(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        self.enter(Phase::Idle);
        match &self.inbound {
            Some(inbound) if !inbound.is_empty() || inbound.has_begun() => self.parse(shared, desk),
            _ => self.park(desk),
        }
    }

    /// Whether the client has taken something since [`Connection::note_untaken`], and not all.
    fn is_taking(&self) -> bool {
        (1..self.untaken).contains(&self.transport.unacknowledged())
    }

    /// Whether the reset that ends a broken answer would overtake some of it.
    fn awaits_reset(&self, shared: &Shared<H>) -> bool {
        let is_early = clock::now() < self.since + shared.limits.linger_timeout;
        self.transport.is_held() && is_early && !shared.is_stopping() && self.transport.unacknowledged() > 0
    }

    fn enter_linger(&mut self) -> Verdict {
        self.note_untaken();
        self.enter(Phase::Linger);
        Verdict::Park
    }

    /// Throw away some of what came; there is more in the next turn.
    fn linger(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        desk.spare.resize(READ, 0);
        match self.transport.discard(&mut desk.spare) {
            Received::Bytes(count) => self.lingering.note(count),
            Received::Nothing => return Verdict::Park,
            Received::End => {
                // A client that only sends no more still reads: a reset now would overtake the answer.
                self.lingering.has_ended = true;
                return if self.awaits_reset(shared) { Verdict::Park } else { Verdict::Close };
            }
        }
        let elapsed = clock::now() - self.since;
        // A client that takes a long answer may say little meanwhile.
        let is_too_slow = self.lingering.is_too_slow(elapsed, &shared.limits) && !self.is_taking();
        if is_too_slow || self.lingering.is_over(elapsed) { Verdict::Close } else { Verdict::Park }
    }

    /// Nobody will serve it: a request that has begun is answered 503 (RFC 9110 15.6.4), lest the client wonder whether
    /// it was served.
    pub fn excuse(&self, shared: &Shared<H>) {
        let mut begin = self.transport.peek();
        if let Some(inbound) = &self.inbound {
            begin.splice(..0, inbound.head_bytes().iter().copied());
        }
        let waits = matches!(self.phase, Phase::Idle | Phase::Head | Phase::Body | Phase::App) && self.stream.is_none();
        if !waits || begin.is_empty() || self.peer.is_awaited() {
            return;
        }
        // Closing with something unread would reset the connection under the answer.
        let mut unread = Vec::with_capacity(READ);
        while unread.len() < UNREAD && matches!(self.transport.receive(&mut unread), Received::Bytes(_)) {
            unread.reserve(READ);
        }
        shared.excuse(&self.transport, is_to_head(&begin));
    }

    /// Answer a fault of the peer: its status, then linger so that the client can read it, then close.
    fn refuse(&mut self, reject: Reject, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        let is_head = self.inbound.as_ref().is_some_and(|inbound| is_to_head(inbound.head_bytes()));
        let line = self.inbound.as_ref().and_then(|inbound| {
            self.peer.identify(inbound.head(), inbound.head_bytes(), &shared.fronts);
            request_line(inbound.head(), inbound.head_bytes())
        });
        let done = shared.answer_reject(reject, is_head, &self.peer, line, &mut self.outbox);
        self.log(done, shared);
        // One that was too late already is waited for no longer.
        let announced = self.inbound.as_ref().filter(|_| reject.status != 408).map_or(0, |inbound| inbound.announced());
        self.lingering = Lingering::new(announced);
        self.return_inbound(shared, desk);
        self.after_flush = AfterFlush::Linger;
        self.enter(Phase::Flush);
        self.flush(shared, desk)
    }

    /// The handler itself failed: an own answer of status 500, but not behind anything else.
    pub fn fail(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) -> Verdict {
        self.stream = None;
        if matches!(self.phase, Phase::Flush | Phase::Linger) || self.outbox.is_broken() {
            return Verdict::Close;
        }
        if self.outbox.is_untouched() {
            shared.answer_failure(&self.peer, &mut self.outbox);
        }
        self.return_inbound(shared, desk);
        self.after_flush = AfterFlush::Linger;
        self.enter(Phase::Flush);
        self.flush(shared, desk)
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = clock::now();
    }

    /// Wait with as little memory as possible.
    fn park(&mut self, desk: &mut Desk<H>) -> Verdict {
        match self.inbound.take() {
            Some(inbound) if inbound.is_empty() && !inbound.has_begun() => desk.keep(inbound),
            Some(mut inbound) => {
                inbound.pack(&mut desk.spare);
                if desk.spare.capacity() > POOLED {
                    desk.spare = Vec::new();
                }
                self.inbound = Some(inbound);
            }
            None => {}
        }
        Verdict::Park
    }

    fn return_inbound(&mut self, shared: &Shared<H>, desk: &mut Desk<H>) {
        if let Some(mut inbound) = self.inbound.take() {
            shared.note_freed(inbound.held());
            inbound.clear();
            desk.keep(inbound);
        }
    }

    fn borrow_outbound(&mut self, desk: &mut Desk<H>) {
        if self.outbox.is_empty() && !self.outbox.is_broken() {
            self.outbox = Outbox::with_buffer(std::mem::take(&mut desk.outbound));
        }
    }

    fn return_outbound(&mut self, desk: &mut Desk<H>) {
        if self.outbox.bytes.capacity() > desk.outbound.capacity() && self.outbox.bytes.capacity() <= READ {
            desk.outbound = std::mem::take(&mut self.outbox.bytes);
        }
        self.outbox = Outbox::default();
    }
}

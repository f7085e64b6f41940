//! What the network asks of an application. `wsgi` implements it with Python; tests implement it without.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::http::head::RequestHead;
use crate::http::response::Asked;
use crate::net::clock::Pulse;
use crate::net::connections::outbox::Outbox;
use crate::net::connections::spool::Body;
use crate::net::connections::transport::Transport;
use crate::net::proxies::peer::Peer;
use crate::net::report::board::Shown;

/// A serving thread.
#[derive(Debug)]
pub struct Thread<S> {
    /// Its number, below `threads`.
    pub slot: usize,
    /// Beat it whenever the application gives something.
    pub pulse: Pulse,
    /// Every run is to return: the time of a stop is over.
    pub finished: Arc<AtomicBool>,
    /// What the handler keeps for it.
    pub seat: S,
}

impl<S> Thread<S> {
    /// Whether an answer that could go on is to be left, suspended: nobody resumes it but to clean up.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }
}

/// A whole request.
#[derive(Debug)]
pub struct Request<'a, S> {
    /// Its head.
    pub head: &'a RequestHead,
    /// What the spans of the head point into.
    pub bytes: &'a [u8],
    /// Its body, decoded; may be taken.
    pub body: &'a mut Body,
    /// From whom it comes.
    pub peer: &'a Peer,
    /// Which of the listeners it came through.
    pub listener: usize,
    /// Where the answer goes; for one that must be on its way before the handler returns.
    pub transport: &'a Transport,
    /// What decides the framing of the answer.
    pub asked: Asked,
    /// Its id, where that is to be answered; else empty.
    pub id: &'a str,
    /// It asks what this server does, and may know.
    pub asks_status: bool,
    /// The thread that serves it.
    pub thread: &'a mut Thread<S>,
}

/// What an answer that goes on needs.
#[derive(Debug)]
pub struct Resumed<'a, S> {
    /// Where the answer goes.
    pub transport: &'a Transport,
    /// The thread that began it.
    pub thread: &'a mut Thread<S>,
}

/// How a call ended.
#[derive(Debug)]
pub enum Outcome<S> {
    /// The answer is complete in the outbox.
    Done(Done),
    /// The outbox is full: resume the stream once it is empty.
    Suspended(S),
}

/// An answer that was given.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Its status.
    pub status: u16,
    /// Bytes of its body, without framing.
    pub length: u64,
    /// The connection may go on.
    pub persistent: bool,
}

/// The application.
pub trait Handler: Send + Sync + 'static {
    /// An answer whose body is not finished.
    type Stream: Send;

    /// What one thread keeps from one request to the next. It never leaves its thread.
    type Seat;

    /// Answer `request` into `outbox`. A panic is answered with 500 if it leaves the outbox untouched, else what is in
    /// the outbox is sent, unless it is broken, and the connection closed.
    fn call(&self, request: Request<'_, Self::Seat>, outbox: &mut Outbox) -> Outcome<Self::Stream>;

    /// Go on with an answer, on the thread that began it. Where the outbox is broken, only clean up.
    fn resume(
        &self,
        stream: Self::Stream,
        resumed: Resumed<'_, Self::Seat>,
        outbox: &mut Outbox,
    ) -> Outcome<Self::Stream>;

    /// Run `wait`, which may block, while others may use the interpreter.
    fn detached<R: Send>(&self, wait: impl FnOnce() -> R + Send) -> R;

    /// Tell the log about something between this server and `peer`. `level` is a letter of the error log.
    fn report(&self, level: char, peer: Option<SocketAddr>, text: &str);

    /// Tell the log why the process ends, without the interpreter and without waiting for anybody.
    fn last_words(&self, text: &str);

    /// The same as [`Handler::report`] of a warning, in the same way.
    fn warn(&self, client: Option<SocketAddr>, text: &str);

    /// The body of an answer that the server gives itself.
    fn page(&self, status: u16, reason: &str, text: &str) -> Vec<u8>;

    /// Value of the Server field; none if empty.
    fn server_header(&self) -> &[u8];

    /// Seconds that local time was ahead of UTC at `unix_second`.
    fn utc_offset(&self, unix_second: u64) -> i64;

    /// The call of `request` on the thread of `slot` is to end: interrupt it, if `is_still_late` says so once that thread
    /// cannot move. `age`: how long it has given no sign of life, in ms; none where the time of a stop is over.
    fn interrupt(&self, slot: usize, request: &Shown, age: Option<u64>, is_still_late: &dyn Fn() -> bool);

    /// The call of `request` on the thread of `slot` does not return, even though it was interrupted: answer in its place,
    /// if `is_still_late` says so once that thread cannot move. Returns whether it is answered so.
    fn give_up(&self, slot: usize, request: &Shown, age: u64, is_still_late: &dyn Fn() -> bool) -> bool;

    /// What a supervisor would be told: there is none.
    fn told(&self, what: u8);

    /// Signals may have come: let the interpreter's own handlers run, on the thread of slot 0. Returns whether to stop.
    fn hear_signals(&self) -> bool;

    /// Called on the thread of `slot` before it serves for the first time.
    fn enter(&self, slot: usize) -> Self::Seat;
}

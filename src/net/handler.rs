//! The wall between `net` and `wsgi`: what the network asks of an application. `wsgi` implements it with Python, tests
//! implement it without.
//!
//! Knows what a request and its answer are made of; knows neither connections nor threads at work.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::http::head::RequestHead;
use crate::http::response::Asked;
use crate::net::clock::Pulse;
use crate::net::connections::outbox::Outbox;
use crate::net::connections::pusher::Pusher;
use crate::net::connections::spool::Body;
use crate::net::connections::transport::Transport;
use crate::net::proxies::peer::Peer;
use crate::net::report::scoreboard::Shown;

/// A serving thread.
#[derive(Debug)]
pub struct Thread<S> {
    /// Its number: from 0 to `threads` - 1 for those that call the application.
    pub slot: usize,
    /// To be beaten whenever the application gives something.
    pub pulse: Pulse,
    /// The time of a stop is over: every thread is to return from its run.
    pub finished: Arc<AtomicBool>,
    /// Sends what the kernel is told to keep for more.
    pub pusher: Pusher,
    /// What the handler keeps for this thread.
    pub state: S,
}

impl<S> Thread<S> {
    /// Whether an answer that could go on is to be suspended: it will be resumed only to clean up.
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
    /// Its body, decoded; the handler may take it.
    pub body: &'a mut Body,
    /// The peer and the client it comes from.
    pub peer: &'a Peer,
    /// The number of the listener it came through.
    pub listener: usize,
    /// Where the answer goes, if it must be on its way before the handler returns.
    pub transport: &'a Transport,
    /// What decides the framing of the answer.
    pub asked: Asked,
    /// Its id, if the answer is to have it; else empty.
    pub id: &'a str,
    /// It asks for the status of this server, and may see it.
    pub asks_status: bool,
    /// The thread that serves it.
    pub thread: &'a mut Thread<S>,
}

/// What the next part of an answer needs.
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
    /// The connection may have another request.
    pub persistent: bool,
}

/// The application.
pub trait Handler: Send + Sync + 'static {
    /// An answer whose body is not finished.
    type Stream: Send;

    /// The state that a thread keeps from one request to the next. It never leaves its thread.
    type ThreadState;

    /// Answer `request` into `outbox`. A panic that leaves the outbox untouched is answered with 500. After any other panic
    /// the outbox is sent, unless it is broken, and the connection closed.
    fn call(&self, request: Request<'_, Self::ThreadState>, outbox: &mut Outbox) -> Outcome<Self::Stream>;

    /// Go on with an answer, on the thread that began it. Where the outbox is broken, only clean up.
    fn resume(
        &self,
        stream: Self::Stream,
        resumed: Resumed<'_, Self::ThreadState>,
        outbox: &mut Outbox,
    ) -> Outcome<Self::Stream>;

    /// Run `wait`, which may block, while other threads may use the interpreter.
    fn detached<R: Send>(&self, wait: impl FnOnce() -> R + Send) -> R;

    /// Write a line about `peer` to the error log. `level` is a letter of that log, such as `W`.
    fn report(&self, level: char, peer: Option<SocketAddr>, text: &str);

    /// Write to the error log why the process ends, without the interpreter and without waiting for any thread.
    fn last_words(&self, text: &str);

    /// Write a warning about `client` to the error log, without the interpreter and without waiting for any thread.
    fn warn(&self, client: Option<SocketAddr>, text: &str);

    /// The body of an error page.
    fn page(&self, status: u16, reason: &str, text: &str) -> Vec<u8>;

    /// Value of the Server field; none if empty.
    fn server_header(&self) -> &[u8];

    /// By how many seconds local time is ahead of UTC at `unix_second`.
    fn utc_offset(&self, unix_second: u64) -> i64;

    /// Interrupt the call of `request` on the thread of `slot`, if `is_still_late` says so once that thread cannot move.
    /// `age`: how long the call has given no sign of life, in ms; none where the time of a stop is over.
    fn interrupt(&self, slot: usize, request: &Shown, age: Option<u64>, is_still_late: &dyn Fn() -> bool);

    /// Answer in the place of the call of `request` on the thread of `slot`, which does not return although it was
    /// interrupted, if `is_still_late` says so once that thread cannot move. Returns whether that was done. `age`: as for
    /// [`Handler::interrupt`].
    fn give_up(&self, slot: usize, request: &Shown, age: u64, is_still_late: &dyn Fn() -> bool) -> bool;

    /// Hear a byte of [`crate::net::report::report_pipe`], in a process that has no supervisor.
    fn hear_report(&self, byte: u8);

    /// On the thread of slot 0: let the interpreter run its handlers for signals that may have come. Returns whether to stop.
    fn hear_signals(&self) -> bool;

    /// Called on the thread of `slot` before its first request.
    fn enter(&self, slot: usize) -> Self::ThreadState;
}

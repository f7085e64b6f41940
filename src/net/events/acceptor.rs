//! The listeners of a process and whether it accepts clients at them: not while it has no place or no descriptor for one, nor
//! while an accept pause is on. Does not know what becomes of a client.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io;

use super::listener::{Accepted, Listener};
use super::poller::Poller;
use crate::net::clock;
use crate::net::connections::transport::Interest;
use crate::net::handler::Handler;
use crate::net::shared::Shared;

/// Tokens of listeners, up to their 16 lowest bits.
pub const LISTENERS: u64 = 0x1_0000;
/// How long accepting pauses when descriptors or memory run out, in ms.
const RETRY: u64 = 100;
/// Time between two looks at an accept pause, in ms.
const PAUSE: u64 = 2;
/// Number of new connections after which a process lets the others be woken first.
const SHARE: usize = 4;

/// Whether a process accepts clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepting {
    /// It does.
    Open,
    /// `max_connections` are open, and none of them lingers.
    Full,
    /// It could not; it tries again at this time.
    RetryAt(u64),
    /// An accept pause is on; it looks again at this time.
    PausedUntil(u64),
    /// The process is stopping.
    Closed,
}

/// Listeners and their state.
#[derive(Debug)]
pub struct Acceptor {
    /// Closed after a stop, unless a successor has them.
    pub listeners: Vec<Listener>,
    /// While one of these pipes is readable, another process may have to serve new clients, and this one accepts none.
    pauses: Vec<OwnedFd>,
    /// Whether clients are accepted.
    pub state: Accepting,
    /// The listeners for which the kernel woke this process, and perhaps no other one.
    pub woken_for: Vec<usize>,
    /// Why a listener could not be watched at the last attempt.
    watch_error: Option<io::Errno>,
    /// Number of connections when the other processes were last let first.
    yielded_at: usize,
    /// Since when no client can be accepted.
    failing_since: Option<u64>,
}

impl Acceptor {
    /// Watch `listeners` with `poller`; accept no client while one of `pauses` is readable.
    pub fn new(listeners: Vec<Listener>, pauses: Vec<OwnedFd>, poller: &Poller) -> Self {
        let mut new = Self {
            listeners,
            pauses,
            state: Accepting::RetryAt(0),
            woken_for: Vec::new(),
            watch_error: None,
            yielded_at: 0,
            failing_since: None,
        };
        new.resume(poller);
        new
    }

    /// Whether clients are accepted.
    pub fn is_open(&self) -> bool {
        self.state == Accepting::Open
    }

    /// Whether this process may ever be told to pause.
    pub fn has_pauses(&self) -> bool {
        !self.pauses.is_empty()
    }

    /// Accept the next client at `listener`.
    pub fn accept_at(&self, listener: &Listener) -> Accepted {
        if self.has_pauses() { listener.accept_unless(|| self.is_paused()) } else { listener.accept() }
    }

    /// Whether an accept pause is on. Asked before each client, so that the pause is on as soon as another process has
    /// written to the pipe, even while this one is busy.
    fn is_paused(&self) -> bool {
        let mut pauses: Vec<_> = self.pauses.iter().map(|pause| PollFd::new(pause, PollFlags::IN)).collect();
        poll(&mut pauses, Some(&Timespec::default())) != Ok(0)
    }

    /// Stop watching the listeners.
    pub fn pause(&mut self, state: Accepting, poller: &Poller) {
        if self.is_open() {
            for listener in &self.listeners {
                let _ = poller.remove(listener);
            }
        }
        self.state = state;
    }

    /// An accept pause is on.
    pub fn pause_shortly(&mut self, poller: &Poller) {
        self.pause(Accepting::PausedUntil(clock::now() + PAUSE), poller);
    }

    /// Watch the listeners again, unless the process is stopping.
    pub fn resume(&mut self, poller: &Poller) {
        if matches!(self.state, Accepting::Closed | Accepting::Open) {
            return;
        }
        self.state = Accepting::Open;
        let open = (LISTENERS..).zip(&self.listeners).filter(|(_, it)| !it.is_closed);
        // A process whose accept pause is on leaves a client to the others, so all are to be woken then.
        let wakes_all = self.has_pauses();
        let add =
            |it, token| if wakes_all { poller.add(it, token, Interest::Read) } else { poller.add_exclusive(it, token) };
        let mut added = open.map(|(token, it)| add(it, token));
        self.watch_error = added.find_map(Result::err);
        if self.watch_error.is_some() {
            // Out of memory, or this user may watch no more descriptors.
            self.pause(Accepting::RetryAt(clock::now() + RETRY), poller);
        }
    }

    /// A connection ended or may be cut: there is a place for a client.
    pub fn resume_if_full(&mut self, poller: &Poller) {
        if self.state == Accepting::Full {
            self.resume(poller);
        }
    }

    /// Let another process be woken for the next clients, if this one has [`SHARE`] more connections than the last time. The
    /// kernel wakes the process that has watched a listener longest, which could be the idle one for ever, so that all
    /// clients came to it; a process that watches anew is the last in that order.
    pub fn yield_to_others(&mut self, connections: usize, poller: &Poller) {
        self.yielded_at = self.yielded_at.min(connections);
        if connections >= self.yielded_at + SHARE {
            self.yielded_at = connections;
            self.pause(Accepting::RetryAt(0), poller);
            self.resume(poller);
        }
    }

    /// Stop watching a listener that another process has shut down.
    pub fn drop_if_hung_up(&mut self, index: usize, poller: &Poller) {
        if let Some(listener) = self.listeners.get_mut(index).filter(|it| it.is_hung_up()) {
            listener.is_closed = true;
            let _ = poller.remove(&*listener);
        }
    }

    /// A client could not be accepted: pause.
    pub fn fail<H: Handler>(&mut self, error: io::Errno, poller: &Poller, shared: &Shared<H>) {
        self.pause(Accepting::RetryAt(clock::now() + RETRY), poller);
        self.report_failure(error, shared);
    }

    /// Try again after a failure.
    pub fn retry<H: Handler>(&mut self, poller: &Poller, shared: &Shared<H>) {
        self.resume(poller);
        if let Some(error) = self.watch_error {
            self.report_failure(error, shared);
        }
    }

    /// Log a failure once, however often it is retried.
    fn report_failure<H: Handler>(&mut self, error: io::Errno, shared: &Shared<H>) {
        if self.failing_since.is_some() {
            return;
        }
        self.failing_since = Some(clock::now());
        match error {
            io::Errno::MFILE | io::Errno::NFILE => shared.handler.report(
                'W',
                None,
                "no descriptor is left for a new connection; accepting pauses (raise `ulimit -n`, or lower \
                 max_connections)",
            ),
            _ => {
                let text = format!("no connection can be accepted: {error}; clients wait, and it is tried again");
                shared.handler.report('E', None, &text);
            }
        }
    }

    /// Log the end of a failure, if there was one.
    pub fn report_recovery<H: Handler>(&mut self, shared: &Shared<H>) {
        if let Some(since) = self.failing_since.take() {
            let seconds = (clock::now() - since).div_ceil(1000);
            shared.handler.report('N', None, &format!("connections are accepted again after {seconds} s"));
        }
    }
}

//! The server of one process: one event loop and the threads that stand in it.
//!
//! **The baton.** One thread at a time holds the event loop. Before it calls the application it takes the connection out
//! of the table and lays the baton down. Afterwards it takes the baton up again if it is still free; else it leaves the
//! connection to the thread that has the baton, and goes to sleep. A call that blocks leaves the baton free without
//! progress; the watchdog sees that and wakes a thread, which serves on. So a fast application costs with many threads
//! what it costs with one, and a blocked call holds up no other request.
//!
//! Where calls have been slow lately a thread is woken at once, as long as there is room in the application for one more
//! call ([`crate::net::watch::admission`]). A thread that returns from a call and finds no room leaves the next request to
//! those that are still inside.
//!
//! This module builds a server and ends it. `turns` has what the thread with the baton does, `serving` what a thread does
//! without it, `health_thread` what one thread does that never calls the application.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::process::Signal;

use super::baton::Baton;
use super::team::Team;
use crate::limits::Limits;
use crate::net::connections::connection::Verdict;
use crate::net::connections::pusher::Pusher;
use crate::net::connections::scratch::Scratch;
use crate::net::connections::transport::Transport;
use crate::net::events::event_loop::{EventLoop, Keyed};
use crate::net::events::listener::Listener;
use crate::net::handler::{Handler, Thread};
use crate::net::heap::{self, Freed};
use crate::net::lifecycle::process::{Descriptors, Process};
use crate::net::panics::{self, Panics};
use crate::net::proxies::policy::ProxyPolicy;
use crate::net::report::access_log::AccessLog;
use crate::net::report::report_pipe::ReportPipe;
use crate::net::report::scoreboard::{Counts, Row, State};
use crate::net::shared::Shared;
use crate::net::watch::watchdog;
use crate::net::watch::watched::{Watchdog, Watched};

/// The slot of the thread on which the interpreter hears signals.
pub(super) const SIGNAL_SLOT: usize = 0;

/// The server.
pub struct Server<H: Handler> {
    pub(super) shared: Shared<H>,
    pub(super) baton: Baton<H>,
    pub(super) team: Team<Keyed<H>>,
    pub(super) watchdog: Watchdog,
    pusher: Pusher,
    /// Connections that were served, for the next thread with the baton.
    pub(super) returned: Mutex<Vec<(Keyed<H>, Verdict)>>,
    /// Readable while an event waits for the event loop.
    pub(super) events: OwnedFd,
    /// The sockets of the listeners.
    sockets: Vec<Weak<OwnedFd>>,
    /// Waiting for events failed, so that the server has stopped.
    pub(super) has_failed: AtomicBool,
    /// Every thread but the health thread is lost, and the process about to end.
    pub(super) is_lost: AtomicBool,
    /// The error log has said that the time of a stop is over.
    pub(super) is_lateness_told: AtomicBool,
}

/// The descriptors and the shared memory that a server is given.
#[derive(Debug)]
pub struct Channels {
    /// The sockets that accept clients.
    pub listeners: Vec<Listener>,
    /// Pipes from which signals are read, a byte each.
    pub controls: Vec<OwnedFd>,
    /// The pipe to the supervisor; a process without a supervisor has none.
    pub report_pipe: ReportPipe,
    /// While one of these is readable, no client is accepted.
    pub accept_pauses: Vec<OwnedFd>,
    /// The pipe that shows which process is the last one that accepts; see [`Process::is_last`].
    pub countdown: Option<OwnedFd>,
    /// The row of this process on the scoreboard, with a cell for each thread.
    pub row: Row,
}

/// How many connections leave enough descriptors for the application: an eighth of all, at least 32.
fn most_connections() -> usize {
    let all = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(all.saturating_sub((all / 8).max(32))).unwrap_or(usize::MAX).max(1)
}

impl<H: Handler> Server<H> {
    /// A server for `threads` threads, each of which is to call [`Server::run`].
    pub fn new(
        handler: H,
        mut limits: Limits,
        proxies: ProxyPolicy,
        access_log: AccessLog,
        channels: Channels,
        threads: usize,
    ) -> std::io::Result<Self> {
        let Channels { listeners, controls, report_pipe, row, accept_pauses, countdown } = channels;
        heap::share();
        heap::keep();
        limits.max_connections = limits.max_connections.min(most_connections());
        let kept: Vec<_> = listeners.iter().map(|listener| Arc::clone(&listener.socket)).collect();
        let sockets = kept.iter().map(Arc::downgrade).collect();
        let descriptors = Descriptors { controls, report_pipe, listeners: kept, countdown };
        let process = Process::new(descriptors, row, limits.graceful_timeout)?;
        let event_loop = EventLoop::new(listeners, process.controls(), process.waker.descriptor(), accept_pauses)?;
        let has_health_thread = proxies.has_health_thread;
        let shared = Shared { handler, limits, proxies, access_log, row, freed: Freed::default(), process };
        Ok(Self {
            shared,
            events: event_loop.descriptor()?,
            baton: Baton::new(event_loop),
            team: Team::new(row.pulses().take(threads + usize::from(has_health_thread)), has_health_thread),
            watchdog: Watchdog::new(threads),
            pusher: Pusher::default(),
            returned: Mutex::default(),
            sockets,
            has_failed: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            is_lateness_told: AtomicBool::new(false),
        })
    }

    /// Serve on the calling thread, as that of `slot`, until stopped.
    pub fn run(self: &Arc<Self>, slot: usize) -> Result<(), String> {
        let pulse = self.team.join(slot)?;
        let state = self.shared.handler.enter(slot);
        let (finished, pusher) = (self.shared.process.finished(), self.pusher.clone());
        let mut scratch = Scratch::new(Thread { slot, pulse, finished, pusher, state });
        if slot == 0 {
            self.watchdog.has_first.store(true, Ordering::SeqCst);
            self.shared.row.enter(State::Serving);
        }
        self.watch().map_err(|error| format!("the thread that watches cannot be started: {error}"))?;
        let mut panics = Panics::default();
        // Around all turns and not around each, so that it costs nothing.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_turns(&mut scratch))) {
            // The connection of this turn is lost, with its place in the table; the event loop is not.
            scratch.thread.pulse.rest();
            self.shared.handler.report('C', None, &panics::told(&*panic));
            if !panics.go_on(self.done()) {
                resume_unwind(panic);
            }
        }
        self.close_streams(&mut scratch);
        self.shared.handler.detached(|| self.shared.access_log.flush_last());
        self.team.dismiss();
        if slot == 0 {
            self.leave();
        }
        Ok(())
    }

    /// A number that grows with each connection that is accepted and each request that is answered.
    fn done(&self) -> u64 {
        let Counts { accepted, requests, .. } = self.counts();
        accepted.load(Ordering::Relaxed) + requests.load(Ordering::Relaxed)
    }

    /// The first thread leaves. The watchdog stays while others are in the application: they may keep the interpreter,
    /// and then no other thread could end the process.
    fn leave(&self) {
        let handler = &self.shared.handler;
        handler.detached(|| self.watchdog.retire());
        self.watchdog.has_first.store(false, Ordering::SeqCst);
        self.shared.process.watchdog.rouse();
        if !self.is_busy() {
            handler.detached(|| self.watchdog.join());
        }
    }

    /// Start the watchdog, unless the first [`Server::run`] is to do so.
    pub fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        watchdog::start(self)
    }

    /// Accept no more, finish what is in flight, then let every [`Server::run`] return.
    pub fn stop(&self) {
        self.shared.process.begin_stop();
        self.shared.process.waker.wake();
    }

    /// The descriptors of the listeners, for a successor, or to be looked at; none after a stop.
    pub fn listeners(&self) -> Vec<RawFd> {
        self.shared.process.listeners()
    }

    /// Note that a child is about to be forked.
    pub fn note_fork(&self) {
        self.shared.process.has_forked.store(true, Ordering::Relaxed);
    }

    /// Close the listeners that are still open, in a child that was forked, which would keep their ports. The numbers of
    /// their descriptors stay taken, since these will be closed once more. Takes no lock, which a thread of the parent may
    /// have had.
    pub fn abandon(&self) {
        for socket in self.sockets.iter().filter_map(Weak::upgrade) {
            // SAFETY: both are open, and this is the only thread. It cannot fail then.
            unsafe {
                libc::dup3(self.shared.process.waker.descriptor().as_raw_fd(), socket.as_raw_fd(), libc::O_CLOEXEC)
            };
        }
    }

    /// The connections of which nothing was read, with the numbers of their listeners, for a successor.
    pub fn take_unread(&self) -> Vec<(OwnedFd, usize)> {
        let unread = self.baton.take().map_or_else(Vec::new, |mut event_loop| event_loop.take_unread());
        let owned = |transport: &Transport| transport.as_fd().try_clone_to_owned().ok();
        unread.iter().filter_map(|(transport, listener)| Some((owned(transport)?, *listener))).collect()
    }

    /// Go on with a connection that the program before this one accepted. Call it before any [`Server::run`].
    pub fn adopt(&self, socket: OwnedFd, listener: usize) {
        self.baton.wait().adopt(socket, listener, &self.shared);
    }

    /// Whether it has finished for a successor's sake.
    pub fn makes_way(&self) -> bool {
        self.shared.process.is_finished() && self.shared.process.has_successor()
    }

    /// The number of the first signal that asked to stop at once; 0 for none.
    pub fn stopped_at_once_by(&self) -> i32 {
        self.shared.process.stop_at_once().map_or(0, Signal::as_raw)
    }

    /// Whether it has finished because waiting for events failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// The application.
    pub fn handler(&self) -> &H {
        &self.shared.handler
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.shared.row.counts
    }
}

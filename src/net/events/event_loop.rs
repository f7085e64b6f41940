//! The event loop of one process: hands out events and lets connections wait. The thread that holds the baton holds it.
//!
//! One turn of the loop: take the next event and do what it asks for (the server decides which thread does it); if there is
//! none, wait for a new batch. While there is much work the loop first asks the kernel without waiting, and the thread stays
//! attached to the interpreter. Only if nothing is ready does the thread detach and sleep.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io;

use super::acceptor::{Accepting, Acceptor, LISTENERS};
use super::eviction::EvictionQueue;
use super::listener::Listener;
use super::poller::{BATCH, Poller};
use super::table::{Key, Table};
use crate::net::clock;
use crate::net::connections::connection::{Connection, Phase, Verdict};
use crate::net::connections::transport::Interest;
use crate::net::handler::Handler;
use crate::net::proxies::per_address::PerAddress;
use crate::net::shared::Shared;
use crate::timing::STANDSTILL;

/// How long accepting pauses for the first bytes of a new connection.
const FIRST_BYTES: Duration = Duration::from_millis(1);
/// How long a client that has just connected, or was just answered, may take to send a request although the server stops, in
/// ms.
const FRESH: u64 = 1000;

/// Tokens of the loop's own descriptors, with [`LISTENERS`]; those of connections have a generation in their upper half.
const CONTROLS: u64 = 0x2_0000;
const WAKER: u64 = 0x3_0000;

/// A descriptor or connection that is ready.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A client waits at this listener.
    Accept(usize),
    /// This connection can be advanced.
    Ready(Key),
    /// This connection has waited too long.
    Late(Key),
    /// This control descriptor can be read.
    Control(usize),
    /// A thread has returned a connection, or the server is to stop.
    Wake,
}

/// A connection and its key.
pub type Keyed<H> = (Key, Box<Connection<H>>);

/// The loop.
pub struct EventLoop<H: Handler> {
    pub(super) poller: Poller,
    pub(super) acceptor: Acceptor,
    pub(super) table: Table<Box<Connection<H>>>,
    pub(super) per_address: PerAddress,
    pub(super) evictable: EvictionQueue,
    /// Unread connections that the health thread leaves to a serving thread. In the table they are away.
    pub(super) unread: Vec<Keyed<H>>,
    /// Number of events in the last batch, and when it came.
    pub(super) batch_size: usize,
    batch_time: u64,
    /// Events that do not come from the poller; they are handled before those that do.
    pub(super) queued: VecDeque<Event>,
    /// Connections with another whole request, which are served after the events of the poller. The table counts them as
    /// taken, so that no event of their descriptors is handled before.
    pub(super) pipelined: VecDeque<Keyed<H>>,
    /// The number of connections in `pipelined` that are served after this batch.
    pipelined_due: usize,
    /// A connection was accepted since the last sleep, and its first bytes have not come.
    expects_bytes: bool,
    /// A listener at which as many clients were accepted as one turn allows: more may wait there.
    pub(super) crowded: Option<usize>,
    pub(super) next_sweep: u64,
    /// When the loop last looked at the clock; long ago after a long call, or if the process was stopped.
    pub(super) last_look: u64,
    pub(super) is_put_off: bool,
    pub(super) stop_at: Option<u64>,
}

impl<H: Handler> EventLoop<H> {
    /// Watch `listeners`, `controls` and `waker`; accept no client while one of `accept_pauses` is readable.
    pub fn new(
        listeners: Vec<Listener>,
        controls: &[OwnedFd],
        waker: BorrowedFd<'_>,
        accept_pauses: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        for (token, control) in (CONTROLS..).zip(controls) {
            poller.add(control, token, Interest::Read)?;
        }
        poller.add(waker, WAKER, Interest::Read)?;
        Ok(Self {
            acceptor: Acceptor::new(listeners, accept_pauses, &poller),
            poller,
            table: Table::default(),
            per_address: PerAddress::default(),
            evictable: EvictionQueue::default(),
            unread: Vec::new(),
            batch_size: 0,
            batch_time: 0,
            queued: VecDeque::new(),
            pipelined: VecDeque::new(),
            pipelined_due: 0,
            expects_bytes: false,
            crowded: None,
            next_sweep: 0,
            last_look: clock::now(),
            is_put_off: false,
            stop_at: None,
        })
    }

    /// A duplicate of the poller's descriptor, which is readable while an event waits.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.poller.descriptor()
    }

    /// The next event of this batch.
    pub fn next_event(&mut self) -> Option<Event> {
        if let Some(event) = self.queued.pop_front() {
            return Some(event);
        }
        if self.poller.has_more() && self.is_late() {
            // Note the order in which new events come. Else a client that is answered late in this batch asks again only
            // after the kernel was asked, and all others would be served before it once more.
            self.batch_time = clock::now();
            // If it fails, the next wait fails too.
            let _ = self.poller.add_new();
        }
        let token = self.poller.next_token()?;
        let index = usize::try_from(token & 0xffff).unwrap_or(0);
        Some(match token & !0xffff {
            LISTENERS => Event::Accept(index),
            CONTROLS => Event::Control(index),
            WAKER => Event::Wake,
            _ => Event::Ready(Key::from_token(token)),
        })
    }

    /// The next connection with a pipelined request, once there are no more events.
    pub fn next_pipelined(&mut self) -> Option<Keyed<H>> {
        self.pipelined_due = self.pipelined_due.checked_sub(1)?;
        self.pipelined.pop_front()
    }

    /// Whether a tick of the clock or more has passed since the kernel was last asked for events.
    pub(super) fn is_late(&self) -> bool {
        clock::now() > self.batch_time
    }

    /// Take a connection that is ready, which is away then. If it is away already, stop watching it until it returns.
    pub fn take(&mut self, key: Key) -> Option<Box<Connection<H>>> {
        let taken = self.table.take(key);
        if let Some(descriptor) = taken.is_none().then(|| self.table.unwatch(key)).flatten() {
            // SAFETY: the descriptor belongs to the connection of `key`, which is away but alive: its thread puts it
            // back through this table before it is closed. A read-ready event of a request that came too early is
            // the only way here.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            // `park` adds it again.
            let _ = self.poller.remove(descriptor);
        }
        taken
    }

    /// A connection comes back from the application.
    pub fn settle(&mut self, key: Key, mut connection: Box<Connection<H>>, verdict: Verdict, shared: &Shared<H>) {
        if verdict == Verdict::Close {
            return self.close(key, connection, shared);
        }
        if self.table.was_unwatched(key) {
            connection.watched = None;
        }
        if verdict == Verdict::Serve {
            // Another request is whole already: its turn comes after those that wait.
            return self.pipelined.push_back((key, connection));
        }
        self.park(key, connection, shared);
    }

    /// Let a connection wait until its descriptor is ready or its deadline passes.
    pub fn park(&mut self, key: Key, mut connection: Box<Connection<H>>, shared: &Shared<H>) {
        let is_left = connection.phase == Phase::Idle && shared.process.is_stopping();
        if is_left && !connection.is_fresh(FRESH) && !self.is_put_off {
            if std::mem::replace(&mut connection.was_looked_at, true) {
                return self.close(key, connection, shared);
            }
            // A request may have come while the one before it was served.
            return self.look_again((key, connection));
        }
        let interest = connection.interest();
        let watched = match (connection.watched, interest) {
            (before, now) if before == now => Ok(()),
            (Some(_), Some(now)) => self.poller.modify(&connection.transport, key.token(), now),
            (None, Some(now)) => self.poller.add(&connection.transport, key.token(), now),
            (_, None) => self.poller.remove(&connection.transport),
        };
        connection.watched = interest;
        self.expects_bytes |= connection.is_unread;
        if watched.is_err() {
            return self.close(key, connection, shared);
        }
        if interest == Some(Interest::Write) {
            connection.note_untaken();
        }
        if connection.phase == Phase::Linger && !std::mem::replace(&mut connection.is_evictable, true) {
            self.evictable.add(key, connection.peer.is_trusted);
            self.acceptor.resume_if_full(&self.poller);
        }
        let mut deadline = connection.deadline(shared);
        if is_left {
            deadline = deadline.min(clock::now() + FRESH);
        }
        self.table.put(key, connection, deadline);
    }

    /// Queue an event for a connection, whether its descriptor is ready or not.
    pub(super) fn look_again(&mut self, (key, connection): Keyed<H>) {
        self.table.put(key, connection, u64::MAX);
        self.queued.push_back(Event::Ready(key));
    }

    /// Keep an unread connection until a thread can serve it, in this program or its successor.
    pub fn keep_unread(&mut self, (key, mut connection): Keyed<H>) {
        if connection.watched.take().is_some() {
            let _ = self.poller.remove(&connection.transport);
        }
        self.unread.push((key, connection));
    }

    /// A thread can serve the unread connections: queue them.
    pub fn release_unread(&mut self) {
        for keyed in std::mem::take(&mut self.unread) {
            self.look_again(keyed);
        }
    }

    /// End a connection.
    pub fn close(&mut self, key: Key, connection: Box<Connection<H>>, shared: &Shared<H>) {
        self.per_address.remove(connection.peer.counted(), shared.limits.max_connections_per_address);
        if connection.is_evictable {
            self.evictable.remove(key);
        }
        if connection.is_incomplete() {
            connection.transport.reset();
        }
        // The application, or a child of it, may hold the same socket open: then closing our descriptor would neither end the
        // connection nor remove it from the poller.
        if connection.transport.is_shared() || shared.process.has_forked.load(Ordering::Relaxed) {
            connection.transport.end();
        }
        if connection.watched.is_some() {
            let _ = self.poller.remove(&connection.transport);
        }
        shared.note_freed(connection.memory() + size_of_val(&*connection));
        drop(connection);
        self.table.release(key);
        self.show_count(shared);
        self.acceptor.resume_if_full(&self.poller);
    }

    pub(super) fn show_count(&self, shared: &Shared<H>) {
        shared.row.counts.connections.store(self.table.count() as u64, Ordering::Relaxed);
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.table.count()
    }

    /// Stop watching a control descriptor whose other end is closed.
    pub fn forget(&self, control: BorrowedFd<'_>) {
        let _ = self.poller.remove(control);
    }

    /// Whether a signal interrupted the last wait.
    pub fn was_interrupted(&self) -> bool {
        self.poller.interrupted
    }

    /// Get a new batch of events. If none is ready, sleep, but no longer than `most` returns. `may_sleep` is called before
    /// and returns whether no signal asks for something else. `is_needed` is given by the health thread, which serves no
    /// pipelined requests: it returns, once the other threads know about the sleep, whether to sleep.
    pub fn wait(
        &mut self,
        shared: &Shared<H>,
        most: impl FnOnce() -> Option<Duration>,
        is_needed: Option<impl Fn() -> bool>,
        may_sleep: impl Fn() -> bool,
    ) -> io::Result<()> {
        let was_long = self.is_late();
        self.sweep(shared);
        if !self.queued.is_empty() {
            return Ok(());
        }
        self.acceptor.woken_for.clear();
        self.pipelined_due = if is_needed.is_none() { self.pipelined.len() } else { 0 };
        // After a batch of one event that was handled quickly, another event has hardly come: do not ask for it in vain.
        let is_busy = was_long || self.batch_size > 1 || self.pipelined_due > 0 || self.poller.has_more();
        if is_busy && self.ask()? {
            return Ok(());
        }
        let timeout = self.timeout(shared.process.drain_until()).into_iter().chain(most()).min();
        let due = timeout.map(|time| clock::now() + u64::try_from(time.as_millis()).unwrap_or(0));
        if !may_sleep() || !shared.process.waker.may_sleep() {
            return Ok(());
        }
        let sleeps = is_needed.is_none_or(|is_needed| is_needed());
        let slept = if sleeps { self.sleep(timeout, due, shared) } else { Ok(()) };
        shared.process.waker.slept();
        slept
    }

    /// Ask the kernel for events without waiting. Returns whether there is something to do.
    fn ask(&mut self) -> io::Result<bool> {
        self.batch_size = self.poller.wait(Some(Duration::ZERO))?;
        self.batch_time = clock::now();
        if !self.poller.put_first(CONTROLS) && self.batch_size >= BATCH {
            // There may be thousands of events: new clients shall not wait for all of them.
            self.queued.extend((0..self.acceptor.listeners.len()).map(Event::Accept));
        }
        Ok(self.batch_size > 0 || self.pipelined_due > 0)
    }

    /// Sleep until there are events, detached from the interpreter. A wake-up long after `due` means that the process was
    /// stopped.
    fn sleep(&mut self, timeout: Option<Duration>, due: Option<u64>, shared: &Shared<H>) -> io::Result<()> {
        let waited = shared.handler.detached(|| {
            shared.flush_log();
            let waited = self.wait_for_events(timeout);
            self.acceptor.woken_for.extend(self.poller.events_of(LISTENERS));
            // Before any call: a client that comes during the call may be for another worker, and this one would take it
            // for the client that has woken it.
            self.poller.put_first(LISTENERS);
            if self.poller.put_first(CONTROLS) {
                // A call that keeps the interpreter may keep this thread from reading the control descriptor later.
                shared.process.watchdog.rouse();
                if shared.process.is_supervised() {
                    shared.process.read_controls();
                }
                self.leave_detached(shared);
            }
            waited
        });
        self.batch_size = waited?;
        self.batch_time = clock::now();
        if due.is_none_or(|due| self.batch_time <= due + STANDSTILL) {
            self.last_look = self.batch_time;
        }
        Ok(())
    }

    /// Until the first bytes of a new connection have come, which as a rule takes microseconds, other new clients do not wake
    /// this thread: of a crowd each would wake it once, in vain. Clients that wait already are accepted first.
    fn wait_for_events(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        if !std::mem::take(&mut self.expects_bytes) || !self.acceptor.is_open() || self.is_crowded() {
            return self.poller.wait(timeout);
        }
        self.acceptor.pause(Accepting::RetryAt(0), &self.poller);
        let waited = self.poller.wait(timeout.into_iter().chain([FIRST_BYTES]).min());
        self.acceptor.resume(&self.poller);
        waited
    }
}

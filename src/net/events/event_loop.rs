//! What the holder of the baton holds: the poller, the listeners, the table, and the deadlines.
//!
//! One turn of the loop is: take the next event, do what it asks ([`crate::net::threads::server::Server`] decides who does it), and
//! when there is none left, wait for a new batch. While there is much work, waiting first asks without
//! blocking, and the thread stays attached to the interpreter; only when nothing is ready does it detach and sleep.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io;

use super::listener::{Accepted, HANDSHAKE, Listener};
use super::poller::{BATCH, Interest, Poller};
use super::table::{Key, Table};
use crate::net::clock;
use crate::net::connections::connection::{Connection, Verdict};
use crate::net::connections::lingering::Expendable;
use crate::net::connections::transport::Transport;
use crate::net::handler::Handler;
use crate::net::proxies::crowd::{Crowd, Entered};
use crate::net::threads::shared::Shared;
use crate::net::watch::watchdog::STANDSTILL;

/// How often deadlines are looked at, at most; how long accepting pauses when descriptors run out. In ms.
const TICK: u64 = 100;
/// How long they are not looked at after a standstill, in ms.
const PUT_OFF: u64 = 5 * TICK;
/// How soon a shut gate is looked at again, in ms.
const SHUT: u64 = 2;
/// Connections accepted in one turn, at most.
const ACCEPTS: usize = 32;
/// How long nobody is accepted after one who has not said yet what he wants.
const EXPECT: Duration = Duration::from_millis(1);
/// How many more connections are open before the next one is left to another process.
const SHARE: usize = 4;
/// How many connections are taken from the queue of each listener at a stop, at most.
const LAST_ACCEPTS: usize = 4096;
/// How long a client that has just come, or was just answered, may take to say what it wants although the server stops, in
/// ms.
const FRESH: u64 = 1000;

/// Tokens below this are the loop's own; those of connections have a generation in their upper half.
const LISTENERS: u64 = 0x1_0000;
const CONTROLS: u64 = 0x2_0000;
const WAKER: u64 = 0x3_0000;

/// What is ready.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A connection waits at this listener.
    Accept(usize),
    /// This connection can be advanced.
    Ready(Key),
    /// This connection has waited too long.
    Late(Key),
    /// There is something to read on this control descriptor.
    Control(usize),
    /// A thread has returned a connection, or stop was called.
    Wake,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepting {
    Yes,
    /// `max_connections` are open, and none of them lingers.
    Full,
    /// It cannot be done; try again at this time.
    PausedUntil(u64),
    /// A gate is shut; look again at this time.
    ShutUntil(u64),
    /// Stopping.
    Never,
}

/// The loop.
pub struct EventLoop<H: Handler> {
    poller: Poller,
    /// Closed after a stop, unless they are a successor's.
    listeners: Vec<Listener>,
    /// While one of them is readable nobody is to be accepted: another process may have to serve in the place of this.
    gates: Vec<OwnedFd>,
    table: Table<Box<Connection<H>>>,
    crowd: Crowd,
    expendable: Expendable,
    /// Connections of which nothing was read, until there is somebody who can serve them. They count as away.
    shelf: Vec<(Key, Box<Connection<H>>)>,
    /// How many events came last, and when.
    batch: usize,
    came: u64,
    /// Events that no descriptor gave; they come before those of the poller.
    queued: VecDeque<Event>,
    /// Connections that were served and have another request already; they come after the events of the poller. They
    /// count as away, so that no event of their descriptors gives them another turn.
    patient: VecDeque<(Key, Box<Connection<H>>)>,
    /// How many of them come after this batch.
    due: usize,
    accepting: Accepting,
    /// Somebody was accepted since the last sleep and has not said yet what he wants.
    expects: bool,
    /// The listeners at which somebody waits of whom the kernel told this process, and perhaps no other one.
    owed: Vec<usize>,
    /// Why a listener could not be watched when it was last tried.
    unwatched: Option<io::Errno>,
    /// How many connections there were when another process was last let go first.
    yielded: usize,
    /// Since when no connection can be accepted.
    failing_since: Option<u64>,
    next_sweep: u64,
    /// When it was last looked at the time; long ago where a call, or the whole process, stood still since.
    seen: u64,
    is_put_off: bool,
    stop_at: Option<u64>,
}

impl<H: Handler> EventLoop<H> {
    /// Watch `listeners`, `controls` and `waker`; accept nobody while one of `gates` is readable.
    pub fn new(
        listeners: Vec<Listener>,
        controls: &[OwnedFd],
        waker: BorrowedFd<'_>,
        gates: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        for (token, control) in (CONTROLS..).zip(controls) {
            poller.add(control, token, Interest::Read)?;
        }
        poller.add(waker, WAKER, Interest::Read)?;
        let mut new = Self {
            poller,
            listeners,
            gates,
            table: Table::default(),
            crowd: Crowd::default(),
            expendable: Expendable::default(),
            shelf: Vec::new(),
            batch: 0,
            came: 0,
            queued: VecDeque::new(),
            patient: VecDeque::new(),
            due: 0,
            accepting: Accepting::PausedUntil(0),
            expects: false,
            owed: Vec::new(),
            unwatched: None,
            yielded: 0,
            failing_since: None,
            next_sweep: 0,
            seen: clock::now(),
            is_put_off: false,
            stop_at: None,
        };
        new.resume_accepting();
        Ok(new)
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
            // In the order in which they come: a client that is answered late in a batch asks again only after the kernel
            // was asked. The others would each be served again before it.
            self.came = clock::now();
            // Where it fails the next wait does too.
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

    /// Whose turn it is once there are no more events.
    pub fn next_patient(&mut self) -> Option<(Key, Box<Connection<H>>)> {
        self.due = self.due.checked_sub(1)?;
        self.patient.pop_front()
    }

    /// Whether a signal interrupted the last wait.
    pub fn was_interrupted(&self) -> bool {
        self.poller.interrupted
    }

    /// Get a new batch of events, asleep if there is none yet, at most for what `most` says then; `hear_signals` is
    /// called before that, and tells whether to sleep. `keeps` tells whether the caller is to sleep once others know
    /// that it does; without it, he serves.
    pub fn wait(
        &mut self,
        shared: &Shared<H>,
        most: impl FnOnce() -> Option<Duration>,
        keeps: Option<impl Fn() -> bool>,
        hear_signals: impl Fn() -> bool,
    ) -> io::Result<()> {
        let was_long = self.is_late();
        self.sweep(shared);
        if !self.queued.is_empty() {
            return Ok(());
        }
        self.owed.clear();
        // After a batch of one that was soon done the next event has hardly come yet: asking would cost a system call for
        // nothing.
        self.due = if keeps.is_none() { self.patient.len() } else { 0 };
        if was_long || self.batch > 1 || self.due > 0 || self.poller.has_more() {
            self.batch = self.poller.wait(Some(Duration::ZERO))?;
            self.came = clock::now();
            if !self.poller.put_first(CONTROLS) && self.batch >= BATCH {
                // There are more events than these, perhaps thousands; who comes new is not to wait for all of them.
                self.queued.extend((0..self.listeners.len()).map(Event::Accept));
            }
            if self.batch > 0 || self.due > 0 {
                return Ok(());
            }
        }
        let timeout = self.timeout(shared.drain_until()).into_iter().chain(most()).min();
        let due = timeout.map(|time| clock::now() + u64::try_from(time.as_millis()).unwrap_or(0));
        if hear_signals() && shared.may_sleep() {
            if keeps.is_some_and(|keeps| !keeps()) {
                shared.slept();
                return Ok(());
            }
            let waited = shared.handler.detached(|| {
                shared.flush_log();
                let waited = self.sleep(timeout);
                self.owed.extend(self.poller.told(LISTENERS));
                // Before any call: who comes during that may be for others, and this worker would take him for the one.
                self.poller.put_first(LISTENERS);
                if self.poller.put_first(CONTROLS) {
                    // A call that keeps the interpreter may keep this thread from reading it.
                    shared.watchdog.rouse();
                    if shared.is_supervised() {
                        shared.overhear();
                    }
                    self.leave_detached(shared);
                }
                waited
            });
            shared.slept();
            self.batch = waited?;
            self.came = clock::now();
            if due.is_none_or(|due| self.came <= due + STANDSTILL) {
                self.seen = self.came;
            }
        }
        Ok(())
    }

    /// Nobody is accepted while who came last is about to say what he wants, which takes him some microseconds, as a rule:
    /// those who come in a crowd would wake this thread one by one, and find that they have nothing to say yet.
    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        if !std::mem::take(&mut self.expects) || self.accepting != Accepting::Yes {
            return self.poller.wait(timeout);
        }
        self.pause_accepting(Accepting::PausedUntil(0));
        let waited = self.poller.wait(timeout.into_iter().chain([EXPECT]).min());
        self.resume_accepting();
        waited
    }

    fn timeout(&self, drain_until: Option<u64>) -> Option<Duration> {
        let now = clock::now();
        let retry = match self.accepting {
            Accepting::PausedUntil(time) => Some(time),
            Accepting::ShutUntil(time) => return Some(Duration::from_millis(time.saturating_sub(now) + 1)),
            _ => None,
        };
        let next = [self.table.earliest_deadline(), retry, self.stop_at, drain_until].into_iter().flatten().min()?;
        // A tick more: the coarse clock must have passed the deadline when the poller returns.
        Some(Duration::from_millis(next.max(self.next_sweep).saturating_sub(now) + 5))
    }

    /// Whether this process stood still just now. What came meanwhile is read before anybody is called late.
    pub fn stood_still(&mut self) -> bool {
        let now = clock::now();
        let seen = std::mem::replace(&mut self.seen, now);
        if now > seen + STANDSTILL && !self.is_put_off {
            self.next_sweep = now + PUT_OFF;
            self.is_put_off = true;
        }
        self.is_put_off
    }

    /// Queue the connections that are late. At most once a tick, however many there are.
    fn sweep(&mut self, shared: &Shared<H>) {
        self.stood_still();
        let now = clock::now();
        if matches!(self.accepting, Accepting::ShutUntil(time) if time <= now) {
            self.resume_accepting();
        }
        if now < self.next_sweep {
            return;
        }
        self.is_put_off = false;
        self.next_sweep = now + TICK;
        if matches!(self.accepting, Accepting::PausedUntil(time) if time <= now) {
            self.resume_accepting();
            if let Some(error) = self.unwatched {
                self.tell_failure(error, shared);
            }
        }
        if self.table.earliest_deadline().is_some_and(|deadline| deadline <= now) {
            self.queued.extend(self.table.late(now).into_iter().map(Event::Late));
        }
        if self.stop_at.is_some_and(|time| time <= now) {
            shared.finish();
        }
    }

    /// Accept one connection at `listener`.
    pub fn accept(&mut self, listener: usize, shared: &Shared<H>) -> Option<(Key, Box<Connection<H>>)> {
        let is_owed = self.owed.contains(&listener);
        if shared.is_supervised() && self.is_late() && !is_owed {
            // While a call was on perhaps nobody read the word that new clients are for others now.
            shared.overhear();
        }
        if self.accepting != Accepting::Yes || shared.leaves_clients() {
            return None;
        }
        self.owed.retain(|&it| it != listener);
        if shared.limits.has_neighbours {
            self.let_others_first();
        }
        let mut accepted = self.accept_at(self.listeners.get(listener)?);
        while matches!(accepted, Some(Accepted::Failed(_))) && self.make_room(shared) {
            accepted = self.accept_at(self.listeners.get(listener)?);
        }
        let Some(accepted) = accepted else {
            self.pause_accepting(Accepting::ShutUntil(clock::now() + SHUT));
            return None;
        };
        if self.failing_since.is_some() && !matches!(accepted, Accepted::Failed(_)) {
            self.tell_recovery(shared);
        }
        match accepted {
            Accepted::Connection(transport, peer) => self.admit(transport, peer, listener, shared),
            Accepted::Nothing => {
                // Another process has taken him, or there was nobody.
                if is_owed && let Some(it) = self.listeners.get_mut(listener).filter(|it| it.is_hung_up()) {
                    it.is_closed = true;
                    let _ = self.poller.remove(&*it);
                }
                None
            }
            Accepted::Failed(error) => {
                self.pause_accepting(Accepting::PausedUntil(clock::now() + TICK));
                self.tell_failure(error, shared);
                None
            }
        }
    }

    /// Whether it is a tick or more since it was last looked what has come.
    fn is_late(&self) -> bool {
        clock::now() > self.came
    }

    /// None if a gate is shut: another process takes who waits.
    fn accept_at(&self, listener: &Listener) -> Option<Accepted> {
        if self.gates.is_empty() { Some(listener.accept()) } else { listener.accept_unless(|| self.is_shut()) }
    }

    /// Give a connection that was accepted a place, unless its client has too many.
    fn admit(
        &mut self,
        transport: Transport,
        peer: Option<SocketAddr>,
        listener: usize,
        shared: &Shared<H>,
    ) -> Option<(Key, Box<Connection<H>>)> {
        shared.count_accepted();
        let connection = Box::new(Connection::new(transport, peer, listener, &shared.fronts));
        if shared.fronts.proxy_protocol && !connection.peer().is_trusted && !shared.fronts.is_own(listener) {
            shared.refuse_introduction("its peer is not among trusted_proxies", peer);
            return None;
        }
        let entered = self.crowd.enter(connection.peer().counted(), shared.limits.max_connections_per_address);
        if entered != Entered::Yes {
            shared.turn_away(connection.transport(), peer, entered == Entered::Full);
            return None;
        }
        if self.table.len() >= shared.limits.max_connections {
            self.make_room(shared);
        }
        let key = self.table.reserve(connection.descriptor());
        let is_full = self.table.len() >= shared.limits.max_connections && self.expendable.is_empty();
        if is_full && self.accepting == Accepting::Yes {
            // At once: whoever comes next is to wake another process, and not this one in vain.
            self.pause_accepting(Accepting::Full);
        }
        self.show_count(shared);
        Some((key, connection))
    }

    /// Cut a connection that lingers, if there is one: its place, or its descriptor, is needed.
    fn make_room(&mut self, shared: &Shared<H>) -> bool {
        let next = self.expendable.pop().and_then(|key| Some((key, self.table.take(key)?)));
        next.map(|(key, connection)| self.close(key, connection, shared)).is_some()
    }

    /// The kernel wakes the process that has watched a listener longest, so that an idle one would get all who come: each
    /// time that `SHARE` more are open it watches anew, and who comes from then on wakes another one. Who waits now is
    /// accepted here all the same: nobody else may have been told of him.
    fn let_others_first(&mut self) {
        self.yielded = self.yielded.min(self.table.len());
        if self.table.len() >= self.yielded + SHARE {
            self.yielded = self.table.len();
            self.pause_accepting(Accepting::PausedUntil(0));
            self.resume_accepting();
        }
    }

    fn show_count(&self, shared: &Shared<H>) {
        shared.row.counts.connections.store(self.table.len() as u64, Ordering::Relaxed);
    }

    /// Once, however often it is tried in vain.
    fn tell_failure(&mut self, error: io::Errno, shared: &Shared<H>) {
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

    fn tell_recovery(&mut self, shared: &Shared<H>) {
        if let Some(since) = self.failing_since.take() {
            let seconds = (clock::now() - since).div_ceil(1000);
            shared.handler.report('N', None, &format!("connections are accepted again after {seconds} s"));
        }
    }

    /// Take a connection that is ready; it is away then. One that is away already is watched no more until it returns.
    pub fn take(&mut self, key: Key) -> Option<Box<Connection<H>>> {
        let taken = self.table.take(key);
        if taken.is_none()
            && let Some(descriptor) = self.table.unwatch(key)
        {
            // SAFETY: the descriptor belongs to the connection of `key`, which is away but alive: its thread puts it
            // back through this table before it is closed. A read-ready event of a request that came too early is
            // the only way here.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            // Adding it again is how it returns, see `park`.
            let _ = self.poller.remove(descriptor);
        }
        taken
    }

    /// Take the streams of the thread of `slot` that wait, all at once. Nothing is sent any more: connections
    /// that have not got all of an answer without a stream are reset.
    pub fn take_streams(&mut self, slot: usize) -> Vec<(Key, Box<Connection<H>>)> {
        let mut streams = Vec::new();
        for key in self.table.waiting() {
            match self.table.take(key) {
                Some(stream) if stream.owner() == Some(slot) => streams.push((key, stream)),
                Some(other) => {
                    if other.owner().is_none() && other.is_unfinished() {
                        other.transport().reset();
                    }
                    self.table.put(key, other, u64::MAX);
                }
                None => {}
            }
        }
        streams
    }

    /// Let a connection wait for what it needs next.
    pub fn park(&mut self, key: Key, mut connection: Box<Connection<H>>, shared: &Shared<H>) {
        let is_left = connection.is_idle() && shared.is_stopping();
        if is_left && !connection.is_fresh(FRESH) && !self.is_put_off {
            if std::mem::replace(&mut connection.was_looked_at, true) {
                return self.close(key, connection, shared);
            }
            // A request may have come while the one before it was served: look once more.
            self.table.put(key, connection, u64::MAX);
            return self.queued.push_back(Event::Ready(key));
        }
        let interest = connection.interest();
        let watched = match (connection.watched, interest) {
            (before, now) if before == now => Ok(()),
            (Some(_), Some(now)) => self.poller.modify(connection.transport(), key.token(), now),
            (None, Some(now)) => self.poller.add(connection.transport(), key.token(), now),
            (_, None) => self.poller.remove(connection.transport()),
        };
        connection.watched = interest;
        self.expects |= connection.is_unread;
        if watched.is_err() {
            return self.close(key, connection, shared);
        }
        if interest == Some(Interest::Write) {
            connection.note_untaken();
        }
        if connection.lingers() && !std::mem::replace(&mut connection.is_expendable, true) {
            self.expendable.add(key, connection.peer().is_trusted);
            if self.accepting == Accepting::Full {
                self.resume_accepting();
            }
        }
        let mut deadline = connection.deadline(shared);
        if is_left {
            deadline = deadline.min(clock::now() + FRESH);
        }
        self.table.put(key, connection, deadline);
    }

    /// Keep a connection of which nothing was read for whoever can serve it, in this image or the next.
    pub fn shelve(&mut self, (key, mut connection): (Key, Box<Connection<H>>)) {
        if connection.watched.take().is_some() {
            let _ = self.poller.remove(connection.transport());
        }
        self.shelf.push((key, connection));
    }

    /// There is somebody who can serve them.
    pub fn unshelve(&mut self) {
        for (key, connection) in self.shelf.drain(..) {
            self.table.put(key, connection, u64::MAX);
            self.queued.push_back(Event::Ready(key));
        }
    }

    /// The connections of which nothing was read, with their listeners.
    pub fn take_unread(&mut self) -> Vec<(Transport, usize)> {
        self.unshelve();
        let waiting = self.table.waiting();
        let connections = waiting.into_iter().filter_map(|key| self.table.take(key));
        let unread = connections.filter(|connection| connection.is_unread);
        unread.map(|connection| (connection.transport().clone(), connection.listener())).collect()
    }

    /// Nobody will serve those who wait: let them know.
    pub fn excuse(&mut self, shared: &Shared<H>) {
        for key in self.table.waiting() {
            if let Some(connection) = self.table.take(key) {
                connection.excuse(shared);
            }
        }
        self.excuse_untaken(shared);
    }

    /// Nobody came to serve those whose turn it would be: let them know.
    pub fn excuse_untaken(&mut self, shared: &Shared<H>) {
        for (_, connection) in self.patient.drain(..).chain(self.shelf.drain(..)) {
            connection.excuse(shared);
        }
    }

    /// Go on with a connection that another image accepted.
    pub fn adopt(&mut self, socket: OwnedFd, listener: usize, shared: &Shared<H>) {
        let Ok(peer) = rustix::net::getpeername(&socket) else { return }; // it is gone
        let peer = peer.and_then(|peer| peer.try_into().ok());
        if let Some((key, connection)) = self.admit(Transport::new(socket), peer, listener, shared) {
            self.table.put(key, connection, u64::MAX);
            self.queued.push_back(Event::Ready(key));
        }
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
            return self.patient.push_back((key, connection));
        }
        self.park(key, connection, shared);
    }

    /// Look behind the events of this batch at a connection that was just accepted: its request has often come with it,
    /// which spares the poller.
    pub fn look_next(&mut self, key: Key, connection: Box<Connection<H>>, shared: &Shared<H>) {
        let deadline = connection.deadline(shared);
        self.table.put(key, connection, deadline);
        self.poller.put_last(key.token());
    }

    /// How many connections may be accepted in one turn.
    pub fn most_accepts(&self, shared: &Shared<H>) -> usize {
        match (self.gates.is_empty(), shared.limits.has_neighbours) {
            // The gate may be shut before the next one is served.
            (false, _) => 1,
            // Other processes may be free for them sooner: no more than have asked here.
            (true, true) => self.batch.clamp(1, ACCEPTS),
            (true, false) => ACCEPTS,
        }
    }

    /// End a connection.
    pub fn close(&mut self, key: Key, connection: Box<Connection<H>>, shared: &Shared<H>) {
        self.crowd.leave(connection.peer().counted(), shared.limits.max_connections_per_address);
        if connection.is_expendable {
            self.expendable.remove(key);
        }
        if connection.is_unfinished() {
            connection.transport().reset();
        }
        if connection.watched.is_some() {
            // A child of the application may hold the same socket open: closing our descriptor would then neither end
            // the connection nor take it out of the poller.
            connection.transport().end();
            let _ = self.poller.remove(connection.transport());
        }
        shared.note_freed(connection.held() + size_of_val(&*connection));
        drop(connection);
        self.table.release(key);
        self.show_count(shared);
        if self.accepting == Accepting::Full {
            self.resume_accepting();
        }
    }

    /// Listen no more to a control descriptor whose other end is gone.
    pub fn forget(&self, control: BorrowedFd<'_>) {
        let _ = self.poller.remove(control);
    }

    /// Accept no more: other workers do, but for him whose arrival the kernel has told to this one alone, while it slept.
    /// The queue must not be kept open where those stop meanwhile: who came then would be reset with its end.
    pub fn leave(&mut self, shared: &Shared<H>) {
        self.pause_accepting(Accepting::Never);
        let listeners = std::mem::take(&mut self.listeners);
        for index in std::mem::take(&mut self.owed) {
            if let Some(listener) = listeners.get(index) {
                self.accept_last(listener, index, 1, shared);
            }
        }
        shared.note_closed();
    }

    /// The same if it is asked for, without the interpreter, which a call may keep: not where somebody is to be let in first,
    /// which takes it.
    pub fn leave_detached(&mut self, shared: &Shared<H>) {
        if shared.leaves_clients() && self.owed.is_empty() {
            self.leave(shared);
        }
    }

    /// Accept no more, close what is idle, and end at `deadline` at the latest.
    pub fn stop(&mut self, deadline: u64, shared: &Shared<H>) {
        if self.stop_at.replace(deadline).is_none() {
            self.queued.extend(self.table.waiting().into_iter().map(Event::Ready));
            self.pause_accepting(Accepting::Never);
        }
        // A successor takes over who waits already.
        if !shared.has_successor() && !self.listeners.is_empty() {
            let listeners = std::mem::take(&mut self.listeners);
            self.accept_all(&listeners, shared);
            // Not before: who comes between now and the close has to ask once more, a second later.
            if self.gates.is_empty() && shared.is_last() {
                listeners.iter().for_each(Listener::shut);
                let until = Instant::now() + HANDSHAKE;
                self.accept_all(&listeners, shared);
                while Instant::now() < until {
                    self.accept_all(&listeners, shared);
                }
            }
            // From here on the kernel refuses: nobody waits in vain.
            drop(listeners);
            shared.note_closed();
        }
    }

    /// Whoever got into the queue of a listener was accepted by the kernel: serve him. All at once, for those that are
    /// served now may come again at once.
    fn accept_all(&mut self, listeners: &[Listener], shared: &Shared<H>) {
        for (index, listener) in listeners.iter().enumerate() {
            self.accept_last(listener, index, LAST_ACCEPTS, shared);
        }
    }

    fn accept_last(&mut self, listener: &Listener, index: usize, most: usize, shared: &Shared<H>) {
        for _ in 0..most {
            let Some(Accepted::Connection(transport, peer)) = self.accept_at(listener) else { break };
            if let Some((key, connection)) = self.admit(transport, peer, index, shared) {
                self.table.put(key, connection, u64::MAX);
                self.queued.push_back(Event::Ready(key));
            }
        }
    }

    /// Whether all connections but those that are given up are gone after a stop.
    pub fn is_done(&self, given_up: usize) -> bool {
        // A connection that waits for its turn has a place in the table.
        self.stop_at.is_some() && self.table.len() <= given_up && self.queued.is_empty()
    }

    /// How many connections have something unfinished. Idle ones are here no more after a stop, but where this loop has
    /// not come to it.
    pub fn unfinished(&mut self) -> usize {
        let mut idle = 0;
        for key in self.table.waiting() {
            if let Some(connection) = self.table.take(key) {
                idle += usize::from(connection.is_idle());
                self.table.put(key, connection, u64::MAX);
            }
        }
        self.table.len() - idle
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// Whether the queues of the listeners may be another process's now. Looked at before each connection is taken, so
    /// that no word has to reach this process, which may be busy, before that is so; the gates in their order, as a word may
    /// go from one to the next.
    fn is_shut(&self) -> bool {
        let mut gates: Vec<_> = self.gates.iter().map(|gate| PollFd::new(gate, PollFlags::IN)).collect();
        poll(&mut gates, Some(&Timespec::default())) != Ok(0)
    }

    fn pause_accepting(&mut self, state: Accepting) {
        if self.accepting == Accepting::Yes {
            for listener in &self.listeners {
                let _ = self.poller.remove(listener);
            }
        }
        self.accepting = state;
    }

    fn resume_accepting(&mut self) {
        if matches!(self.accepting, Accepting::Never | Accepting::Yes) {
            return;
        }
        self.accepting = Accepting::Yes;
        // Whom a connection wakes while his gate is shut leaves it to the others, so they are to be woken too.
        let interest = if self.gates.is_empty() { Interest::Accept } else { Interest::Read };
        let open = (LISTENERS..).zip(&self.listeners).filter(|(_, it)| !it.is_closed);
        let mut added = open.map(|(token, it)| self.poller.add(it, token, interest));
        self.unwatched = added.find_map(Result::err);
        if self.unwatched.is_some() {
            // Out of memory, or of what this user may watch: to be tried again, as those who wait have no other way in.
            self.pause_accepting(Accepting::PausedUntil(clock::now() + TICK));
        }
    }
}

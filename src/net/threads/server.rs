//! The server of one process: one event loop and the threads that stand in it.
//!
//! **The baton.** One thread at a time holds the loop. Before it calls the application it takes the connection out of
//! the table and lays the baton down; afterwards it takes the baton up again if it is still free, else it leaves the
//! connection to the holder and goes to sleep. Both are uncontended atomic operations: no clock, no wake-up. A call
//! that blocks leaves the baton free without progress; the [`watchdog`] sees that and wakes a sleeper, who serves on.
//! So a fast application costs with many threads what it costs with one, and a blocked call holds up nobody.
//! Where calls have been slow lately a sleeper is woken at once, as long as there is room in the application for one more
//! call ([`super::admission`]). A thread that returns from a call and finds no room leaves the next request to those that
//! are still inside.
//!
//! **The caretaker.** With a `health` path and one process there is one thread more, which never calls the application:
//! it holds the loop while all others are in there, answers for the server, and lays the baton down as soon as one of
//! them is back. What has come for the application it leaves unread: where no thread comes back, a new image gets it. So
//! it does who has ended without a word: that is how a watchdog asks whether anybody serves.
//!
//! Nobody waits for the baton while attached to the interpreter: it is only ever tried for.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::team::Team;
use crate::limits::Limits;
use crate::net::clock::{self, Pulse};
use crate::net::connections::connection::{Connection, Verdict};
use crate::net::connections::scratch::Scratch;
use crate::net::connections::transport::Transport;
use crate::net::events::event_loop::{Event, EventLoop};
use crate::net::events::listener::Listener;
use crate::net::events::table::Key;
use crate::net::handler::{Handler, Thread};
use crate::net::heap::{self, Freed};
use crate::net::lifecycle::process::{Descriptors, Process, read_control};
use crate::net::lock::lock;
use crate::net::panics::{self, Panics};
use crate::net::proxies::policy::ProxyPolicy;
use crate::net::report::access_log::AccessLog;
use crate::net::report::scoreboard::{Counts, Row, State};
use crate::net::report::supervisor::Supervisor;
use crate::net::shared::Shared;
use crate::net::watch::admission::Pace;
use crate::net::watch::cpu::{self, micros};
use crate::net::watch::watchdog;
use crate::net::watch::watched::{Watchdog, Watched};

/// How long the holder of the baton sleeps at most while others are in the application: if that closes the descriptor he
/// waits at, nothing wakes him.
const LOOK_UP: Duration = Duration::from_secs(1);
/// How long a request may wait for a thread that is awake and idle, or has yet to start, in ms: on a loaded machine that
/// takes a while; where no thread can be started it never comes.
const HOPE: u64 = 500;

/// For how long the watchdog asks the caretaker for the baton, where every other thread is lost: one that waits for the
/// interpreter never lays it down.
const LAST_WISH: Duration = Duration::from_millis(500);

/// Time in which a thread closes the streams that a stop left behind, in ms; a supervisor kills after a second.
const LAST_CLOSES: u64 = 500;

/// The slot of the thread on which the interpreter hears signals.
const SIGNAL_SLOT: usize = 0;

/// A connection with its name.
type Named<H> = (Key, Box<Connection<H>>);

/// The baton.
type Held<'a, H> = MutexGuard<'a, EventLoop<H>>;

/// The server.
pub struct Server<H: Handler> {
    shared: Shared<H>,
    /// Of the listeners.
    sockets: Vec<Weak<OwnedFd>>,
    baton: Mutex<EventLoop<H>>,
    /// Readable while an event waits for the loop.
    events: OwnedFd,
    /// Connections that were served, for the next holder of the baton.
    returned: Mutex<Vec<(Named<H>, Verdict)>>,
    team: Team<Named<H>>,
    watchdog: Watchdog,
    threads: usize,
    /// Whether somebody has the baton, for the watchdog.
    held: AtomicBool,
    /// How often the baton was laid down.
    calls: AtomicU64,
    /// How calls go.
    pace: Pace,
    /// Nothing could be waited for any more.
    failed: AtomicBool,
    /// Every thread but the caretaker is lost, and the process about to end.
    lost: AtomicBool,
    /// The first thread, which ends the process, is in its run.
    first_is_here: AtomicBool,
    /// It was told that the time of a stop is over.
    is_lateness_told: AtomicBool,
}

/// What a server is connected to.
#[derive(Debug)]
pub struct Ends {
    /// Where clients come.
    pub listeners: Vec<Listener>,
    /// Where signals come, a byte each.
    pub controls: Vec<OwnedFd>,
    /// Where a supervisor is told of it.
    pub supervisor: Supervisor,
    /// While one of them is readable nobody is accepted.
    pub gates: Vec<OwnedFd>,
    /// Who is the last one that accepts; see [`Process::is_last`].
    pub countdown: Option<OwnedFd>,
    /// Where everybody can see what it does; with a cell for each thread.
    pub row: Row,
}

/// How many descriptors this process may have.
fn descriptors() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many connections leave descriptors for the application: an eighth of all, at least 32.
fn connections_for(descriptors: u64) -> usize {
    let reserved = (descriptors / 8).max(32);
    usize::try_from(descriptors.saturating_sub(reserved)).unwrap_or(usize::MAX).max(1)
}

impl<H: Handler> Server<H> {
    /// A server for `threads` threads, each of which is to call [`Server::run`].
    pub fn new(
        handler: H,
        mut limits: Limits,
        proxies: ProxyPolicy,
        access_log: AccessLog,
        ends: Ends,
        threads: usize,
    ) -> std::io::Result<Self> {
        let Ends { listeners, controls, supervisor, row, gates, countdown } = ends;
        heap::share();
        limits.max_connections = limits.max_connections.min(connections_for(descriptors()));
        let kept: Vec<_> = listeners.iter().map(|listener| Arc::clone(&listener.socket)).collect();
        let sockets = kept.iter().map(Arc::downgrade).collect();
        let descriptors = Descriptors { controls, supervisor, listeners: kept, countdown };
        let process = Process::new(descriptors, row, limits.graceful_timeout)?;
        let event_loop = EventLoop::new(listeners, process.controls(), process.waker.descriptor(), gates)?;
        let has_health_thread = proxies.has_health_thread;
        let shared = Shared { handler, limits, proxies, access_log, row, freed: Freed::default(), process };
        Ok(Self {
            shared,
            sockets,
            events: event_loop.descriptor()?,
            baton: Mutex::new(event_loop),
            returned: Mutex::default(),
            watchdog: Watchdog::default(),
            team: Team::new(row.pulses().take(threads + usize::from(has_health_thread)), has_health_thread),
            threads,
            held: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            pace: Pace::default(),
            failed: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            first_is_here: AtomicBool::new(false),
            is_lateness_told: AtomicBool::new(false),
        })
    }

    /// Serve on the calling thread, as that of `slot`, until stopped.
    pub fn run(self: &Arc<Self>, slot: usize) -> Result<(), String> {
        let pulse = self.team.join(slot)?;
        let state = self.shared.handler.enter(slot);
        let mut scratch = Scratch::new(Thread { slot, pulse, finished: self.shared.process.finished(), state });
        if slot == 0 {
            self.first_is_here.store(true, Ordering::SeqCst);
            self.shared.row.enter(State::Serving);
        }
        self.watch().map_err(|error| format!("the thread that watches cannot be started: {error}"))?;
        let mut panics = Panics::default();
        // Around all turns and not around each: so it costs nothing.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_turns(&mut scratch))) {
            // What this turn had in hand is lost, with its place in the table; not the loop.
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

    /// Serve until this server is finished.
    fn take_turns(&self, scratch: &mut Scratch<H>) {
        let slot = scratch.thread.slot;
        let mut held = self.take_baton_as(slot);
        while !self.shared.process.is_finished() {
            held = match held {
                Some(event_loop) => self.turn(event_loop, scratch),
                None => {
                    self.hear_signals(slot);
                    self.shared.handler.detached(|| self.team.sleep(slot, || self.tell_asleep(slot)));
                    if slot == SIGNAL_SLOT {
                        // Perhaps it was a signal, and the holder of the baton is stuck.
                        self.shared.process.watchdog.rouse();
                    }
                    self.hear_signals(slot);
                    self.serve_mail(scratch).or_else(|| self.take_baton_as(slot))
                }
            };
        }
    }

    /// What grows with each client who comes and with each request that is answered.
    fn done(&self) -> u64 {
        let Counts { accepted, requests, .. } = self.counts();
        accepted.load(Ordering::Relaxed) + requests.load(Ordering::Relaxed)
    }

    /// Tell how many a stop leaves unfinished, and break off the streams of this thread among them, so that the application
    /// closes them.
    fn close_streams(&self, scratch: &mut Scratch<H>) {
        let is_late = self.shared.process.is_stop_late();
        // Mail is sent with the baton in hand: none comes later.
        let (streams, unfinished) = self.shared.handler.detached(|| {
            let mut event_loop = lock(&self.baton);
            self.adopt_returned(&mut event_loop);
            let unfinished = event_loop.unfinished().saturating_sub(self.given_up());
            let mut streams = event_loop.take_streams(scratch.thread.slot);
            streams.extend(std::iter::from_fn(|| self.team.mail(scratch.thread.slot)));
            if is_late {
                event_loop.answer_untaken(&self.shared);
            }
            (streams, unfinished)
        });
        if is_late {
            self.tell_lateness(unfinished);
        }
        let end = clock::now() + LAST_CLOSES;
        for (_, mut connection) in streams {
            if clock::now() > end {
                break;
            }
            connection.break_off();
            self.guarded(&mut connection, scratch, Connection::serve);
        }
    }

    /// The first thread leaves. The watchdog stays while others are in the application: they may keep the interpreter,
    /// and then nobody else could end the process.
    fn leave(&self) {
        let handler = &self.shared.handler;
        handler.detached(|| self.watchdog.retire());
        self.first_is_here.store(false, Ordering::SeqCst);
        self.shared.process.watchdog.rouse();
        if !self.is_busy() {
            handler.detached(|| self.watchdog.join());
        }
    }

    /// A stop reached its deadline with so many connections left: tell it once.
    fn tell_lateness(&self, unfinished: usize) {
        if unfinished > 0 && !self.is_lateness_told.swap(true, Ordering::Relaxed) {
            let text = format!("the time of the stop is over; unfinished connections: {unfinished}");
            self.shared.handler.report('W', None, &text);
        }
    }

    /// How many connections are not waited for: their calls do not return.
    fn given_up(&self) -> usize {
        self.watchdog.given_up(|slot| self.team.pulse(slot).and_then(Pulse::last))
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

    /// Let go of the listeners that are still open, in a child that was forked: it would keep their ports. Their numbers
    /// stay taken, since the descriptors will be closed once more. No lock is taken: another thread may have had it.
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
        let unread = self.take_baton().map_or_else(Vec::new, |mut event_loop| event_loop.take_unread());
        let owned = |transport: &Transport| transport.as_fd().try_clone_to_owned().ok();
        unread.iter().filter_map(|(transport, listener)| Some((owned(transport)?, *listener))).collect()
    }

    /// Go on with a connection that the image before this one accepted. Call it before any [`Server::run`].
    pub fn adopt(&self, socket: OwnedFd, listener: usize) {
        lock(&self.baton).adopt(socket, listener, &self.shared);
    }

    /// Whether it has finished for a successor's sake.
    pub fn makes_way(&self) -> bool {
        self.shared.process.is_finished() && self.shared.process.has_successor()
    }

    /// The number of the first signal that asked to stop at once; 0 for none.
    pub fn stopped_at_once_by(&self) -> i32 {
        self.shared.process.stop_at_once().map_or(0, Signal::as_raw)
    }

    /// Whether it has finished because nothing could be waited for any more.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The application.
    pub fn handler(&self) -> &H {
        &self.shared.handler
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.shared.row.counts
    }

    /// Whether the caretaker is to hold the baton no longer: somebody is there who may serve, or the process ends.
    fn is_relieved(&self) -> bool {
        self.team.has_sleeper() || self.lost.load(Ordering::SeqCst)
    }

    fn take_baton(&self) -> Option<Held<'_, H>> {
        let guard = match self.baton.try_lock() {
            Ok(guard) => guard,
            // A panic under the baton left the loop as it was between two calls.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.held.store(true, Ordering::Relaxed);
        Some(guard)
    }

    /// The same for the thread of `slot`: the caretaker leaves the baton to those who may serve.
    fn take_baton_as(&self, slot: usize) -> Option<Held<'_, H>> {
        if self.team.is_health_thread(slot) && self.is_relieved() {
            self.team.wake_one();
            return None;
        }
        self.take_baton()
    }

    /// The thread of `slot` goes to sleep: there is somebody whom the watchdog may wake, and who could have the baton if the
    /// caretaker holds it.
    fn tell_asleep(&self, slot: usize) {
        self.shared.process.watchdog.rouse();
        if self.team.has_health_thread() && !self.team.is_health_thread(slot) {
            self.shared.process.waker.wake_if_asleep();
        }
    }

    fn lay_down(&self, event_loop: Held<'_, H>) {
        self.shared.process.watchdog.rouse();
        // Nobody else writes it meanwhile, so that it needs no atomic addition, which costs more.
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.held.store(false, Ordering::Relaxed);
        drop(event_loop);
    }

    /// One turn of the loop. Returns the baton unless another thread took it meanwhile.
    fn turn<'a>(&'a self, mut event_loop: Held<'a, H>, scratch: &mut Scratch<H>) -> Option<Held<'a, H>> {
        let shared = &self.shared;
        match event_loop.next_event() {
            Some(Event::Accept(listener)) => event_loop.accept(listener, shared),
            Some(Event::Ready(key)) => return self.attend_to(key, event_loop, scratch, Connection::advance),
            Some(Event::Late(key)) => return self.attend_to(key, event_loop, scratch, Connection::late),
            Some(Event::Control(index)) => self.heed(&mut event_loop, index, scratch.thread.slot),
            Some(Event::Wake) => {
                shared.process.waker.drain();
                if shared.process.was_overheard() {
                    self.tell_interpreter(scratch.thread.slot);
                }
            }
            None if self.team.is_health_thread(scratch.thread.slot) => {
                if self.adopt_returned(&mut event_loop) || self.is_relieved() {
                    self.lay_down(event_loop);
                    self.team.wake_one();
                    return None;
                }
                self.wait(&mut event_loop, scratch.thread.slot);
            }
            None => match self.team.mail(scratch.thread.slot).or_else(|| event_loop.next_pipelined()) {
                Some(named) => return self.begin(event_loop, named, scratch),
                None => self.wait(&mut event_loop, scratch.thread.slot),
            },
        }
        Some(event_loop)
    }

    /// Do `work` for the connection of `key`, if it is still there and this thread may do it.
    fn attend_to<'a>(
        &'a self,
        key: Key,
        mut event_loop: Held<'a, H>,
        scratch: &mut Scratch<H>,
        work: impl FnOnce(&mut Connection<H>, &Shared<H>, &mut Scratch<H>) -> Verdict,
    ) -> Option<Held<'a, H>> {
        let Some(mut connection) = event_loop.take(key) else { return Some(event_loop) };
        if self.leaves(&connection, scratch.thread.slot) {
            event_loop.keep_unread((key, connection));
            return Some(event_loop);
        }
        if self.team.is_health_thread(scratch.thread.slot) && connection.is_unread && connection.watched.is_none() {
            // What it has not seen it must not read a moment later: the poller tells when something is there.
            event_loop.park(key, connection, &self.shared);
            return Some(event_loop);
        }
        let verdict = self.guarded(&mut connection, scratch, work);
        self.settle(event_loop, (key, connection), verdict, scratch)
    }

    fn wait(&self, event_loop: &mut EventLoop<H>, slot: usize) {
        let shared = &self.shared;
        // The caretaker has just looked: what came since keeps it from sleeping.
        if !self.team.is_health_thread(slot) {
            self.adopt_returned(event_loop);
            event_loop.release_unread();
        }
        if shared.process.leaves_clients() {
            event_loop.leave(shared);
        }
        if !event_loop.stood_still() {
            shared.process.end_drain(event_loop.connections(), || self.given_up());
        }
        if shared.process.is_stopping() {
            event_loop.stop(shared.process.stop_deadline().unwrap_or(0), shared);
            if event_loop.is_done(self.given_up()) {
                return shared.process.finish();
            }
        }
        let keeps = self.team.is_health_thread(slot).then_some(|| !self.is_relieved());
        let most = || self.is_busy().then_some(LOOK_UP);
        if let Err(error) = event_loop.wait(shared, most, keeps, || !self.hear_signals(slot)) {
            shared.handler.report('C', None, &format!("waiting for events failed: {error}; stopping"));
            self.failed.store(true, Ordering::Relaxed);
            shared.process.finish();
        }
        if event_loop.was_interrupted() {
            self.hear_signals(slot);
        }
    }

    /// Whether the thread of `slot` cannot serve what has come, and leaves it unread to one that can.
    fn leaves(&self, connection: &Connection<H>, slot: usize) -> bool {
        self.team.is_health_thread(slot) && connection.is_for_application(&self.shared)
    }

    /// Do what a verdict says.
    fn settle<'a>(
        &'a self,
        mut event_loop: Held<'a, H>,
        (key, connection): Named<H>,
        verdict: Verdict,
        scratch: &mut Scratch<H>,
    ) -> Option<Held<'a, H>> {
        match verdict {
            Verdict::Park => event_loop.park(key, connection, &self.shared),
            Verdict::Close => event_loop.close(key, connection, &self.shared),
            Verdict::Serve => match connection.owner() {
                Some(owner) if owner != scratch.thread.slot => self.team.send(owner, (key, connection)),
                _ if self.team.is_health_thread(scratch.thread.slot) => {
                    event_loop.settle(key, connection, verdict, &self.shared);
                }
                _ => return self.begin(event_loop, (key, connection), scratch),
            },
        }
        Some(event_loop)
    }

    /// Lay the baton down and serve; or leave that to a thread that has no streams, if this one has: who waits for the
    /// next part of those would have to wait for this call too.
    fn begin<'a>(
        &'a self,
        mut event_loop: Held<'a, H>,
        (key, connection): Named<H>,
        scratch: &mut Scratch<H>,
    ) -> Option<Held<'a, H>> {
        let slot = scratch.thread.slot;
        if connection.owner().is_none() && self.team.relieves(slot, || connection.is_fresh(HOPE)) {
            event_loop.settle(key, connection, Verdict::Serve, &self.shared);
            self.lay_down(event_loop);
            return None;
        }
        self.lay_down(event_loop);
        self.serve((key, connection), scratch)
    }

    /// Give a connection to the application, without the baton, and take the baton up again if it is free.
    fn serve(&self, (key, mut connection): Named<H>, scratch: &mut Scratch<H>) -> Option<Held<'_, H>> {
        let shared = &self.shared;
        self.team.begin(scratch.thread.slot);
        let began = (self.threads > 1 && self.pace.is_slow()).then(|| {
            if self.has_room(scratch.thread.slot, 1) {
                self.team.wake_one();
            }
            (Instant::now(), cpu::own_time())
        });
        let had_stream = connection.owner().is_some();
        let verdict = self.guarded(&mut connection, scratch, Connection::serve);
        self.team.note_stream(scratch.thread.slot, had_stream, connection.owner().is_some());
        if let Some((began, cpu)) = began {
            fence(Ordering::SeqCst); // see `keep`
            self.pace.note(micros(began.elapsed()), micros(cpu::own_time().saturating_sub(cpu)));
        }
        if let Some(mut event_loop) = self.take_baton() {
            event_loop.settle(key, connection, verdict, shared);
            return self.keep(event_loop, scratch.thread.slot);
        }
        self.pace.note_slow();
        lock(&self.returned).push(((key, connection), verdict));
        shared.process.waker.announce();
        // The holder sees it before it sleeps, or is woken; unless it laid the baton down just now.
        let held = self.take_baton();
        if held.is_none() {
            shared.process.waker.wake_if_asleep();
        }
        self.keep(held?, scratch.thread.slot)
    }

    /// Keep the baton for the next request if there is room for its call; else leave it to those that are inside.
    fn keep<'a>(&'a self, event_loop: Held<'a, H>, slot: usize) -> Option<Held<'a, H>> {
        if self.has_room(slot, 0) {
            return Some(event_loop);
        }
        self.lay_down(event_loop);
        // They may have returned meanwhile, and found the baton taken: they rest their pulse before they try for it.
        fence(Ordering::SeqCst);
        if self.has_room(slot, 0) { self.take_baton() } else { None }
    }

    /// Do `work`; a panic, which would be a defect of ours, costs this connection and no other.
    fn guarded(
        &self,
        connection: &mut Connection<H>,
        scratch: &mut Scratch<H>,
        work: impl FnOnce(&mut Connection<H>, &Shared<H>, &mut Scratch<H>) -> Verdict,
    ) -> Verdict {
        let shared = &self.shared;
        catch_unwind(AssertUnwindSafe(|| work(connection, shared, scratch))).unwrap_or_else(|panic| {
            scratch.thread.pulse.rest();
            shared.handler.report('C', None, &panics::told(&*panic));
            catch_unwind(AssertUnwindSafe(|| connection.fail(shared, scratch))).unwrap_or(Verdict::Close)
        })
    }

    /// Go on with the streams of this thread that others found ready.
    fn serve_mail(&self, scratch: &mut Scratch<H>) -> Option<Held<'_, H>> {
        while let Some(named) = self.team.mail(scratch.thread.slot) {
            if let Some(event_loop) = self.serve(named, scratch) {
                return Some(event_loop);
            }
        }
        None
    }

    /// Returns whether there was anything.
    fn adopt_returned(&self, event_loop: &mut EventLoop<H>) -> bool {
        if !self.shared.process.waker.take_news() {
            return false;
        }
        let returned = std::mem::take(&mut *lock(&self.returned));
        let is_any = !returned.is_empty();
        for ((key, connection), verdict) in returned {
            event_loop.settle(key, connection, verdict, &self.shared);
        }
        is_any
    }

    /// Whether there is room for one more call. Counted are the short calls of other threads than that of `slot`, and
    /// `more`.
    fn has_room(&self, slot: usize, more: usize) -> bool {
        let room = if self.pace.is_slow() { self.pace.room() } else { usize::MAX };
        room >= self.threads || {
            let others = self.team.threads().enumerate().filter(|&(other, _)| other != slot);
            let short = others.filter(|(_, (thread, is_inside))| *is_inside && !thread.takes_no_room());
            short.count() + more < room
        }
    }

    /// Let the interpreter's handlers run for the signals that came. They tell of themselves by bytes, as a rule; but
    /// the application may have taken the descriptor of those. Returns whether a stop began.
    fn hear_signals(&self, slot: usize) -> bool {
        let stops = slot == SIGNAL_SLOT && self.shared.handler.hear_signals();
        if stops {
            self.shared.process.begin_stop();
        }
        stops
    }

    /// Signals came, or the parent died.
    fn heed(&self, event_loop: &mut EventLoop<H>, index: usize, slot: usize) {
        let shared = &self.shared;
        let Some(control) = shared.process.controls().get(index) else { return };
        let (signals, ended) = read_control(control);
        if ended {
            event_loop.forget(control.as_fd());
        }
        if !signals.is_empty() {
            self.tell_interpreter(slot);
        }
        shared.process.obey(&signals, ended);
        if shared.process.leaves_clients() {
            event_loop.leave(shared);
        }
    }

    /// The interpreter runs its handlers on the main thread only, which may be a follower now.
    fn tell_interpreter(&self, slot: usize) {
        self.team.summon(SIGNAL_SLOT);
        self.hear_signals(slot);
    }
}

impl<H: Handler> Watched for Server<H> {
    type Handler = H;

    fn shared(&self) -> &Shared<H> {
        &self.shared
    }

    fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    fn pace(&self) -> &Pace {
        &self.pace
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn has_first(&self) -> bool {
        self.first_is_here.load(Ordering::SeqCst)
    }

    fn pulses(&self) -> impl Iterator<Item = Pulse> {
        self.team.pulses()
    }

    fn tasks(&self) -> impl Iterator<Item = (&cpu::Thread, bool)> + Clone {
        self.team.threads()
    }

    fn has_followers(&self) -> bool {
        self.team.has_followers()
    }

    fn is_awake(&self) -> bool {
        self.team.is_awake()
    }

    fn wake_one(&self) -> bool {
        self.team.wake_one()
    }

    fn calls_if_free(&self) -> Option<u64> {
        (!self.held.load(Ordering::Relaxed)).then(|| self.calls.load(Ordering::Relaxed))
    }

    fn is_awaited(&self) -> bool {
        poll(&mut [PollFd::new(&self.events, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    fn leave_clients(&self) {
        if !self.shared.process.leaves_clients() || self.shared.process.is_closed() {
            return;
        }
        if let Some(mut event_loop) = self.take_baton() {
            event_loop.leave_detached(&self.shared);
            self.lay_down(event_loop);
            self.team.wake_one();
            self.team.summon(SIGNAL_SLOT); // it may have come just now, and found the baton taken
        }
    }

    fn excuse(&self) {
        self.lost.store(true, Ordering::SeqCst);
        let end = Instant::now() + LAST_WISH;
        while Instant::now() < end {
            if let Some(mut event_loop) = self.take_baton() {
                return event_loop.answer_unserved(&self.shared);
            }
            self.shared.process.waker.wake();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

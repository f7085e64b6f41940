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

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::ioctl_fionbio;
use rustix::process::Signal;

use super::admission::Pace;
use super::panics::{self, Panics};
use super::shared::{Descriptors, Named, Shared, read_control};
use super::team::{Team, lock};
use crate::limits::Limits;
use crate::net::clock;
use crate::net::connections::connection::{Connection, Desk, Verdict};
use crate::net::connections::transport::Transport;
use crate::net::events::event_loop::{Event, EventLoop};
use crate::net::events::listener::Listener;
use crate::net::events::table::Key;
use crate::net::handler::{Handler, Thread};
use crate::net::proxies::front::Fronts;
use crate::net::report::access_log::AccessLog;
use crate::net::report::board::{Counts, Row, State};
use crate::net::watch::cpu::{self, micros};
use crate::net::watch::heap;
use crate::net::watch::watchdog;

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

/// The baton.
type Held<'a, H> = MutexGuard<'a, EventLoop<H>>;

/// The server.
pub struct Server<H: Handler> {
    shared: Shared<H>,
    /// Of the listeners.
    sockets: Vec<Weak<OwnedFd>>,
    baton: Mutex<EventLoop<H>>,
    team: Team<Named<H>>,
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
}
/// What a server is connected to.
#[derive(Debug)]
pub struct Ends {
    /// Where clients come.
    pub listeners: Vec<Listener>,
    /// Where signals come, a byte each.
    pub controls: Vec<OwnedFd>,
    /// Where a supervisor is told of it; see [`Shared::tell`].
    pub report: Option<OwnedFd>,
    /// While one of them is readable nobody is accepted.
    pub gates: Vec<OwnedFd>,
    /// Who is the last one that accepts; see [`Shared::is_last`].
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
        fronts: Fronts,
        access_log: AccessLog,
        ends: Ends,
        threads: usize,
    ) -> std::io::Result<Self> {
        let Ends { listeners, controls, report, row, gates, countdown } = ends;
        heap::share();
        limits.max_connections = limits.max_connections.min(connections_for(descriptors()));
        let kept: Vec<_> = listeners.iter().map(|listener| Arc::clone(&listener.socket)).collect();
        let sockets = kept.iter().map(Arc::downgrade).collect();
        let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        controls.iter().try_for_each(|control| ioctl_fionbio(control, true))?;
        let event_loop = EventLoop::new(listeners, &controls, waker.as_fd(), gates)?;
        let has_caretaker = fronts.has_caretaker;
        let events = event_loop.descriptor()?;
        let descriptors = Descriptors { waker, controls, events, report, kept, countdown, row };
        let shared = Shared::new(handler, limits, fronts, access_log, descriptors);
        Ok(Self {
            shared,
            sockets,
            baton: Mutex::new(event_loop),
            team: Team::new(row.pulses().take(threads + usize::from(has_caretaker)), has_caretaker),
            threads,
            held: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            pace: Pace::default(),
            failed: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        })
    }

    /// Serve on the calling thread, as that of `slot`, until stopped.
    pub fn run(self: &Arc<Self>, slot: usize) -> Result<(), String> {
        let pulse = self.team.join(slot)?;
        let seat = self.shared.handler.enter(slot);
        let mut desk = Desk::new(Thread { slot, pulse, finished: self.shared.finished(), seat });
        if slot == 0 {
            self.shared.note_first(true);
            self.shared.row.enter(State::Serving);
        }
        watchdog::start(self).map_err(|error| format!("the thread that watches cannot be started: {error}"))?;
        let mut panics = Panics::default();
        // Around all turns and not around each: so it costs nothing.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_turns(&mut desk))) {
            // What this turn had in hand is lost, with its place in the table; not the loop.
            desk.thread.pulse.rest();
            self.shared.handler.report('C', None, &panics::told(&*panic));
            if !panics.go_on(self.done()) {
                resume_unwind(panic);
            }
        }
        self.close_streams(&mut desk);
        self.shared.handler.detached(|| self.shared.access_log.flush_last());
        self.team.dismiss();
        if slot == 0 {
            self.leave();
        }
        Ok(())
    }

    /// Serve until this server is finished.
    fn take_turns(&self, desk: &mut Desk<H>) {
        let slot = desk.thread.slot;
        let mut held = self.take_baton_as(slot);
        while !self.shared.is_finished() {
            held = match held {
                Some(event_loop) => self.turn(event_loop, desk),
                None => {
                    self.hear_signals(slot);
                    self.shared.handler.detached(|| self.team.sleep(slot, || self.tell_asleep(slot)));
                    if slot == SIGNAL_SLOT {
                        // Perhaps it was a signal, and the holder of the baton is stuck.
                        self.shared.watchdog.rouse();
                    }
                    self.hear_signals(slot);
                    self.serve_mail(desk).or_else(|| self.take_baton_as(slot))
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
    fn close_streams(&self, desk: &mut Desk<H>) {
        let is_late = self.shared.stop_deadline().is_some_and(|deadline| clock::now() >= deadline);
        // Mail is sent with the baton in hand: none comes later.
        let (streams, unfinished) = self.shared.handler.detached(|| {
            let mut event_loop = lock(&self.baton);
            self.adopt_returned(&mut event_loop);
            let unfinished = event_loop.unfinished().saturating_sub(self.given_up());
            let mut streams = event_loop.take_streams(desk.thread.slot);
            streams.extend(std::iter::from_fn(|| self.team.mail(desk.thread.slot)));
            if is_late {
                event_loop.excuse_untaken(&self.shared);
            }
            (streams, unfinished)
        });
        if is_late {
            self.shared.stop_is_late(unfinished);
        }
        let end = clock::now() + LAST_CLOSES;
        for (_, mut connection) in streams {
            if clock::now() > end {
                break;
            }
            connection.break_off();
            self.guarded(&mut connection, desk, Connection::serve);
        }
    }

    /// The first thread leaves. The watchdog stays while others are in the application: they may keep the interpreter,
    /// and then nobody else could end the process.
    fn leave(&self) {
        let shared = &self.shared;
        shared.handler.detached(|| shared.watchdog.retire());
        shared.note_first(false);
        shared.watchdog.rouse();
        if !self.is_busy() {
            shared.handler.detached(|| shared.watchdog.join());
        }
    }

    /// How many connections are not waited for: their calls do not return.
    fn given_up(&self) -> usize {
        self.shared.given_up(|slot| self.team.pulse(slot).and_then(clock::Pulse::last))
    }

    /// Whether a thread is in the application.
    pub(in crate::net) fn is_busy(&self) -> bool {
        self.team.pulses().any(|pulse| pulse.last().is_some())
    }

    /// Accept no more, finish what is in flight, then let every [`Server::run`] return.
    pub fn stop(&self) {
        self.shared.begin_stop();
        self.shared.wake();
    }

    /// The descriptors of the listeners, for a successor, or to be looked at; none after a stop.
    pub fn listeners(&self) -> Vec<RawFd> {
        self.shared.listeners()
    }

    /// Let go of the listeners that are still open, in a child that was forked: it would keep their ports. Their numbers
    /// stay taken, since the descriptors will be closed once more. No lock is taken: another thread may have had it.
    pub fn abandon(&self) {
        for socket in self.sockets.iter().filter_map(Weak::upgrade) {
            // SAFETY: both are open, and this is the only thread. It cannot fail then.
            unsafe { libc::dup3(self.shared.waker().as_raw_fd(), socket.as_raw_fd(), libc::O_CLOEXEC) };
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
        self.shared.is_finished() && self.shared.has_successor()
    }

    /// The number of the first signal that asked to stop at once; 0 for none.
    pub fn stopped_at_once_by(&self) -> i32 {
        self.shared.stop_at_once().map_or(0, Signal::as_raw)
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

    /// What the watchdog looks at.
    pub(in crate::net) fn shared(&self) -> &Shared<H> {
        &self.shared
    }

    /// The threads.
    pub(in crate::net) fn team(&self) -> &Team<Named<H>> {
        &self.team
    }

    /// How many threads there are.
    pub(in crate::net) fn threads(&self) -> usize {
        self.threads
    }

    /// How calls go.
    pub(in crate::net) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// How often the baton was laid down.
    pub(in crate::net) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// How often the baton was laid down; none while a thread holds it.
    pub(in crate::net) fn calls_if_free(&self) -> Option<u64> {
        (!self.held.load(Ordering::Relaxed)).then(|| self.calls())
    }

    /// Every thread is lost: let those know who wait for one.
    pub(in crate::net) fn excuse(&self) {
        self.lost.store(true, Ordering::SeqCst);
        let end = Instant::now() + LAST_WISH;
        while Instant::now() < end {
            if let Some(mut event_loop) = self.take_baton() {
                return event_loop.excuse(&self.shared);
            }
            self.shared.wake();
            std::thread::sleep(Duration::from_millis(1));
        }
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
        if self.team.is_caretaker(slot) && self.is_relieved() {
            self.team.wake_one();
            return None;
        }
        self.take_baton()
    }

    /// The thread of `slot` goes to sleep: there is somebody whom the watchdog may wake, and who could have the baton if the
    /// caretaker holds it.
    fn tell_asleep(&self, slot: usize) {
        self.shared.watchdog.rouse();
        if self.team.has_caretaker() && !self.team.is_caretaker(slot) {
            self.shared.wake_if_sleeping();
        }
    }

    /// Leave new clients to other workers, if they are theirs now and all threads are in the application: no one of those
    /// comes to it soon.
    pub(in crate::net) fn leave_clients(&self) {
        if !self.shared.leaves_clients() || self.shared.is_closed() {
            return;
        }
        if let Some(mut event_loop) = self.take_baton() {
            event_loop.leave_detached(&self.shared);
            self.lay_down(event_loop);
            self.team.wake_one();
            self.team.summon(SIGNAL_SLOT); // it may have come just now, and found the baton taken
        }
    }

    fn lay_down(&self, event_loop: Held<'_, H>) {
        self.shared.watchdog.rouse();
        // Nobody else writes it meanwhile, so that it needs no atomic addition, which costs more.
        self.calls.store(self.calls() + 1, Ordering::Relaxed);
        self.held.store(false, Ordering::Relaxed);
        drop(event_loop);
    }

    /// One turn of the loop. Returns the baton unless another thread took it meanwhile.
    fn turn<'a>(&'a self, mut event_loop: Held<'a, H>, desk: &mut Desk<H>) -> Option<Held<'a, H>> {
        let shared = &self.shared;
        match event_loop.next_event() {
            Some(Event::Accept(listener)) => self.accept(&mut event_loop, listener),
            Some(Event::Ready(key)) => return self.attend_to(key, event_loop, desk, Connection::advance),
            Some(Event::Late(key)) => return self.attend_to(key, event_loop, desk, Connection::late),
            Some(Event::Control(index)) => self.heed(&mut event_loop, index, desk.thread.slot),
            Some(Event::Wake) => {
                shared.drain_waker();
                if shared.was_overheard() {
                    self.tell_interpreter(desk.thread.slot);
                }
            }
            None if self.team.is_caretaker(desk.thread.slot) => {
                if self.adopt_returned(&mut event_loop) || self.is_relieved() {
                    self.lay_down(event_loop);
                    self.team.wake_one();
                    return None;
                }
                self.wait(&mut event_loop, desk.thread.slot);
            }
            None => match self.team.mail(desk.thread.slot).or_else(|| event_loop.next_patient()) {
                Some(named) => return self.begin(event_loop, named, desk),
                None => self.wait(&mut event_loop, desk.thread.slot),
            },
        }
        Some(event_loop)
    }

    /// Do `work` for the connection of `key`, if it is still there and for the thread of this desk.
    fn attend_to<'a>(
        &'a self,
        key: Key,
        mut event_loop: Held<'a, H>,
        desk: &mut Desk<H>,
        work: impl FnOnce(&mut Connection<H>, &Shared<H>, &mut Desk<H>) -> Verdict,
    ) -> Option<Held<'a, H>> {
        let Some(mut connection) = event_loop.take(key) else { return Some(event_loop) };
        if self.leaves(&connection, desk.thread.slot) {
            event_loop.shelve((key, connection));
            return Some(event_loop);
        }
        if self.team.is_caretaker(desk.thread.slot) && connection.is_unread && connection.watched.is_none() {
            // What it has not seen it must not read a moment later: the poller tells when something is there.
            event_loop.park(key, connection, &self.shared);
            return Some(event_loop);
        }
        let verdict = self.guarded(&mut connection, desk, work);
        self.settle(event_loop, (key, connection), verdict, desk)
    }

    fn wait(&self, event_loop: &mut EventLoop<H>, slot: usize) {
        let shared = &self.shared;
        // The caretaker has just looked: what came since keeps it from sleeping.
        if !self.team.is_caretaker(slot) {
            self.adopt_returned(event_loop);
            event_loop.unshelve();
        }
        if shared.leaves_clients() {
            event_loop.leave(shared);
        }
        if !event_loop.stood_still() {
            shared.end_drain(event_loop.connections(), || self.given_up());
        }
        if shared.is_stopping() {
            event_loop.stop(shared.stop_deadline().unwrap_or(0), shared);
            if event_loop.is_done(self.given_up()) {
                return shared.finish();
            }
        }
        let keeps = self.team.is_caretaker(slot).then_some(|| !self.is_relieved());
        let most = || self.is_busy().then_some(LOOK_UP);
        if let Err(error) = event_loop.wait(shared, most, keeps, || !self.hear_signals(slot)) {
            shared.handler.report('C', None, &format!("waiting for events failed: {error}; stopping"));
            self.failed.store(true, Ordering::Relaxed);
            shared.finish();
        }
        if event_loop.was_interrupted() {
            self.hear_signals(slot);
        }
    }

    /// Accept those who wait at a listener. Each is read in its turn, behind the events of this batch: the next one at the
    /// listener is not to wait for its call, and until then another image may still take it over.
    fn accept(&self, event_loop: &mut EventLoop<H>, listener: usize) {
        for _ in 0..event_loop.most_accepts(&self.shared) {
            let Some((key, connection)) = event_loop.accept(listener, &self.shared) else { break };
            event_loop.look_next(key, connection, &self.shared);
        }
    }

    /// Whether the thread of `slot` cannot serve what has come, and leaves it unread to one that can.
    fn leaves(&self, connection: &Connection<H>, slot: usize) -> bool {
        self.team.is_caretaker(slot) && connection.is_for_application(&self.shared)
    }

    /// Do what a verdict says.
    fn settle<'a>(
        &'a self,
        mut event_loop: Held<'a, H>,
        (key, connection): Named<H>,
        verdict: Verdict,
        desk: &mut Desk<H>,
    ) -> Option<Held<'a, H>> {
        match verdict {
            Verdict::Park => event_loop.park(key, connection, &self.shared),
            Verdict::Close => event_loop.close(key, connection, &self.shared),
            Verdict::Serve => match connection.owner() {
                Some(owner) if owner != desk.thread.slot => self.team.send(owner, (key, connection)),
                _ if self.team.is_caretaker(desk.thread.slot) => {
                    event_loop.settle(key, connection, verdict, &self.shared);
                }
                _ => return self.begin(event_loop, (key, connection), desk),
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
        desk: &mut Desk<H>,
    ) -> Option<Held<'a, H>> {
        let slot = desk.thread.slot;
        if connection.owner().is_none() && self.team.relieves(slot, || connection.is_fresh(HOPE)) {
            event_loop.settle(key, connection, Verdict::Serve, &self.shared);
            self.lay_down(event_loop);
            return None;
        }
        self.lay_down(event_loop);
        self.serve((key, connection), desk)
    }

    /// Give a connection to the application, without the baton, and take the baton up again if it is free.
    fn serve(&self, (key, mut connection): Named<H>, desk: &mut Desk<H>) -> Option<Held<'_, H>> {
        let shared = &self.shared;
        self.team.begin(desk.thread.slot);
        let began = (self.threads > 1 && self.pace.is_slow()).then(|| {
            if self.has_room(desk.thread.slot, 1) {
                self.team.wake_one();
            }
            (Instant::now(), cpu::own_time())
        });
        let had_stream = connection.owner().is_some();
        let verdict = self.guarded(&mut connection, desk, Connection::serve);
        self.team.note_stream(desk.thread.slot, had_stream, connection.owner().is_some());
        if let Some((began, cpu)) = began {
            fence(Ordering::SeqCst); // see `keep`
            self.pace.note(micros(began.elapsed()), micros(cpu::own_time().saturating_sub(cpu)));
        }
        if let Some(mut event_loop) = self.take_baton() {
            event_loop.settle(key, connection, verdict, shared);
            return self.keep(event_loop, desk.thread.slot);
        }
        self.pace.note_slow();
        shared.give_back((key, connection), verdict);
        // The holder sees it before it sleeps, or is woken; unless it laid the baton down just now.
        let held = self.take_baton();
        if held.is_none() {
            shared.wake_if_sleeping();
        }
        self.keep(held?, desk.thread.slot)
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
        desk: &mut Desk<H>,
        work: impl FnOnce(&mut Connection<H>, &Shared<H>, &mut Desk<H>) -> Verdict,
    ) -> Verdict {
        let shared = &self.shared;
        catch_unwind(AssertUnwindSafe(|| work(connection, shared, desk))).unwrap_or_else(|panic| {
            desk.thread.pulse.rest();
            shared.handler.report('C', None, &panics::told(&*panic));
            catch_unwind(AssertUnwindSafe(|| connection.fail(shared, desk))).unwrap_or(Verdict::Close)
        })
    }

    /// Go on with the streams of this thread that others found ready.
    fn serve_mail(&self, desk: &mut Desk<H>) -> Option<Held<'_, H>> {
        while let Some(named) = self.team.mail(desk.thread.slot) {
            if let Some(event_loop) = self.serve(named, desk) {
                return Some(event_loop);
            }
        }
        None
    }

    /// Returns whether there was anything.
    fn adopt_returned(&self, event_loop: &mut EventLoop<H>) -> bool {
        let returned = self.shared.take_returned();
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
            self.shared.begin_stop();
        }
        stops
    }

    /// Signals came, or the parent died.
    fn heed(&self, event_loop: &mut EventLoop<H>, index: usize, slot: usize) {
        let shared = &self.shared;
        let Some(control) = shared.control(index) else { return };
        let (signals, ended) = read_control(control);
        if ended {
            event_loop.forget(control.as_fd());
        }
        if !signals.is_empty() {
            self.tell_interpreter(slot);
        }
        shared.obey(&signals, ended);
        if shared.leaves_clients() {
            event_loop.leave(shared);
        }
    }

    /// The interpreter runs its handlers on the main thread only, which may be a follower now.
    fn tell_interpreter(&self, slot: usize) {
        self.team.summon(SIGNAL_SLOT);
        self.hear_signals(slot);
    }
}

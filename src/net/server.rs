//! The server of one process: one event loop and the threads that stand in it.
//!
//! **The baton.** One thread at a time holds the loop. Before it calls the application it takes the connection out of
//! the table and lays the baton down; afterwards it takes the baton up again if it is still free, else it leaves the
//! connection to the holder and goes to sleep. Both are uncontended atomic operations: no clock, no wake-up. A call
//! that blocks leaves the baton free without progress; the [`watchdog`] sees that and wakes a sleeper, who serves on.
//! So a fast application costs with many threads what it costs with one, and a blocked call holds up nobody.
//! Where calls have been slow lately the sleeper is woken at once.
//!
//! Nobody waits for the baton while attached to the interpreter: it is only ever tried for.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::access_log::AccessLog;
use super::clock;
use super::connection::{Connection, Desk, Verdict};
use super::event_loop::{Event, EventLoop};
use super::handler::{Done, Handler};
use super::listener::Listener;
use super::outbox::Outbox;
use super::table::Key;
use super::team::{Team, lock};
use super::watchdog::{self, LAST_GRACE, Watchdog};
use crate::http::own_fields::OwnFields;
use crate::http::reject::Reject;
use crate::http::response::{Asked, ResponseHead};
use crate::limits::Limits;

/// Connections accepted in one turn, so that those which are open get theirs.
const ACCEPTS: usize = 32;
/// A call that takes longer than this makes the application slow ...
const SLOW_CALL: Duration = Duration::from_micros(300);
/// ... until so many calls in a row were faster.
const SLOW_MEMORY: u32 = 16;

/// Time within which a second signal to stop is the first one, in ms.
const REPEAT: u64 = 100;

/// Time in which a thread closes the streams that a stop left behind, in ms; a supervisor kills after a second.
const LAST_CLOSES: u64 = 500;

/// SIGINT, SIGQUIT and SIGTERM as they come over a control descriptor.
const SIGINT: u8 = 2;
const SIGQUIT: u8 = 3;
const SIGTERM: u8 = 15;

/// The slot of the thread on which the interpreter hears signals.
const SIGNAL_SLOT: usize = 0;

/// A connection with its name.
type Named<H> = (Key, Box<Connection<H>>);
/// The baton.
type Held<'a, H> = MutexGuard<'a, EventLoop<H>>;

/// What connections need of their server.
pub struct Shared<H: Handler> {
    /// The application.
    pub handler: H,
    /// The settings.
    pub limits: Limits,
    /// The access log.
    pub access_log: AccessLog,
    waker: OwnedFd,
    controls: Vec<OwnedFd>,
    /// The watchdog read signals that the interpreter has not heard yet.
    overheard: AtomicBool,
    returned: Mutex<Vec<(Named<H>, Verdict)>>,
    has_returned: AtomicBool,
    sleeping: AtomicBool,
    stopping: AtomicBool,
    finished: AtomicBool,
    /// When a signal asked to stop; 0 before it.
    first_stop_signal: AtomicU64,
    /// When a stop becomes late; 0 before it.
    stop_deadline: AtomicU64,
    /// When the watchdog ends the process unless every thread has left; 0 before a stop.
    end_by: AtomicU64,
    /// The first thread, which ends the process, is in its run.
    first_is_here: AtomicBool,
    counts: Counts,
    watchdog: Watchdog,
}

/// What happened since the start.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Counts {
    pub accepted: AtomicU64,
    pub requests: AtomicU64,
    pub rejected: AtomicU64,
    pub connections: AtomicU64,
}

/// The server.
pub struct Server<H: Handler> {
    shared: Shared<H>,
    baton: Mutex<EventLoop<H>>,
    team: Team<Named<H>>,
    threads: usize,
    /// Whether somebody has the baton, for the watchdog.
    held: AtomicBool,
    /// How often the baton was laid down.
    calls: AtomicU64,
    /// Above 0 while the application is slow.
    slow: AtomicU32,
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
        access_log: AccessLog,
        listeners: Vec<Listener>,
        controls: Vec<OwnedFd>,
        threads: usize,
    ) -> std::io::Result<Self> {
        limits.max_connections = limits.max_connections.min(connections_for(descriptors()));
        let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let event_loop = EventLoop::new(listeners, &controls, waker.as_fd())?;
        let shared = Shared {
            handler,
            limits,
            access_log,
            waker,
            controls,
            overheard: AtomicBool::new(false),
            returned: Mutex::default(),
            has_returned: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            first_stop_signal: AtomicU64::new(0),
            stop_deadline: AtomicU64::new(0),
            end_by: AtomicU64::new(0),
            first_is_here: AtomicBool::new(false),
            counts: Counts::default(),
            watchdog: Watchdog::default(),
        };
        Ok(Self {
            shared,
            baton: Mutex::new(event_loop),
            team: Team::new(threads),
            threads,
            held: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            slow: AtomicU32::new(0),
        })
    }

    /// Serve on the calling thread, as that of `slot`, until stopped.
    pub fn run(self: &Arc<Self>, slot: usize) -> Result<(), String> {
        self.team.join(slot)?;
        let mut desk = Desk::new(self.shared.handler.enter(slot));
        if slot == 0 {
            self.shared.first_is_here.store(true, Ordering::SeqCst);
        }
        watchdog::start(self)?;
        let mut held = self.take_baton();
        while !self.shared.is_finished() {
            held = match held {
                Some(event_loop) => self.turn(event_loop, slot, &mut desk),
                None => {
                    self.hear_signals(slot);
                    self.shared.handler.detached(|| self.team.sleep(slot));
                    if slot == SIGNAL_SLOT {
                        // Perhaps it was a signal, and the holder of the baton is stuck.
                        self.shared.watchdog.rouse();
                    }
                    self.hear_signals(slot);
                    self.serve_mail(slot, &mut desk).or_else(|| self.take_baton())
                }
            };
        }
        drop(held);
        self.close_streams(slot, &mut desk);
        self.shared.handler.detached(|| self.shared.access_log.flush_last());
        self.team.dismiss();
        if slot == 0 {
            self.leave();
        }
        Ok(())
    }

    /// Break off the streams of this thread that a stop left behind, so that the application closes them.
    fn close_streams(&self, slot: usize, desk: &mut Desk<H>) {
        // Mail is sent with the baton in hand: none comes later.
        let streams = self.shared.handler.detached(|| {
            let mut event_loop = lock(&self.baton);
            self.adopt_returned(&mut event_loop);
            let mut streams = event_loop.take_streams(slot);
            streams.extend(std::iter::from_fn(|| self.team.mail(slot)));
            streams
        });
        let end = clock::now() + LAST_CLOSES;
        for (_, mut connection) in streams {
            if clock::now() > end {
                break;
            }
            connection.break_off();
            self.guarded(&mut connection, slot, desk);
        }
    }

    /// The first thread leaves. The watchdog stays while others are in the application: they may keep the interpreter,
    /// and then nobody else could end the process.
    fn leave(&self) {
        let shared = &self.shared;
        shared.handler.detached(|| shared.watchdog.retire());
        shared.first_is_here.store(false, Ordering::SeqCst);
        shared.watchdog.rouse();
        if !self.is_busy() {
            shared.handler.detached(|| shared.watchdog.join());
        }
    }

    /// Whether a thread is in the application.
    pub(super) fn is_busy(&self) -> bool {
        self.team.pulses().any(|pulse| pulse.last().is_some())
    }

    /// Accept no more, finish what is in flight, then let every [`Server::run`] return.
    pub fn stop(&self) {
        self.shared.begin_stop();
        self.shared.wake();
    }

    /// The application.
    pub fn handler(&self) -> &H {
        &self.shared.handler
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// What the watchdog looks at.
    pub(super) fn shared(&self) -> &Shared<H> {
        &self.shared
    }

    /// The threads.
    pub(super) fn team(&self) -> &Team<Named<H>> {
        &self.team
    }

    /// How many threads there are.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// How often the baton was laid down, if it lies there now.
    pub(super) fn calls_if_free(&self) -> Option<u64> {
        (!self.held.load(Ordering::Relaxed)).then(|| self.calls.load(Ordering::Relaxed))
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

    fn lay_down(&self, event_loop: Held<'_, H>) {
        self.shared.watchdog.rouse();
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.held.store(false, Ordering::Relaxed);
        drop(event_loop);
    }

    /// One turn of the loop. Returns the baton unless another thread took it meanwhile.
    fn turn<'a>(&'a self, mut event_loop: Held<'a, H>, slot: usize, desk: &mut Desk<H>) -> Option<Held<'a, H>> {
        let shared = &self.shared;
        match event_loop.next_event() {
            Some(Event::Accept(listener)) => return self.accept(event_loop, listener, slot, desk),
            Some(Event::Ready(key)) => {
                if let Some(mut connection) = event_loop.take(key) {
                    let verdict = connection.advance(shared, desk);
                    return self.settle(event_loop, (key, connection), verdict, slot, desk);
                }
            }
            Some(Event::Late(key)) => {
                if let Some(mut connection) = event_loop.take(key) {
                    let verdict = connection.late(shared, desk);
                    return self.settle(event_loop, (key, connection), verdict, slot, desk);
                }
            }
            Some(Event::Control(index)) => self.heed(&mut event_loop, index, slot),
            Some(Event::Wake) => {
                shared.drain_waker();
                if shared.overheard.swap(false, Ordering::SeqCst) {
                    self.tell_interpreter(slot);
                }
            }
            None => match self.team.mail(slot) {
                Some(named) => {
                    self.lay_down(event_loop);
                    return self.serve(named, slot, desk);
                }
                None => self.wait(&mut event_loop, slot),
            },
        }
        Some(event_loop)
    }

    fn wait(&self, event_loop: &mut EventLoop<H>, slot: usize) {
        let shared = &self.shared;
        self.adopt_returned(event_loop);
        if shared.is_stopping() {
            event_loop.stop(shared.stop_deadline.load(Ordering::Relaxed));
            if event_loop.is_done() {
                return shared.finish();
            }
        }
        shared.counts.connections.store(event_loop.connections() as u64, Ordering::Relaxed);
        if let Err(error) = event_loop.wait(shared, || !self.hear_signals(slot)) {
            shared.handler.report('C', None, &format!("waiting for events failed: {error}; stopping"));
            shared.finish();
        }
        if event_loop.was_interrupted() {
            self.hear_signals(slot);
        }
    }

    fn accept<'a>(
        &'a self,
        event_loop: Held<'a, H>,
        listener: usize,
        slot: usize,
        desk: &mut Desk<H>,
    ) -> Option<Held<'a, H>> {
        let mut held = event_loop;
        for _ in 0..ACCEPTS {
            let Some((key, mut connection)) = held.accept(listener, &self.shared) else { break };
            // The request has often come with the connection: read at once, and spare the poller.
            let verdict = connection.advance(&self.shared, desk);
            held = self.settle(held, (key, connection), verdict, slot, desk)?;
        }
        Some(held)
    }

    /// Do what a verdict says.
    fn settle<'a>(
        &'a self,
        mut event_loop: Held<'a, H>,
        (key, connection): Named<H>,
        verdict: Verdict,
        slot: usize,
        desk: &mut Desk<H>,
    ) -> Option<Held<'a, H>> {
        match verdict {
            Verdict::Park => event_loop.park(key, connection, &self.shared),
            Verdict::Close => event_loop.close(key, connection),
            Verdict::Serve => match connection.owner() {
                Some(owner) if owner != slot => self.team.send(owner, (key, connection)),
                _ => {
                    self.lay_down(event_loop);
                    return self.serve((key, connection), slot, desk);
                }
            },
        }
        Some(event_loop)
    }

    /// Give a connection to the application, without the baton, and take the baton up again if it is free.
    fn serve(&self, (key, mut connection): Named<H>, slot: usize, desk: &mut Desk<H>) -> Option<Held<'_, H>> {
        let shared = &self.shared;
        let began = self.is_slow().then(|| {
            self.team.wake_one();
            Instant::now()
        });
        let verdict = self.guarded(&mut connection, slot, desk);
        if let Some(began) = began {
            self.remember(began.elapsed());
        }
        if let Some(mut event_loop) = self.take_baton() {
            event_loop.settle(key, connection, verdict, shared);
            return Some(event_loop);
        }
        self.slow.store(SLOW_MEMORY, Ordering::Relaxed);
        lock(&shared.returned).push(((key, connection), verdict));
        shared.has_returned.store(true, Ordering::SeqCst);
        // The holder sees it before it sleeps, or is woken; unless it laid the baton down just now.
        let held = self.take_baton();
        if held.is_none() {
            shared.wake_if_sleeping();
        }
        held
    }

    /// Serve; a panic, which would be a defect of ours, costs this connection and no other.
    fn guarded(&self, connection: &mut Connection<H>, slot: usize, desk: &mut Desk<H>) -> Verdict {
        let shared = &self.shared;
        let Some(pulse) = self.team.pulse(slot) else { return Verdict::Close };
        catch_unwind(AssertUnwindSafe(|| connection.serve(slot, shared, pulse, desk))).unwrap_or_else(|panic| {
            pulse.rest();
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            shared.handler.report('C', None, &format!("panic in the engine, please report it: {text}"));
            catch_unwind(AssertUnwindSafe(|| connection.fail(shared, desk))).unwrap_or(Verdict::Close)
        })
    }

    /// Go on with the streams of this thread that others found ready.
    fn serve_mail(&self, slot: usize, desk: &mut Desk<H>) -> Option<Held<'_, H>> {
        while let Some(named) = self.team.mail(slot) {
            if let Some(event_loop) = self.serve(named, slot, desk) {
                return Some(event_loop);
            }
        }
        None
    }

    fn adopt_returned(&self, event_loop: &mut EventLoop<H>) {
        if self.shared.has_returned.swap(false, Ordering::SeqCst) {
            let returned = std::mem::take(&mut *lock(&self.shared.returned));
            for ((key, connection), verdict) in returned {
                event_loop.settle(key, connection, verdict, &self.shared);
            }
        }
    }

    fn is_slow(&self) -> bool {
        self.threads > 1 && self.slow.load(Ordering::Relaxed) > 0
    }

    fn remember(&self, call: Duration) {
        if call > SLOW_CALL {
            self.slow.store(SLOW_MEMORY, Ordering::Relaxed);
        } else {
            // Several threads may do this at once; an exact count is not needed.
            self.slow.store(self.slow.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
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
        let Some(control) = shared.controls.get(index) else { return };
        let (signals, ended) = read_control(control);
        if ended {
            event_loop.forget(control.as_fd());
        }
        if !signals.is_empty() {
            self.tell_interpreter(slot);
        }
        shared.obey(&signals, ended);
    }

    /// The interpreter runs its handlers on the main thread only, which may be a follower now.
    fn tell_interpreter(&self, slot: usize) {
        self.team.wake(SIGNAL_SLOT);
        self.hear_signals(slot);
    }
}

/// What is to be read on a control descriptor: the signals, and whether its other end is gone.
fn read_control(control: &OwnedFd) -> (Vec<u8>, bool) {
    let mut signals = Vec::with_capacity(64);
    // Two threads may want the same bytes, and the descriptor may be a blocking one.
    let ready = poll(&mut [PollFd::new(control, PollFlags::IN)], Some(&Timespec::default()));
    let is_ended = ready.is_ok_and(|count| count > 0)
        && rustix::io::read(control, rustix::buffer::spare_capacity(&mut signals)) == Ok(0);
    (signals, is_ended)
}

impl<H: Handler> Shared<H> {
    /// Whether the server accepts no more.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Whether every run is to return.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// When a stop becomes late, if there is one.
    pub(super) fn stop_deadline(&self) -> Option<u64> {
        Some(self.stop_deadline.load(Ordering::Relaxed)).filter(|&deadline| deadline != 0)
    }

    /// When the process is to be ended, if a stop has begun.
    pub(super) fn end_by(&self) -> Option<u64> {
        Some(self.end_by.load(Ordering::Relaxed)).filter(|&time| time != 0)
    }

    /// Whether the first thread is in its run.
    pub(super) fn first_is_here(&self) -> bool {
        self.first_is_here.load(Ordering::SeqCst)
    }

    /// Read the control descriptors in place of the loop, whose threads may all wait for the interpreter.
    pub(super) fn overhear(&self) {
        for control in &self.controls {
            let (signals, ended) = read_control(control);
            if !signals.is_empty() {
                self.overheard.store(true, Ordering::SeqCst);
            }
            if ended || !signals.is_empty() {
                self.obey(&signals, ended);
                self.wake();
            }
        }
    }

    fn obey(&self, signals: &[u8], ended: bool) {
        if ended {
            self.begin_stop();
        }
        for signal in signals {
            match *signal {
                SIGQUIT => self.finish(),
                SIGINT | SIGTERM if self.is_insisted() => self.finish(),
                SIGINT | SIGTERM => self.begin_stop(),
                _ => {}
            }
        }
    }

    /// Whether the holder of the baton waits for events.
    pub(super) fn is_asleep(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst)
    }

    /// The watchdog's own.
    pub(super) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// Let every run return, whatever is in flight.
    pub fn finish(&self) {
        self.end_in(0);
        self.access_log.hurry();
        self.finished.store(true, Ordering::Release);
        self.wake();
    }

    /// A request was answered.
    pub fn count_request(&self) {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was accepted.
    pub fn count_accepted(&self) {
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// A stop reached its deadline with `connections` left.
    pub fn stop_is_late(&self, connections: usize) {
        let text = format!("stopped after graceful_timeout with {connections} connections unfinished");
        self.handler.report('W', None, &text);
    }

    /// Announce that the holder will sleep; not if a connection has returned meanwhile.
    pub fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        let may = !self.has_returned.load(Ordering::SeqCst) && !self.is_finished();
        self.sleeping.store(may, Ordering::SeqCst);
        may
    }

    /// The holder woke up.
    pub fn slept(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// A signal to stop came: whether it is a second one. Process managers signal a process and then its whole group,
    /// so the same within a moment is the first one told twice.
    fn is_insisted(&self) -> bool {
        let now = clock::now();
        let first = self.first_stop_signal.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        first.is_err_and(|first| now.saturating_sub(first) >= REPEAT)
    }

    fn begin_stop(&self) {
        if !self.stopping.swap(true, Ordering::Relaxed) {
            let deadline = clock::now() + self.limits.graceful_timeout;
            self.stop_deadline.store(deadline.max(1), Ordering::Relaxed);
            self.end_in(self.limits.graceful_timeout);
            self.access_log.hurry();
        }
    }

    /// Let the watchdog see to it that the process ends.
    fn end_in(&self, milliseconds: u64) {
        let time = clock::now() + milliseconds + LAST_GRACE;
        let sooner = |before| Some(if before == 0 { time } else { time.min(before) });
        // It cannot fail.
        let _ = self.end_by.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sooner);
        self.watchdog.rouse();
    }

    fn wake(&self) {
        // The counter can only be full when a wake-up is due anyway.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    fn wake_if_sleeping(&self) {
        if self.is_asleep() {
            self.wake();
        }
    }

    fn drain_waker(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.waker, &mut count);
    }

    /// Refuse a request; `line` tells which, if that much of it came.
    pub fn answer_reject(
        &self,
        reject: Reject,
        is_head: bool,
        peer: Option<SocketAddr>,
        line: Option<String>,
        outbox: &mut Outbox,
    ) -> Done {
        self.counts.rejected.fetch_add(1, Ordering::Relaxed);
        let line = line.map_or_else(String::new, |line| format!(" ({line})"));
        self.handler.report('I', peer, &format!("{} {}: {}{line}", reject.status, reject.reason(), reject.why));
        self.answer(reject.status, reject.reason(), reject.why, is_head, outbox)
    }

    /// 500, where a handler gave no answer at all.
    pub fn answer_failure(&self, outbox: &mut Outbox) {
        self.answer(500, "Internal Server Error", "the server failed to answer", false, outbox);
    }

    /// `OPTIONS *` asks the server, not the application (RFC 9110 9.3.7).
    pub fn answer_asterisk(&self, asked: Asked, outbox: &mut Outbox) -> Done {
        let status = b"204 No Content";
        let persistent = match ResponseHead::begin(&mut outbox.bytes, status) {
            Ok(head) => self.finish_head(&head, asked, Some(0), outbox).1,
            Err(_) => false,
        };
        Done { status: 204, length: 0, persistent }
    }

    fn answer(&self, status: u16, reason: &str, why: &str, is_head: bool, outbox: &mut Outbox) -> Done {
        let page = self.handler.page(status, reason, why);
        let line = format!("{status} {reason}");
        let mut done = Done { status, length: 0, persistent: false };
        let Ok(mut head) = ResponseHead::begin(&mut outbox.bytes, line.as_bytes()) else { return done };
        // A constant field cannot be refused.
        let _ = head.field(&mut outbox.bytes, b"Content-Type", b"text/html; charset=utf-8");
        let asked = Asked { is_head, persistent: false, ..Asked::default() };
        self.finish_head(&head, asked, Some(page.len() as u64), outbox);
        if !is_head {
            outbox.bytes.extend_from_slice(&page);
            done.length = page.len() as u64;
        }
        done
    }

    fn finish_head(
        &self,
        head: &ResponseHead,
        asked: Asked,
        length: Option<u64>,
        outbox: &mut Outbox,
    ) -> (crate::http::response::Framing, bool) {
        let mut own = OwnFields::new(self.handler.server_header());
        head.finish(&mut outbox.bytes, asked, length, own.at(clock::unix_second()))
    }
}

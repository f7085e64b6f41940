//! What the threads of a server have in common, and what connections need of it: the application, the settings, the
//! logs, how a stop goes, who sleeps; and the answers that the server gives itself.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::process::Signal;

use super::team::lock;
use crate::http::own_fields::OwnFields;
use crate::http::reject::Reject;
use crate::http::response::{Asked, ResponseHead};
use crate::limits::Limits;
use crate::net::clock;
use crate::net::connections::connection::{Connection, Verdict};
use crate::net::connections::outbox::Outbox;
use crate::net::connections::transport::Transport;
use crate::net::events::table::Key;
use crate::net::handler::{Done, Handler};
use crate::net::proxies::front::Fronts;
use crate::net::proxies::peer::Peer;
use crate::net::report::access_log::AccessLog;
use crate::net::report::board::{Row, State};
use crate::net::watch::heap::Freed;
use crate::net::watch::watchdog::{LAST_GRACE, Watchdog};

/// Time within which a second signal to stop is the first one, in ms; longer than the watchdog takes to hear of it.
const REPEAT: u64 = 300;

/// SIGINT, SIGQUIT and SIGTERM as they come over a control descriptor.
const SIGINT: u8 = 2;
const SIGQUIT: u8 = 3;
const SIGTERM: u8 = 15;
/// Over a control descriptor too, but no signals: the supervisor has a successor, or stops. It sends no SIGTERM for that,
/// which would be a second one where a service manager has sent one to each process.
const DRAIN: u8 = 0;
const STOP: u8 = 255;
const INTERRUPT: u8 = 254;
/// What is in flight may last so long after SIGINT, in ms.
const FAST: u64 = 1000;
/// The same for an orphan, whose supervisor was killed, and when it is ended where that was not enough: within a second
/// there shall be nobody left.
const ORPHANED: u64 = 100;
const ORPHAN_ENDS: u64 = 300;
/// How long clients that keep their connections are sent away to the successor before the rest is closed, in ms.
const DRAIN_TIME: u64 = 1000;

/// What a worker tells its supervisor, one byte each.
///
/// A call does not return.
pub const STUCK: u8 = b'S';
/// `max_requests` were answered.
pub const SPENT: u8 = b'R';
/// A TERM came to this process.
pub const ASKED: u8 = b'T';
/// All threads are in the application, and somebody waits.
pub const PRESSED: u8 = b'P';
/// The listeners are closed.
const CLOSED: u8 = b'C';
/// From here on: the load of the last second in percent.
pub const LOAD: u8 = 128;

/// What a server has open beside its connections.
#[derive(Debug)]
pub struct Descriptors {
    /// Wakes the loop.
    pub waker: OwnedFd,
    /// Tell of signals.
    pub controls: Vec<OwnedFd>,
    /// The poller's: readable while an event waits for the loop.
    pub events: OwnedFd,
    /// Where the supervisor hears of this worker; none where there is no supervisor.
    pub report: Option<OwnedFd>,
    /// The sockets of the listeners, for a successor.
    pub kept: Vec<Arc<OwnedFd>>,
    /// See [`Shared::is_last`].
    pub countdown: Option<OwnedFd>,
    /// Where everybody can see what it does.
    pub row: Row,
}

/// A connection with its name.
pub type Named<H> = (Key, Box<Connection<H>>);

/// What connections need of their server.
pub struct Shared<H: Handler> {
    /// The application.
    pub handler: H,
    /// The settings.
    pub limits: Limits,
    /// Who is believed.
    pub fronts: Fronts,
    /// The access log.
    pub access_log: AccessLog,
    waker: OwnedFd,
    controls: Vec<OwnedFd>,
    /// Readable while an event waits for the loop.
    events: OwnedFd,
    /// Where the supervisor hears of this worker; none where there is no supervisor.
    report: Option<OwnedFd>,
    /// How many calls do not return.
    stuck: Mutex<Vec<(usize, u64)>>,
    /// The watchdog read signals that the interpreter has not heard yet.
    overheard: AtomicBool,
    returned: Mutex<Vec<(Named<H>, Verdict)>>,
    has_returned: AtomicBool,
    sleeping: AtomicBool,
    stopping: AtomicBool,
    finished: Arc<AtomicBool>,
    /// It is told who is left unfinished.
    is_left_told: AtomicBool,
    /// When a signal asked to stop; 0 before it.
    first_stop_signal: AtomicU64,
    /// The first signal that asked to stop at once: a QUIT, or a second one of the others; 0 before it.
    stop_at_once: AtomicU8,
    /// Until when clients are sent away, before the stop; 0 where none was told to.
    drain_until: AtomicU64,
    /// The supervisor knows that the listeners are closed.
    is_closed: AtomicBool,
    /// The listeners, for a successor.
    kept: Mutex<Vec<Arc<OwnedFd>>>,
    /// See [`Shared::is_last`].
    countdown: Option<OwnedFd>,
    /// When a stop becomes late; 0 before it.
    stop_deadline: AtomicU64,
    /// When the watchdog ends the process unless every thread has left; 0 before a stop.
    end_by: AtomicU64,
    /// The first thread, which ends the process, is in its run.
    first_is_here: AtomicBool,
    /// What happened since the start, where everybody can see it.
    pub row: Row,
    /// What the watchdog may give back.
    pub freed: Freed,
    /// Looks after the calls and after a stop.
    pub watchdog: Watchdog,
}

impl<H: Handler> Shared<H> {
    /// For a server with these descriptors.
    pub fn new(handler: H, limits: Limits, fronts: Fronts, access_log: AccessLog, descriptors: Descriptors) -> Self {
        let Descriptors { waker, controls, events, report, kept, countdown, row } = descriptors;
        Self {
            handler,
            limits,
            fronts,
            access_log,
            waker,
            controls,
            events,
            report,
            stuck: Mutex::default(),
            overheard: AtomicBool::new(false),
            returned: Mutex::default(),
            has_returned: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            finished: Arc::default(),
            is_left_told: AtomicBool::new(false),
            first_stop_signal: AtomicU64::new(0),
            stop_at_once: AtomicU8::new(0),
            drain_until: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            kept: Mutex::new(kept),
            countdown,
            stop_deadline: AtomicU64::new(0),
            end_by: AtomicU64::new(0),
            first_is_here: AtomicBool::new(false),
            row,
            freed: Freed::default(),
            watchdog: Watchdog::default(),
        }
    }

    /// A control descriptor.
    pub fn control(&self, index: usize) -> Option<&OwnedFd> {
        self.controls.get(index)
    }

    /// Whether an event waits for the loop: a client at a listener, a request on a connection.
    pub fn is_awaited(&self) -> bool {
        poll(&mut [PollFd::new(&self.events, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    /// Whether there is a supervisor.
    pub fn is_supervised(&self) -> bool {
        self.report.is_some()
    }

    /// Tell the supervisor, if there is one.
    pub fn tell(&self, what: u8) {
        if let Some(report) = &self.report {
            // It may have been killed.
            let _ = rustix::io::write(report, &[what]);
        }
    }

    /// The calls of these slots, with these last signs of life, do not return, and were answered in their place as far
    /// as that can be: nobody waits for them, in a stop either.
    pub fn note_stuck(&self, calls: Vec<(usize, u64)>) {
        let mut stuck = lock(&self.stuck);
        if *stuck != calls {
            *stuck = calls;
            drop(stuck);
            self.wake();
        }
    }

    /// How many connections are not waited for; `last_beat` tells that of a slot now: a call may have returned since.
    pub fn given_up(&self, last_beat: impl Fn(usize) -> Option<u64>) -> usize {
        lock(&self.stuck).iter().filter(|&&(slot, beat)| last_beat(slot) == Some(beat)).count()
    }

    /// Leave a connection that was served to the holder of the baton.
    pub fn give_back(&self, named: Named<H>, verdict: Verdict) {
        lock(&self.returned).push((named, verdict));
        self.has_returned.store(true, Ordering::SeqCst);
    }

    /// Take what was left so.
    pub fn take_returned(&self) -> Vec<(Named<H>, Verdict)> {
        if self.has_returned.swap(false, Ordering::SeqCst) {
            std::mem::take(&mut *lock(&self.returned))
        } else {
            Vec::new()
        }
    }

    /// Whether the server accepts no more.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// What tells a thread that its run is to return.
    pub fn finished(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.finished)
    }

    /// Whether every run is to return.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// When a stop becomes late, if there is one.
    pub fn stop_deadline(&self) -> Option<u64> {
        Some(self.stop_deadline.load(Ordering::Relaxed)).filter(|&deadline| deadline != 0)
    }

    /// When the process is to be ended, if a stop has begun.
    pub fn end_by(&self) -> Option<u64> {
        Some(self.end_by.load(Ordering::Relaxed)).filter(|&time| time != 0)
    }

    /// Whether the first thread is in its run.
    pub fn first_is_here(&self) -> bool {
        self.first_is_here.load(Ordering::SeqCst)
    }

    /// The first thread comes, or leaves.
    pub fn note_first(&self, is_here: bool) {
        self.first_is_here.store(is_here, Ordering::SeqCst);
    }

    /// Whether the watchdog read signals that the interpreter has not heard yet; asked once.
    pub fn was_overheard(&self) -> bool {
        self.overheard.swap(false, Ordering::SeqCst)
    }

    /// Read the control descriptors before the loop comes to that; its threads may all wait for the interpreter.
    pub fn overhear(&self) {
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

    /// Write the lines of the access log. Where nobody reads it, this waits, but not longer than for a stop, of which
    /// nobody else may hear meanwhile. Call it detached.
    pub fn flush_log(&self) {
        let told = self.access_log.flush(|| {
            self.overhear();
            !self.is_stopping() && !self.is_finished()
        });
        if let Some(told) = told {
            self.handler.warn(None, &told);
        }
    }

    /// Do what signals ask for; `ended`: the parent died.
    pub fn obey(&self, signals: &[u8], ended: bool) {
        if ended {
            self.begin_stop_within(ORPHANED);
            self.end_in(ORPHAN_ENDS);
        }
        for &signal in signals {
            let signal = match signal {
                // A terminal sends it to all.
                SIGINT if self.is_supervised() => continue,
                INTERRUPT => SIGINT,
                signal => signal,
            };
            match signal {
                SIGQUIT => {
                    self.drain_until.store(0, Ordering::Relaxed);
                    self.finish_for(signal);
                }
                SIGINT | SIGTERM if self.is_insisted() => self.finish_for(signal),
                SIGINT => self.begin_stop_within(FAST),
                // It may have come to all processes: the supervisor decides, who hears it too then, and who stops last.
                SIGTERM if self.is_supervised() => self.tell(ASKED),
                SIGTERM | STOP => self.begin_stop(),
                DRAIN => self.begin_drain(),
                _ => {}
            }
        }
    }

    /// Whether the holder of the baton waits for events.
    pub fn is_asleep(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst)
    }

    /// Let every run return, whatever is in flight.
    pub fn finish(&self) {
        self.end_in(LAST_GRACE);
        self.finished.store(true, Ordering::Release);
        self.wake();
    }

    /// A request was answered.
    pub fn count_request(&self, status: u16) {
        self.row.counts.note_status(status);
        let before = self.row.counts.requests.fetch_add(1, Ordering::Relaxed);
        if before + 1 == self.limits.max_requests {
            self.tell(SPENT);
        }
    }

    /// So many bytes of a request or an answer are no longer held.
    pub fn note_freed(&self, bytes: usize) {
        if self.freed.note(bytes) {
            self.watchdog.rouse();
        }
    }

    /// A connection was accepted.
    pub fn count_accepted(&self) {
        self.row.counts.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// A stop reached its deadline with `connections` left: tell it once.
    pub fn stop_is_late(&self, connections: usize) {
        if connections == 0 || self.is_left_told.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = format!("the time of the stop is over; unfinished connections: {connections}");
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

    /// Let every run return, for a signal asks for that.
    fn finish_for(&self, signal: u8) {
        // It fails where there was one before.
        let _ = self.stop_at_once.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        self.finish();
    }

    /// The first signal that asked to stop at once.
    pub fn stop_at_once(&self) -> Option<Signal> {
        Signal::from_named_raw(self.stop_at_once.load(Ordering::Relaxed).into())
    }

    /// Make room for a successor: close each connection with its next answer, then stop. A worker leaves new clients to
    /// the others, which serve already; a process alone accepts as before.
    fn begin_drain(&self) {
        if !self.is_stopping() {
            self.drain_until.store(clock::now() + DRAIN_TIME, Ordering::Relaxed);
            self.row.enter(State::Draining);
            if self.is_supervised() {
                lock(&self.kept).clear();
            }
        }
    }

    /// Until when it drains, if it does.
    pub fn drain_until(&self) -> Option<u64> {
        Some(self.drain_until.load(Ordering::Relaxed)).filter(|&time| time != 0 && !self.is_stopping())
    }

    /// Stop once all have gone but those that are given up, or have had their time.
    pub fn end_drain(&self, connections: usize, given_up: impl Fn() -> usize) {
        if self.drain_until().is_some_and(|time| connections <= given_up() || time <= clock::now()) {
            self.stop_within(self.limits.graceful_timeout);
        }
    }

    /// Whether new clients are for other workers.
    pub fn leaves_clients(&self) -> bool {
        self.is_supervised() && self.has_successor()
    }

    /// The listeners are closed: tell it once.
    pub fn note_closed(&self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            self.tell(CLOSED);
        }
    }

    /// Whether that was told.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether a connection may have another request.
    pub fn keeps_alive(&self) -> bool {
        self.limits.keepalive_timeout > 0 && !self.is_stopping() && !self.has_successor()
    }

    /// Whether another image takes over the listeners.
    pub fn has_successor(&self) -> bool {
        self.drain_until.load(Ordering::Relaxed) != 0
    }

    /// The descriptors of the listeners, for a successor, or to be looked at; none after a stop.
    pub fn listeners(&self) -> Vec<RawFd> {
        lock(&self.kept).iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Whether all other processes that accept here have said so for the last time; asked once, for who asks has said it
    /// too. Each takes a byte, of which there is one less than processes once all are to stop; who finds none is the last.
    pub fn is_last(&self) -> bool {
        self.countdown.as_ref().is_some_and(|countdown| rustix::io::read(countdown, &mut [0]) == Ok(0))
    }

    /// Accept no more, and finish what is in flight.
    pub fn begin_stop(&self) {
        self.begin_stop_within(self.limits.graceful_timeout);
    }

    /// The same; what is in flight may last so many milliseconds, or `graceful_timeout` where that is less.
    fn begin_stop_within(&self, milliseconds: u64) {
        // Whoever comes now is to be refused, not left waiting.
        lock(&self.kept).clear();
        self.drain_until.store(0, Ordering::Relaxed);
        self.stop_within(milliseconds.min(self.limits.graceful_timeout));
    }

    fn stop_within(&self, milliseconds: u64) {
        set_sooner(&self.stop_deadline, milliseconds);
        self.stopping.store(true, Ordering::Relaxed);
        self.row.enter(State::Stopping);
        self.end_in(milliseconds + LAST_GRACE);
    }

    /// Let the watchdog see to it that the process ends.
    fn end_in(&self, milliseconds: u64) {
        set_sooner(&self.end_by, milliseconds);
        self.watchdog.rouse();
    }

    /// The process itself stood still for so many milliseconds: nobody is late for that.
    pub fn forgive(&self, milliseconds: u64) {
        for time in [&self.stop_deadline, &self.end_by, &self.drain_until] {
            clock::delay(time, milliseconds);
        }
    }

    /// Wake whoever waits for events.
    pub fn wake(&self) {
        // The counter can only be full when a wake-up is due anyway.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    /// The same where that is needed.
    pub fn wake_if_sleeping(&self) {
        if self.is_asleep() {
            self.wake();
        }
    }

    /// What wakes the loop.
    pub fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// The wake-up was heard.
    pub fn drain_waker(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.waker, &mut count);
    }

    fn count_refusal(&self, status: u16) {
        self.row.counts.note_status(status);
        self.row.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Refuse a request; `line` tells which, if that much of it came.
    pub fn answer_reject(
        &self,
        reject: Reject,
        is_head: bool,
        peer: &Peer,
        line: Option<String>,
        outbox: &mut Outbox,
    ) -> Done {
        self.count_refusal(reject.status);
        let line = line.map_or_else(String::new, |line| format!(" ({line})"));
        let (level, cause) = match reject.errno {
            0 => ('I', String::new()),
            errno => ('E', format!(": {}", std::io::Error::from_raw_os_error(errno))),
        };
        let text = format!("{} {}: {}{cause}{line}", reject.status, reject.reason(), reject.why);
        self.handler.report(level, peer.client(), &text);
        self.answer(reject, is_head, peer.answered_id(&self.fronts), outbox)
    }

    /// Answer a connection that gets no place with 503, and be done: it must cost nothing that others could have.
    pub fn turn_away(&self, transport: &Transport, peer: Option<SocketAddr>, is_told: bool) {
        self.count_refusal(503);
        if is_told {
            let text = "more connections of this address than max_connections_per_address; they are answered 503";
            self.handler.report('W', peer, text);
        }
        let mut outbox = Outbox::default();
        self.answer(Reject::TOO_MANY_CONNECTIONS, false, "", &mut outbox);
        // Whether it comes through is up to the client.
        let _ = outbox.flush(transport);
        transport.finish();
    }

    /// Answer 503 to a request that nobody will serve, without the interpreter, which may be lost too.
    pub fn excuse(&self, transport: &Transport, is_head: bool) {
        self.count_refusal(503);
        let mut outbox = Outbox::default();
        let asked = Asked { is_head, ..Asked::default() };
        self.answer_text((503, b"503 Service Unavailable", b"not served\n"), asked, "", &mut outbox);
        let _ = outbox.flush(transport);
        transport.finish();
    }

    /// A connection that is not introduced by the PROXY protocol is cut off.
    pub fn refuse_introduction(&self, fault: &str, peer: Option<SocketAddr>) {
        self.row.counts.cut.fetch_add(1, Ordering::Relaxed);
        self.handler.report('I', peer, &format!("connection closed before the header of the PROXY protocol: {fault}"));
    }

    /// 500, where a handler gave no answer at all.
    pub fn answer_failure(&self, peer: &Peer, outbox: &mut Outbox) {
        self.answer(Reject::UNANSWERED, false, peer.answered_id(&self.fronts), outbox);
    }

    /// `OPTIONS *` asks the server, not the application (RFC 9110 9.3.7).
    pub fn answer_asterisk(&self, asked: Asked, peer: &Peer, outbox: &mut Outbox) -> Done {
        let status = b"204 No Content";
        let persistent = match ResponseHead::begin(&mut outbox.bytes, status) {
            Ok(mut head) => {
                head.id(&mut outbox.bytes, peer.answered_id(&self.fronts));
                self.finish_head(&head, asked, Some(0), outbox).1
            }
            Err(_) => false,
        };
        Done { status: 204, length: 0, persistent }
    }

    /// Whether this server wants requests: not while it stops, makes way for a successor, or has no thread left.
    pub fn answer_health(&self, asked: Asked, peer: &Peer, outbox: &mut Outbox) -> Done {
        let (status, line, body): (u16, &[u8], &[u8]) = if self.is_stopping() || self.has_successor() {
            (503, b"503 Service Unavailable", b"leaving\n")
        } else if self.row.is_stuck() {
            (503, b"503 Service Unavailable", b"stuck\n")
        } else {
            (200, b"200 OK", b"serving\n")
        };
        self.answer_text((status, line, body), asked, peer.answered_id(&self.fronts), outbox)
    }

    fn answer_text(
        &self,
        (status, line, body): (u16, &[u8], &[u8]),
        asked: Asked,
        id: &str,
        outbox: &mut Outbox,
    ) -> Done {
        let Ok(mut head) = ResponseHead::begin(&mut outbox.bytes, line) else {
            return Done { status: 500, length: 0, persistent: false };
        };
        for (name, value) in [("Content-Type", "text/plain"), ("Cache-Control", "no-store")] {
            // A constant field cannot be refused.
            let _ = head.field(&mut outbox.bytes, name.as_bytes(), value.as_bytes());
        }
        head.id(&mut outbox.bytes, id);
        let (_, persistent) = self.finish_head(&head, asked, Some(body.len() as u64), outbox);
        if asked.is_head {
            return Done { status, length: 0, persistent };
        }
        outbox.bytes.extend_from_slice(body);
        Done { status, length: body.len() as u64, persistent }
    }

    /// The server's own page; with this id of its request, if that is not empty.
    fn answer(&self, reject: Reject, is_head: bool, id: &str, outbox: &mut Outbox) -> Done {
        let page = self.handler.page(reject.status, reject.reason(), reject.why);
        let line = format!("{} {}", reject.status, reject.reason());
        let mut done = Done { status: reject.status, length: 0, persistent: false };
        let Ok(mut head) = ResponseHead::begin(&mut outbox.bytes, line.as_bytes()) else { return done };
        // A constant field cannot be refused.
        let _ = head.field(&mut outbox.bytes, b"Content-Type", b"text/html; charset=utf-8");
        head.id(&mut outbox.bytes, id);
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

/// Set a time so many milliseconds from now, unless it is sooner already.
fn set_sooner(time: &AtomicU64, milliseconds: u64) {
    let new = (clock::now() + milliseconds).max(1);
    // It cannot fail.
    let _ =
        time.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(if old == 0 { new } else { new.min(old) }));
}

/// What is to be read on a control descriptor, which never blocks: the loop and the watchdog may want the same byte. The
/// signals, and whether its other end is gone; what the application has put in its place says nothing of that.
pub fn read_control(control: &OwnedFd) -> (Vec<u8>, bool) {
    let mut signals = Vec::with_capacity(64);
    let is_ended = rustix::io::read(control, rustix::buffer::spare_capacity(&mut signals)) == Ok(0);
    (signals, is_ended && has_other_end(control))
}

fn has_other_end(descriptor: &OwnedFd) -> bool {
    let kind = rustix::fs::fstat(descriptor).map(|facts| FileType::from_raw_mode(facts.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}

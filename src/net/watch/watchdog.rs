//! The thread that looks whether calls into the application go on, and sleeps while nothing runs.
//!
//! It wakes a follower where the baton lies free without progress, has a call interrupted that is older than
//! `request_timeout`, gives one up that does not come back from that, and ends a process whose application holds up a
//! stop beyond reason, or whose successor serves while all its threads are stuck. It never waits for the interpreter,
//! which a call may keep for ever: what needs it is done by a thread of its own.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{Builder, JoinHandle, Thread};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::calls::{Calls, Late};
use super::cpu::{self, micros};
use super::load::Load;
use crate::limits::Limits;
use crate::net::clock::{self, Pulse};
use crate::net::handler::Handler;
use crate::net::report::access_log::escaped;
use crate::net::report::board::Shown;
use crate::net::threads::admission::{Admission, Sample};
use crate::net::threads::dispositions::Dispositions;
use crate::net::threads::panics::{self, Panics};
use crate::net::threads::server::Server;
use crate::net::threads::shared::{LOAD, PRESSED, STUCK, Shared};
use crate::net::threads::team::lock;

/// How soon a blocked call is noticed, twice over.
const SAMPLE: Duration = Duration::from_micros(500);
/// The same while calls compute: each look takes the CPU from them.
const RARE_SAMPLE: Duration = Duration::from_millis(2);
/// The same while all threads are in the application: how soon it is noticed that somebody waits.
const FULL_SAMPLE: Duration = Duration::from_millis(50);
/// How soon a late call is noticed, at most.
const PATIENT_SAMPLE: Duration = Duration::from_millis(250);
/// Samples without anything running before it goes to sleep.
const IDLE_SAMPLES: u32 = 20;
/// How soon a signal is heard that the loop does not read, in ms.
const OVERHEAR: u64 = 100;
/// Whoever looks so much later than he wanted to was stopped (SIGSTOP), and everybody with him, in ms.
pub const STANDSTILL: u64 = 1000;
/// How long the interpreter lets the other threads wait at most, unless a call keeps it.
const HOG: Duration = Duration::from_secs(1);
/// How much may be left to do for the interpreter.
const MOST_PENDING: usize = 64;
/// How soon a signal is sent again that did not bring the main thread back, in ms; longer than a signal counts as the
/// same one told twice.
const URGE: u64 = 400;
/// What a late stop still gets after its calls were interrupted, in ms.
pub const LAST_GRACE: u64 = 2000;

/// How often a process alone is told that clients wait, which takes the interpreter from them, in ms.
const PRESSED_ALONE: u64 = 5000;

/// How often freed memory is given back while something runs, at most, in ms.
const GIVE_BACK: u64 = 1000;

const STACK: usize = 1024 * 1024;

/// How the event loop reaches the thread.
#[derive(Debug, Default)]
pub struct Watchdog {
    /// Locked while it is started.
    handle: Mutex<Option<JoinHandle<()>>>,
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
    interrupter: Mutex<Interrupter>,
}

/// The thread that does what needs the interpreter: it waits for it.
#[derive(Debug, Default)]
struct Interrupter {
    thread: Option<JoinHandle<()>>,
    since: Option<Instant>,
    retired: bool,
}

/// What it does.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// Interrupt a late call.
    Interrupt(Late),
    /// Answer in the place of a stuck call.
    GiveUp(Late),
    /// Interrupt what runs on this slot since then: the time of a stop is over.
    End(usize, u64),
    /// Tell the process, where there is no supervisor.
    Tell(u8),
}

impl Watchdog {
    /// Wait for its end, which is due.
    pub fn join(&self) {
        let Some(handle) = lock(&self.handle).take() else { return };
        handle.thread().unpark();
        // Its panic would not concern the caller.
        let _ = handle.join();
    }

    /// Interrupt no more; returns once nobody does.
    pub fn retire(&self) {
        let mut interrupter = lock(&self.interrupter);
        interrupter.retired = true;
        let thread = interrupter.thread.take();
        drop(interrupter);
        // Its panic would not concern the caller.
        let _ = thread.map(JoinHandle::join);
    }

    /// Something runs: look.
    pub fn rouse(&self) {
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// Start the thread, unless it is started: whichever thread serves first may be the one that is to be watched. It ends
/// when the server is finished.
pub fn start<H: Handler>(server: &Arc<Server<H>>) -> std::io::Result<()> {
    let watchdog = &server.shared().watchdog;
    let mut started = lock(&watchdog.handle);
    if watchdog.thread.get().is_some() {
        return Ok(());
    }
    let watched = Arc::clone(server);
    let name = "poorhttp-watch".to_owned();
    let builder = Builder::new().name(name).stack_size(STACK);
    // Now, and not when the thread comes to run: the first request may have altered them by then.
    let dispositions = Dispositions::now();
    let handle = builder.spawn(move || watch(&watched, dispositions))?;
    // Set once: it is locked here.
    let _ = watchdog.thread.set(handle.thread().clone());
    *started = Some(handle);
    Ok(())
}

/// What it saw at the last sample.
struct Seen {
    progress: Option<u64>,
    /// When the last sample was taken.
    sampled: Instant,
    cpu: cpu::Usage,
    /// Since when there has been no progress, in µs.
    quiet: u64,
    admission: Admission,
    idle: u32,
    calls: Calls,
    load: Load,
    /// When a process alone may be told again that clients wait.
    next_pressed: u64,
    /// What is still to be done with the interpreter.
    pending: Vec<Job>,
    is_hog_told: bool,
    is_stop_late: bool,
    next_overhearing: u64,
    dispositions: Dispositions,
    next_urging: Option<u64>,
    next_giving: u64,
    looked: u64,
}

fn watch<H: Handler>(server: &Arc<Server<H>>, dispositions: Dispositions) {
    let shared = server.shared();
    let mut seen = Seen {
        progress: None,
        sampled: Instant::now(),
        cpu: cpu::Usage::new(server.threads()),
        quiet: 0,
        admission: Admission::new(server.threads(), std::thread::available_parallelism().map_or(1, NonZero::get)),
        idle: 0,
        calls: Calls::new(server.threads(), shared.limits.slow_request, shared.limits.request_timeout, clock::now()),
        load: Load::new(server.threads(), clock::now()),
        next_pressed: 0,
        pending: Vec::new(),
        is_hog_told: false,
        is_stop_late: false,
        next_overhearing: 0,
        dispositions,
        next_urging: None,
        next_giving: 0,
        looked: 0,
    };
    let (mut panics, mut looks) = (Panics::default(), 0);
    while !is_over(server) {
        match catch_unwind(AssertUnwindSafe(|| look(server, &mut seen))) {
            Ok(()) => looks += 1,
            Err(panic) => {
                shared.handler.last_words(&panics::told(&*panic));
                if !panics.go_on(looks) {
                    kill(shared, "without its watchdog this process is not to be relied on; it ends itself");
                }
            }
        }
    }
}

/// Sleep until it is time, or something runs; then do what is to be done.
fn look<H: Handler>(server: &Arc<Server<H>>, seen: &mut Seen) {
    let shared = server.shared();
    let is_busy = server.is_busy();
    if is_busy || !shared.is_asleep() || shared.end_by().is_some() {
        seen.idle = 0;
    } else {
        seen.idle += 1;
    }
    let now = clock::now();
    if seen.idle > IDLE_SAMPLES || now >= seen.next_giving {
        seen.next_giving = now + GIVE_BACK;
        shared.freed.give_back();
    }
    if seen.idle > IDLE_SAMPLES {
        sleep(shared);
        seen.idle = 0;
        seen.looked = 0;
        seen.calls.skip(clock::now());
        seen.load.skip(clock::now());
        return;
    }
    let has_followers = server.team().has_followers();
    // No thread sleeps whom this one could wake, and none has come or gone since the last look.
    let is_full = || has_followers && server.team().is_awake();
    let stays_full = seen.quiet > 0 && is_full();
    let pause = match has_followers && !shared.is_asleep() {
        true if stays_full => patience(shared, is_busy).min(FULL_SAMPLE),
        true if server.pace().is_slow() && server.pace().room() == 1 => RARE_SAMPLE,
        true => SAMPLE,
        false => patience(shared, is_busy),
    };
    if is_busy && (shared.is_asleep() || stays_full) {
        nap(shared, pause, || shared.is_asleep() || is_full());
    } else {
        std::thread::park_timeout(pause);
    }
    let planned = u64::try_from(pause.as_millis()).unwrap_or(0);
    seen.calls.look(clock::now(), planned, server.team().pulses().map(Pulse::last));
    forgive_standstill(shared, seen);
    wake_follower(server, seen);
    overhear(shared, seen);
    server.leave_clients();
    urge_first(server, seen);
    end_overdue(shared);
    end_late_stop(server, seen);
    tell_slow(server, seen);
    interrupt_late(server, seen);
    give_up_stuck(server, seen);
    tell_load(server, seen);
    if !seen.pending.is_empty() && begin(server, seen.pending.clone()) {
        seen.pending.clear();
    }
}

/// The first thread has left, and nobody is in the application who could keep the interpreter from it.
fn is_over<H: Handler>(server: &Server<H>) -> bool {
    let shared = server.shared();
    shared.is_finished() && !shared.first_is_here() && !server.is_busy()
}

fn sleep<H: Handler>(shared: &Shared<H>) {
    let watchdog = &shared.watchdog;
    watchdog.asleep.store(true, Ordering::SeqCst);
    // The holder clears `sleeping` first and looks at `asleep` then; here it is the other way round.
    while watchdog.asleep.load(Ordering::SeqCst) && shared.is_asleep() && !shared.is_finished() {
        std::thread::park();
    }
    watchdog.asleep.store(false, Ordering::SeqCst);
}

/// Sleep for so long, or until a thread wakes the loop, lays the baton down or goes to sleep: the next request may come
/// beside a call that waits. `may_sleep` is asked when all of these rouse this thread already.
fn nap<H: Handler>(shared: &Shared<H>, pause: Duration, may_sleep: impl FnOnce() -> bool) {
    let asleep = &shared.watchdog.asleep;
    asleep.store(true, Ordering::SeqCst);
    if may_sleep() {
        std::thread::park_timeout(pause);
    }
    asleep.store(false, Ordering::SeqCst);
}

fn patience<H: Handler>(shared: &Shared<H>, is_busy: bool) -> Duration {
    let Limits { request_timeout, slow_request, .. } = shared.limits;
    let timeout = [request_timeout, slow_request].into_iter().filter(|&time| time > 0).min().unwrap_or(0);
    let soon = Duration::from_millis(10);
    let is_ending = shared.end_by().is_some();
    let patience = if is_ending { Duration::from_millis(OVERHEAR) } else { PATIENT_SAMPLE };
    match (is_busy, timeout) {
        (true, 1..) => Duration::from_millis(timeout / 4).clamp(soon, patience),
        (true, 0) => patience,
        (false, _) if is_ending => patience,
        (false, _) => soon,
    }
}

/// A process that was stopped for longer than its deadlines is not late when it goes on.
fn forgive_standstill<H: Handler>(shared: &Shared<H>, seen: &mut Seen) {
    let now = clock::now();
    let before = std::mem::replace(&mut seen.looked, now);
    let missed = now.saturating_sub(before);
    if before != 0 && missed > STANDSTILL {
        shared.forgive(missed);
    }
}

/// Let the next request in, where it is time for that.
fn wake_follower<H: Handler>(server: &Server<H>, seen: &mut Seen) {
    if !server.team().has_followers() {
        return;
    }
    let calls = server.calls_if_free();
    let is_quiet = calls.is_some() && calls == seen.progress;
    seen.progress = calls;
    let now = Instant::now();
    let elapsed = micros(now - seen.sampled);
    seen.sampled = now;
    seen.quiet = if is_quiet { seen.quiet + elapsed } else { 0 };
    // Short calls are never held back, and while a thread handles events calls may wait for that.
    if !is_quiet && (!server.pace().is_slow() || calls.is_none() && !server.shared().is_asleep()) {
        return;
    }
    let is_new = seen.cpu.look(server.team().threads(), Duration::from_micros(server.pace().long()));
    let decision = seen.admission.look(Sample {
        elapsed,
        is_new,
        inside: server.team().inside(),
        running: seen.cpu.running,
        short: seen.cpu.short,
        long: seen.cpu.long,
        is_free: calls.is_some(),
        quiet: seen.quiet,
        usual: server.pace().usual(),
    });
    server.pace().set_room(decision.room);
    if decision.wakes && server.team().wake_one() {
        seen.quiet = 0;
    }
}

/// Hear the signals that the loop does not read, because its threads are in the application or wait for the interpreter,
/// and see to it that the next ones come.
fn overhear<H: Handler>(shared: &Shared<H>, seen: &mut Seen) {
    let now = clock::now();
    if now >= seen.next_overhearing {
        seen.next_overhearing = now + OVERHEAR;
        shared.overhear();
        for name in seen.dispositions.keep() {
            let text = format!(
                "the application set {name} to be ignored, or to its default: the server has set its own handler again"
            );
            shared.handler.warn(None, &text);
        }
    }
}

/// Log the calls that are slow while they last, each request once.
fn tell_slow<H: Handler>(server: &Server<H>, seen: &mut Seen) {
    for slow in seen.calls.newly_slow() {
        let (shared, shown) = (server.shared(), server.shared().row.shown(slow.slot));
        // Asked behind what was read, which is that of this call then.
        let is_it = server.team().pulse(slow.slot).and_then(Pulse::last) == Some(slow.beat);
        let Some(Shown { client, line, id }) = shown.filter(|_| is_it && shared.row.tell(slow.slot)) else { continue };
        let id = if id.is_empty() { String::new() } else { format!(" (request id {})", escaped(&id)) };
        let (seconds, tenths) = (slow.age / 1000, slow.age % 1000 / 100);
        let text =
            format!("slow request: {}{id} has been at work for {seconds}.{tenths} s and goes on", escaped(&line));
        shared.handler.warn(client, &text);
    }
}

fn interrupt_late<H: Handler>(server: &Arc<Server<H>>, seen: &mut Seen) {
    let late = seen.calls.late();
    if !late.is_empty() && begin(server, late.iter().copied().map(Job::Interrupt).collect()) {
        seen.calls.interrupted(&late);
    }
}

/// Tell of calls that do not return, answer in their place, and end a process that has a successor and nothing else.
fn give_up_stuck<H: Handler>(server: &Arc<Server<H>>, seen: &mut Seen) {
    let shared = server.shared();
    let fresh = seen.calls.newly_stuck();
    if !fresh.is_empty() {
        seen.pending.extend(fresh.into_iter().map(Job::GiveUp));
        tell(shared, seen, STUCK);
    }
    let calls = seen.calls.stuck();
    let stuck = calls.len();
    let waited = time_at_work(shared);
    let is_hogged = stuck > 0 && waited.is_some_and(|waited| waited > HOG);
    if is_hogged && !seen.is_hog_told {
        shared.handler.last_words(
            "a call keeps the interpreter for longer than request_timeout: nothing else runs in this process, which \
             cannot tell where it is",
        );
    }
    seen.is_hog_told = is_hogged;
    shared.row.note_stuck(is_hogged || stuck == server.threads());
    let is_all_said = waited.is_none() && seen.pending.is_empty();
    let is_lost = is_hogged || (stuck == server.threads() && is_all_said);
    // Where no thread is left, a stop waits for one to return: there may be others who could be served then.
    if if is_lost { shared.has_successor() } else { is_all_said } {
        shared.note_stuck(calls);
    }
    if shared.has_successor() && is_lost {
        // Nobody is left who could end this in order.
        if shared.is_supervised() {
            server.excuse();
            kill(shared, "a call does not return, and another worker serves in the place of this one; it ends itself");
        } else if !shared.is_finished() {
            shared.finish();
        }
    }
}

fn tell<H: Handler>(shared: &Shared<H>, seen: &mut Seen, what: u8) {
    if shared.is_supervised() {
        shared.tell(what);
    } else if seen.pending.len() < MOST_PENDING {
        seen.pending.push(Job::Tell(what));
    }
}

/// Tell how busy the threads are, if somebody decides by it, and whether clients wait for one.
fn tell_load<H: Handler>(server: &Server<H>, seen: &mut Seen) {
    let shared = server.shared();
    let busy = server.team().inside();
    let told = seen.load.look(clock::now(), busy, || shared.is_awaited());
    if let Some(percent) = told.percent.filter(|_| shared.limits.tells_load) {
        shared.tell(LOAD + percent);
    }
    let now = clock::now();
    if told.is_pressed && (shared.is_supervised() || now >= seen.next_pressed) {
        seen.next_pressed = now + PRESSED_ALONE;
        tell(shared, seen, PRESSED);
    }
}

/// For how long the interrupter has been at work, if it is: above all it waits for the interpreter.
fn time_at_work<H: Handler>(shared: &Shared<H>) -> Option<Duration> {
    let interrupter = lock(&shared.watchdog.interrupter);
    let is_at_work = interrupter.thread.as_ref().is_some_and(|thread| !thread.is_finished());
    interrupter.since.filter(|_| is_at_work).map(|since| since.elapsed())
}

/// Begin jobs that need the interpreter. Returns whether that could be: not while earlier ones wait for it.
fn begin<H: Handler>(server: &Arc<Server<H>>, jobs: Vec<Job>) -> bool {
    let mut interrupter = lock(&server.shared().watchdog.interrupter);
    if interrupter.retired || interrupter.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
        return false;
    }
    let server = Arc::clone(server);
    let work = move || {
        let handler = &server.shared().handler;
        let is_still = |late: &Late| server.team().pulse(late.slot).and_then(Pulse::last) == Some(late.beat);
        let request = |slot: usize| server.shared().row.shown(slot).unwrap_or_default();
        let work = |job: &Job| match job {
            Job::Interrupt(late) => {
                handler.interrupt(late.slot, &request(late.slot), Some(late.age), &|| is_still(late));
            }
            Job::GiveUp(late) => {
                let began = server.team().pulse(late.slot).map(Pulse::began);
                let is_answered = handler.give_up(late.slot, &request(late.slot), late.age, &|| is_still(late));
                if let Some(began) = began.filter(|_| is_answered) {
                    server.shared().row.note_given_up(late.slot, began);
                }
            }
            Job::Tell(what) => handler.told(*what),
            Job::End(slot, began) => {
                let is_it = |pulse: Pulse| pulse.last().is_some() && pulse.began() == *began;
                handler.interrupt(*slot, &request(*slot), None, &|| server.team().pulse(*slot).is_some_and(is_it));
            }
        };
        for job in &jobs {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(job))) {
                handler.last_words(&panics::told(&*panic));
            }
        }
    };
    interrupter.thread = Builder::new().name("poorhttp-late".to_owned()).stack_size(STACK).spawn(work).ok();
    interrupter.since = Some(Instant::now());
    interrupter.thread.is_some()
}

fn end_late_stop<H: Handler>(server: &Arc<Server<H>>, seen: &mut Seen) {
    let shared = server.shared();
    // The loop does that, unless its threads are in the application.
    shared.end_drain(usize::MAX, || 0);
    let is_late = shared.stop_deadline().is_some_and(|deadline| clock::now() >= deadline);
    if is_late && !seen.is_stop_late {
        shared.finish();
        // The first thread is the main one: the interpreter's own alarm leaves the process where that does not return.
        let busy = server.team().pulses().enumerate().skip(1).filter(|(_, pulse)| pulse.last().is_some());
        let late: Vec<Job> = busy.map(|(slot, pulse)| Job::End(slot, pulse.began())).collect();
        seen.is_stop_late = late.is_empty() || begin(server, late);
    }
}

/// The first thread is the main one, which a signal brings back from the application, by the interpreter's handler. One
/// that came right before a system call, or that another thread took, waits for the end of that: send it again. A first
/// one that asks to stop would count as a second; in its place goes one that means little, where the call is given up.
fn urge_first<H: Handler>(server: &Server<H>, seen: &mut Seen) {
    let shared = server.shared();
    let is_in_application = server.team().pulse(0).and_then(Pulse::last).is_some();
    let is_given_up = || seen.calls.stuck().iter().any(|&(slot, _)| slot == 0);
    let signal = shared.stop_at_once().or_else(|| (shared.is_stopping() && is_given_up()).then_some(Signal::USR1));
    let Some(signal) = signal.filter(|_| is_in_application) else {
        seen.next_urging = None;
        return;
    };
    let now = clock::now();
    if now >= *seen.next_urging.get_or_insert(now + URGE) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        seen.next_urging = Some(now + URGE);
    }
}

/// End the process where even that was in vain.
fn end_overdue<H: Handler>(shared: &Shared<H>) {
    if shared.end_by().is_some_and(|time| clock::now() > time) {
        kill(shared, "the application does not return; the process ends itself");
    }
}

fn kill<H: Handler>(shared: &Shared<H>, why: &str) {
    shared.handler.last_words(why);
    let _ = shared.access_log.flush(|| false);
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
}

//! The thread that looks whether calls into the application go on, and sleeps while nothing runs.
//!
//! It wakes a follower where the baton lies free without progress, has a call interrupted that is older than
//! `request_timeout`, and ends a process whose application holds up a stop beyond reason. It never waits for the
//! interpreter, which a call may keep for ever: what needs it is done by a thread of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{Builder, JoinHandle, Thread};
use std::time::Duration;

use super::clock;
use super::handler::Handler;
use super::server::Server;
use super::shared::Shared;
use super::team::lock;

/// How soon a blocked call is noticed, twice over.
const SAMPLE: Duration = Duration::from_micros(500);
/// How soon a late call is noticed, at most.
const PATIENT_SAMPLE: Duration = Duration::from_millis(250);
/// Samples without anything running before it goes to sleep.
const IDLE_SAMPLES: u32 = 20;
/// How soon a signal is heard that the loop does not read, in ms.
const OVERHEAR: u64 = 100;
/// Whoever looks so much later than he wanted to was stopped (SIGSTOP), and everybody with him, in ms.
pub const STANDSTILL: u64 = 1000;
/// What a late stop still gets after its calls were interrupted, in ms.
pub const LAST_GRACE: u64 = 2000;

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

/// The thread that interrupts calls: it waits for the interpreter.
#[derive(Debug, Default)]
struct Interrupter {
    thread: Option<JoinHandle<()>>,
    retired: bool,
}

impl Watchdog {
    /// Wait for its end.
    pub fn join(&self) {
        let handle = lock(&self.handle).take();
        // Its panic would not concern the caller.
        let _ = handle.map(JoinHandle::join);
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
pub fn start<H: Handler>(server: &Arc<Server<H>>) -> Result<(), String> {
    let watchdog = &server.shared().watchdog;
    let mut started = lock(&watchdog.handle);
    if watchdog.thread.get().is_some() {
        return Ok(());
    }
    let watched = Arc::clone(server);
    let name = "poorhttp-watch".to_owned();
    let builder = Builder::new().name(name).stack_size(STACK);
    let handle =
        builder.spawn(move || watch(&watched)).map_err(|error| format!("no thread can be started: {error}"))?;
    // Set once: it is locked here.
    let _ = watchdog.thread.set(handle.thread().clone());
    *started = Some(handle);
    Ok(())
}

/// What it saw at the last sample.
#[derive(Default)]
struct Seen {
    calls: Option<u64>,
    idle: u32,
    /// The pulse at which each slot was interrupted.
    interrupted: Vec<Option<u64>>,
    is_stop_late: bool,
    next_overhearing: u64,
    looked: u64,
}

fn watch<H: Handler>(server: &Arc<Server<H>>) {
    let shared = server.shared();
    let mut seen = Seen { interrupted: vec![None; server.threads()], ..Seen::default() };
    while !is_over(server) {
        let is_busy = server.is_busy();
        if is_busy || !shared.is_asleep() || shared.end_by().is_some() {
            seen.idle = 0;
        } else {
            seen.idle += 1;
        }
        if seen.idle > IDLE_SAMPLES {
            sleep(shared);
            seen.idle = 0;
            seen.looked = 0;
            continue;
        }
        std::thread::park_timeout(if server.threads() > 1 && !shared.is_asleep() {
            SAMPLE
        } else {
            patience(shared, is_busy)
        });
        forgive_standstill(server, &mut seen);
        wake_follower(server, &mut seen);
        overhear(shared, &mut seen);
        end_overdue(shared);
        end_late_stop(server, &mut seen);
        interrupt_late(server, &mut seen);
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

fn patience<H: Handler>(shared: &Shared<H>, is_busy: bool) -> Duration {
    let timeout = shared.limits.request_timeout;
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
fn forgive_standstill<H: Handler>(server: &Server<H>, seen: &mut Seen) {
    let now = clock::now();
    let before = std::mem::replace(&mut seen.looked, now);
    let missed = now.saturating_sub(before);
    if before != 0 && missed > STANDSTILL {
        server.shared().forgive(missed);
        server.team().pulses().for_each(|pulse| pulse.forgive(missed));
    }
}

fn wake_follower<H: Handler>(server: &Server<H>, seen: &mut Seen) {
    let calls = server.calls_if_free();
    if calls.is_some() && calls == seen.calls {
        server.team().wake_one();
    }
    seen.calls = calls;
}

/// Hear the signals that the loop does not read, because its threads are in the application or wait for the interpreter.
fn overhear<H: Handler>(shared: &Shared<H>, seen: &mut Seen) {
    let now = clock::now();
    if now >= seen.next_overhearing {
        seen.next_overhearing = now + OVERHEAR;
        shared.overhear();
    }
}

/// A call that is to be interrupted: its slot, and its pulse then; none: whatever it is.
type Late = (usize, Option<u64>);

fn interrupt_late<H: Handler>(server: &Arc<Server<H>>, seen: &mut Seen) {
    let timeout = server.shared().limits.request_timeout;
    if timeout == 0 {
        return;
    }
    let now = clock::now();
    let is_late = |beat: &u64| now.saturating_sub(*beat) > timeout;
    let pulses = server.team().pulses().map(|pulse| pulse.last().filter(is_late));
    let fresh = pulses.zip(&seen.interrupted).map(|(late, before)| late.filter(|_| late != *before));
    let late: Vec<Late> = fresh.enumerate().filter(|(_, late)| late.is_some()).collect();
    if !late.is_empty() && interrupt(server, late.clone()) {
        for (slot, pulse) in late {
            if let Some(interrupted) = seen.interrupted.get_mut(slot) {
                *interrupted = pulse;
            }
        }
    }
}

/// Returns whether it could be begun: not while an earlier one waits for the interpreter.
fn interrupt<H: Handler>(server: &Arc<Server<H>>, late: Vec<Late>) -> bool {
    let mut interrupter = lock(&server.shared().watchdog.interrupter);
    if interrupter.retired || interrupter.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
        return false;
    }
    let server = Arc::clone(server);
    let interrupt = move || {
        for (slot, beat) in late {
            let Some(pulse) = server.team().pulse(slot) else { continue };
            let is_still_late = || pulse.last().is_some_and(|last| beat.is_none_or(|beat| beat == last));
            server.shared().handler.interrupt(slot, &is_still_late);
        }
    };
    interrupter.thread = Builder::new().name("poorhttp-late".to_owned()).stack_size(STACK).spawn(interrupt).ok();
    interrupter.thread.is_some()
}

fn end_late_stop<H: Handler>(server: &Arc<Server<H>>, seen: &mut Seen) {
    let shared = server.shared();
    let is_late = shared.stop_deadline().is_some_and(|deadline| clock::now() >= deadline);
    if is_late && !seen.is_stop_late {
        shared.finish();
        // The first thread is the main one: the interpreter's own alarm leaves the process where that does not return.
        let busy = server.team().pulses().enumerate().skip(1).filter(|(_, pulse)| pulse.last().is_some());
        let late: Vec<Late> = busy.map(|(slot, _)| (slot, None)).collect();
        seen.is_stop_late = late.is_empty() || interrupt(server, late);
    }
}

/// End the process where even that was in vain.
fn end_overdue<H: Handler>(shared: &Shared<H>) {
    if shared.end_by().is_some_and(|time| clock::now() > time) {
        shared.handler.last_words("the application does not return; the process ends itself");
        shared.access_log.flush(|| false);
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

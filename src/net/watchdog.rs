//! The thread that looks whether calls into the application go on, and sleeps while nothing runs.
//!
//! It wakes a follower where the baton lies free without progress, interrupts a call that is older than
//! `request_timeout`, and ends a process whose application holds up a stop beyond reason.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use super::clock::{self, Pulse};
use super::handler::Handler;
use super::server::{Server, Shared};

/// How soon a blocked call is noticed, twice over.
const SAMPLE: Duration = Duration::from_micros(500);
/// How soon a late call is noticed, at most.
const PATIENT_SAMPLE: Duration = Duration::from_millis(250);
/// Samples without anything running before it goes to sleep.
const IDLE_SAMPLES: u32 = 20;
/// What a late stop still gets after its calls were interrupted, in ms.
const LAST_GRACE: u64 = 2000;

/// How the event loop reaches the thread.
#[derive(Debug, Default)]
pub struct Watchdog {
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
}

impl Watchdog {
    /// Something runs: look.
    pub fn rouse(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            if let Some(thread) = self.thread.get() {
                thread.unpark();
            }
        }
    }
}

/// Start the thread. It ends when the server is finished.
pub fn start<H: Handler>(server: &Arc<Server<H>>) -> Result<JoinHandle<()>, String> {
    let watched = Arc::clone(server);
    let name = "poorhttp-watch".to_owned();
    let builder = std::thread::Builder::new().name(name).stack_size(1024 * 1024);
    let handle =
        builder.spawn(move || watch(&watched)).map_err(|error| format!("no thread can be started: {error}"))?;
    // Set once: slot 0 is taken once.
    let _ = server.shared().watchdog().thread.set(handle.thread().clone());
    Ok(handle)
}

/// What it saw at the last sample.
#[derive(Default)]
struct Seen {
    calls: Option<u64>,
    idle: u32,
    /// The pulse at which each slot was interrupted.
    interrupted: Vec<Option<u64>>,
    is_stop_late: bool,
}

fn watch<H: Handler>(server: &Server<H>) {
    let shared = server.shared();
    let mut seen = Seen { interrupted: vec![None; server.threads()], ..Seen::default() };
    while !is_over(server) {
        let is_busy = server.team().pulses().any(|pulse| pulse.last().is_some());
        if is_busy || !shared.is_asleep() {
            seen.idle = 0;
        } else {
            seen.idle += 1;
        }
        if seen.idle > IDLE_SAMPLES {
            sleep(shared);
            seen.idle = 0;
            continue;
        }
        std::thread::park_timeout(if server.threads() > 1 && !shared.is_asleep() {
            SAMPLE
        } else {
            patience(shared, is_busy)
        });
        wake_follower(server, &mut seen);
        interrupt_late(server, &mut seen);
        end_late_stop(server, &mut seen);
    }
}

/// Finished, and the first thread, which waits for this one, is not in the application. If it were, nobody else could
/// end the process.
fn is_over<H: Handler>(server: &Server<H>) -> bool {
    let first = server.team().pulse(0).and_then(Pulse::last);
    server.shared().is_finished() && first.is_none()
}

fn sleep<H: Handler>(shared: &Shared<H>) {
    let watchdog = shared.watchdog();
    watchdog.asleep.store(true, Ordering::SeqCst);
    // The holder clears `sleeping` first and looks at `asleep` then; here it is the other way round.
    while watchdog.asleep.load(Ordering::SeqCst) && shared.is_asleep() && !shared.is_finished() {
        std::thread::park();
    }
    watchdog.asleep.store(false, Ordering::SeqCst);
}

fn patience<H: Handler>(shared: &Shared<H>, is_busy: bool) -> Duration {
    let timeout = shared.limits.request_timeout;
    match (is_busy, timeout) {
        (true, 1..) => Duration::from_millis(timeout / 4).clamp(Duration::from_millis(10), PATIENT_SAMPLE),
        (true, 0) => PATIENT_SAMPLE,
        (false, _) => Duration::from_millis(10),
    }
}

fn wake_follower<H: Handler>(server: &Server<H>, seen: &mut Seen) {
    let calls = server.calls_if_free();
    if calls.is_some() && calls == seen.calls {
        server.team().wake_one();
    }
    seen.calls = calls;
}

fn interrupt_late<H: Handler>(server: &Server<H>, seen: &mut Seen) {
    let shared = server.shared();
    let now = clock::now();
    for (slot, (pulse, interrupted)) in server.team().pulses().zip(&mut seen.interrupted).enumerate() {
        let last = pulse.last();
        let timeout = shared.limits.request_timeout;
        let is_late = timeout > 0 && last.is_some_and(|beat| now.saturating_sub(beat) > timeout);
        if is_late && *interrupted != last {
            *interrupted = last;
            shared.handler.interrupt(slot, &|| pulse.last() == last);
        }
    }
}

fn end_late_stop<H: Handler>(server: &Server<H>, seen: &mut Seen) {
    let shared = server.shared();
    let Some(deadline) = shared.stop_deadline() else { return };
    let now = clock::now();
    if now >= deadline && !seen.is_stop_late {
        seen.is_stop_late = true;
        shared.finish();
        for (slot, pulse) in server.team().pulses().enumerate() {
            if pulse.last().is_some() {
                shared.handler.interrupt(slot, &|| pulse.last().is_some());
            }
        }
    }
    if now > deadline + LAST_GRACE {
        shared.handler.report('C', None, "the application does not return; the process ends itself");
        shared.access_log.flush();
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

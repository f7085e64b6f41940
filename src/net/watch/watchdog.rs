//! The thread that looks whether calls into the application go on, and sleeps while nothing runs.
//!
//! It wakes a thread where the baton lies free without progress, has late calls interrupted, gives up those that do not
//! return, ends a process whose application holds up a stop beyond reason, and hears signals that no other thread reads.
//! It never waits for the interpreter, which a call may keep for ever: [`super::interrupter`] does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::time::Duration;

use super::dispositions::Dispositions;
use super::followers::Followers;
use super::interrupter::{Interrupter, STACK};
use super::late_calls::LateCalls;
use super::load::Load;
use super::stopping::{Stopping, kill};
use super::watched::Watched;
use crate::limits::Limits;
use crate::net::clock;
use crate::net::handler::Handler;
use crate::net::lock::lock;
use crate::net::panics::{self, Panics};
use crate::net::report::report_pipe::{LOAD, OVERLOADED};
use crate::timing::STANDSTILL;

/// The pause between two looks while calls run. A blocked call is noticed after two of them.
const PAUSE: Duration = Duration::from_micros(500);
/// The pause while calls compute, at least and at most: each look takes the CPU from them. It doubles with each look that
/// finds that calls went on.
const RARE_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(8));
/// The pause while all threads are in the application. After it the watchdog notices that a client waits.
const FULL_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause where there is no other thread to wake. After it a late call is noticed.
const PATIENT_PAUSE: Duration = Duration::from_millis(250);
/// The pause before the watchdog goes to sleep, and the shortest where there is no other thread to wake.
const SHORT_PAUSE: Duration = Duration::from_millis(10);
/// After so many looks at which nothing ran the watchdog goes to sleep.
const IDLE_LOOKS: u32 = 20;
/// How soon a signal is heard that the event loop does not read, in ms.
const SIGNAL_INTERVAL: u64 = 100;
/// How often a process alone hears that clients wait, which takes the interpreter from them, in ms.
const OVERLOADED_ALONE: u64 = 5000;
/// How often freed memory is given back while something runs, at most, in ms.
const GIVE_BACK: u64 = 1000;

/// Start the watchdog, unless it is started: whichever thread serves first may be the one that is to be watched. It ends
/// when the server is finished.
pub fn start<S: Watched>(server: &Arc<S>) -> std::io::Result<()> {
    let waker = &server.shared().process.watchdog;
    let mut started = lock(&server.watchdog().handle);
    if waker.is_started() {
        return Ok(());
    }
    // Now, and not when its thread comes to run: the first request may have altered them by then.
    let mut watcher = Watcher::new(Arc::clone(server), Dispositions::now());
    let builder = Builder::new().name("poorhttp-watch".to_owned()).stack_size(STACK);
    let handle = builder.spawn(move || watcher.watch())?;
    waker.start(handle.thread().clone());
    *started = Some(handle);
    Ok(())
}

/// The server, and what was seen of it so far. Times are milliseconds.
struct Watcher<S: Watched> {
    server: Arc<S>,
    followers: Followers,
    late_calls: LateCalls,
    stopping: Stopping,
    interrupter: Interrupter,
    load: Load,
    dispositions: Dispositions,
    /// Looks in a row at which nothing ran.
    idle: u32,
    /// The pause while calls compute.
    rare_pause: Duration,
    /// When it looked last; 0 after a sleep.
    looked: u64,
    next_signal_look: u64,
    /// When a process alone may hear again that clients wait.
    next_overloaded: u64,
    next_giving: u64,
}

impl<S: Watched> Watcher<S> {
    fn new(server: Arc<S>, dispositions: Dispositions) -> Self {
        Self {
            followers: Followers::new(server.watchdog().threads),
            late_calls: LateCalls::new(&*server),
            stopping: Stopping::default(),
            interrupter: Interrupter::default(),
            load: Load::new(server.watchdog().threads, clock::now()),
            dispositions,
            idle: 0,
            rare_pause: RARE_PAUSE.0,
            looked: 0,
            next_signal_look: 0,
            next_overloaded: 0,
            next_giving: 0,
            server,
        }
    }

    /// Look until the first thread has left, and no thread is in the application that could keep the interpreter from it.
    fn watch(&mut self) {
        let (mut panics, mut looks) = (Panics::default(), 0);
        let server = Arc::clone(&self.server);
        let shared = server.shared();
        while !shared.process.is_finished() || server.watchdog().has_first.load(Ordering::SeqCst) || server.is_busy() {
            match catch_unwind(AssertUnwindSafe(|| self.look())) {
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
    fn look(&mut self) {
        let server = Arc::clone(&self.server);
        let process = &server.shared().process;
        let is_busy = server.is_busy();
        let is_idle = !is_busy && process.waker.is_asleep() && process.end_by().is_none();
        self.idle = if is_idle { self.idle + 1 } else { 0 };
        let sleeps = self.idle > IDLE_LOOKS;
        let now = clock::now();
        if sleeps || now >= self.next_giving {
            self.next_giving = now + GIVE_BACK;
            server.shared().freed.give_back();
        }
        if sleeps {
            process.watchdog.sleep(|| {
                let may_sleep = process.waker.is_asleep() && !server.is_busy() && !process.is_finished();
                if may_sleep {
                    self.keep_dispositions(); // a call may have begun and ended between two looks
                }
                may_sleep
            });
            self.idle = 0;
            self.looked = 0;
            self.late_calls.calls.skip(clock::now());
            self.load.skip(clock::now());
            return;
        }
        let pause = self.pause(is_busy);
        self.late_calls.look(&*server, pause);
        self.forgive_standstill();
        self.followers.look(&*server);
        self.read_missed_signals();
        server.leave_clients();
        let calls = &self.late_calls.calls;
        self.stopping.look(&server, || calls.stuck().iter().any(|&(slot, _)| slot == 0));
        self.late_calls.tell_slow(&*server);
        self.late_calls.interrupt(&server);
        self.late_calls.give_up(&server, &mut self.interrupter);
        self.tell_load();
        self.interrupter.go_on(&server);
    }

    /// Wait before the next look. Returns for how long that was to be.
    fn pause(&mut self, is_busy: bool) -> Duration {
        let pace = &self.server.watchdog().pace;
        let computes = pace.is_slow() && pace.room() == 1;
        let goes_on = computes && !self.followers.is_quiet();
        self.rare_pause = if goes_on { (2 * self.rare_pause).min(RARE_PAUSE.1) } else { RARE_PAUSE.0 };
        let server = &*self.server;
        let waker = &server.shared().process.waker;
        let has_followers = server.has_followers();
        // No thread sleeps that could be woken, and there has been no progress since the last look.
        let is_full = || has_followers && server.is_awake();
        let stays_full = self.followers.is_quiet() && is_full();
        let pause = match has_followers && !waker.is_asleep() {
            true if stays_full => self.patience(is_busy).min(FULL_PAUSE),
            true if computes => self.rare_pause,
            true => PAUSE,
            false => self.patience(is_busy),
        };
        if is_busy && (waker.is_asleep() || stays_full) {
            // The next request may come beside a call that waits: a thread that wakes the event loop, lays the baton down
            // or goes to sleep rouses this one.
            server.shared().process.watchdog.nap(pause, || waker.is_asleep() || is_full());
        } else {
            std::thread::park_timeout(pause);
        }
        pause
    }

    /// How long the next look can wait where no thread is to be woken.
    fn patience(&self, is_busy: bool) -> Duration {
        let shared = self.server.shared();
        let Limits { request_timeout, slow_request, .. } = shared.limits;
        let timeout = [request_timeout, slow_request].into_iter().filter(|&time| time > 0).min();
        let is_ending = shared.process.end_by().is_some();
        let most = if is_ending { Duration::from_millis(SIGNAL_INTERVAL) } else { PATIENT_PAUSE };
        match (is_busy, timeout) {
            (true, Some(timeout)) => Duration::from_millis(timeout / 4).clamp(SHORT_PAUSE, most),
            (true, None) => most,
            (false, _) if is_ending => most,
            (false, _) => SHORT_PAUSE,
        }
    }

    /// A process that was stopped for longer than its deadlines is not late when it goes on.
    fn forgive_standstill(&mut self) {
        let now = clock::now();
        let before = std::mem::replace(&mut self.looked, now);
        let missed = now.saturating_sub(before);
        if before != 0 && missed > STANDSTILL {
            self.server.shared().process.forgive(missed);
        }
    }

    /// Hear the signals that the event loop does not read, because its threads are in the application or wait for the
    /// interpreter, and see to it that the next ones come.
    fn read_missed_signals(&mut self) {
        let now = clock::now();
        if now < self.next_signal_look {
            return;
        }
        self.next_signal_look = now + SIGNAL_INTERVAL;
        self.server.shared().process.read_controls();
        self.keep_dispositions();
    }

    /// Set the server's handlers again that the application has replaced.
    fn keep_dispositions(&mut self) {
        for name in self.dispositions.keep() {
            let text = format!(
                "the application set {name} to be ignored, or to its default: the server has set its own handler again"
            );
            self.server.shared().handler.warn(None, &text);
        }
    }

    /// Tell how busy the threads are, if a supervisor decides by it, and whether clients wait for one.
    fn tell_load(&mut self) {
        let (server, now) = (&*self.server, clock::now());
        let shared = server.shared();
        let told = self.load.look(now, server.inside(), || server.is_awaited());
        if let Some(percent) = told.percent.filter(|_| shared.limits.tells_load) {
            shared.process.report_pipe.tell(LOAD + percent);
        }
        if told.is_overloaded && (shared.process.is_supervised() || now >= self.next_overloaded) {
            self.next_overloaded = now + OVERLOADED_ALONE;
            self.interrupter.report(server, OVERLOADED);
        }
    }
}

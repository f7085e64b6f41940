//! What this process was asked to do: serve, make way for a successor, or stop; by signals that come as bytes over its
//! control descriptors.
//!
//! Knows no connection. The event loop asks here whether it may accept and until when; the watchdog ends a process whose
//! time is over.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::FileType;
use rustix::process::Signal;

use super::times::Times;
use super::wakeups::{LoopWaker, WatchdogWaker};
use crate::net::clock;
use crate::net::lock::lock;
use crate::net::report::report_pipe::{ASKED, CLOSED, ReportPipe};
use crate::net::report::scoreboard::{Row, State};
use crate::timing::{DRAIN as DRAIN_TIME, FAST};

/// SIGINT, SIGQUIT and SIGTERM as they come over a control descriptor.
const SIGINT: u8 = 2;
const SIGQUIT: u8 = 3;
const SIGTERM: u8 = 15;
/// Words of the supervisor, which are no signals: it has a successor, stops, or was interrupted. It sends no SIGTERM for
/// that, which would count as a second one where a service manager has sent one to each process.
const DRAIN: u8 = 0;
const STOP: u8 = 255;
const INTERRUPT: u8 = 254;
/// All of these words, with the names that Python has for them.
pub const WORDS: [(&str, u8); 3] = [("DRAIN", DRAIN), ("STOP", STOP), ("INTERRUPT", INTERRUPT)];
/// How long a process may still last when the time of its stop is over and its calls were interrupted, in ms.
const LAST_GRACE: u64 = 2000;
/// If the supervisor was killed, the requests in flight of a worker may last for the first time, and its process for the
/// second one, in ms: no process shall be left a second later.
const ORPHANED: u64 = 100;
const ORPHAN_ENDS: u64 = 300;

/// The descriptors of a process beside its connections.
#[derive(Debug)]
pub struct Descriptors {
    /// Pipes from which signals are read, a byte each.
    pub controls: Vec<OwnedFd>,
    /// The pipe to the supervisor; a process without a supervisor has none.
    pub report_pipe: ReportPipe,
    /// The sockets of the listeners, for a successor.
    pub listeners: Vec<Arc<OwnedFd>>,
    /// See [`Process::is_last`].
    pub countdown: Option<OwnedFd>,
}

/// A process that serves, or stops to.
#[derive(Debug)]
pub struct Process {
    /// Wakes the thread that waits for events.
    pub waker: LoopWaker,
    /// Wakes the watchdog.
    pub watchdog: WatchdogWaker,
    /// The pipe to the supervisor; a process without a supervisor has none.
    pub report_pipe: ReportPipe,
    /// A child was forked, which may hold the sockets of connections open.
    pub has_forked: AtomicBool,
    row: Row,
    graceful_timeout: u64,
    controls: Vec<OwnedFd>,
    /// The watchdog read signals that the interpreter has not heard yet.
    has_unheard_signals: AtomicBool,
    listeners: Mutex<Vec<Arc<OwnedFd>>>,
    countdown: Option<OwnedFd>,
    is_closed: AtomicBool,
    times: Times,
    is_stopping: AtomicBool,
    is_finished: Arc<AtomicBool>,
    /// The first signal that asked to stop at once: a QUIT, or a second one of the others; 0 before it.
    stop_at_once: AtomicU8,
}

impl Process {
    /// One that serves.
    pub fn new(descriptors: Descriptors, row: Row, graceful_timeout: u64) -> std::io::Result<Self> {
        let Descriptors { controls, report_pipe, listeners, countdown } = descriptors;
        controls.iter().try_for_each(|control| rustix::io::ioctl_fionbio(control, true))?;
        Ok(Self {
            waker: LoopWaker::new()?,
            watchdog: WatchdogWaker::default(),
            report_pipe,
            has_forked: AtomicBool::new(false),
            row,
            graceful_timeout,
            controls,
            has_unheard_signals: AtomicBool::new(false),
            listeners: Mutex::new(listeners),
            countdown,
            is_closed: AtomicBool::new(false),
            times: Times::default(),
            is_stopping: AtomicBool::new(false),
            is_finished: Arc::default(),
            stop_at_once: AtomicU8::new(0),
        })
    }

    /// Whether it is a worker, which has a supervisor.
    pub fn is_supervised(&self) -> bool {
        self.report_pipe.is_there()
    }

    /// The control descriptors.
    pub fn controls(&self) -> &[OwnedFd] {
        &self.controls
    }

    /// Whether the watchdog read signals that the interpreter has not heard yet; asked once.
    pub fn take_unheard_signals(&self) -> bool {
        self.has_unheard_signals.swap(false, Ordering::SeqCst)
    }

    /// Read the control descriptors before the event loop comes to that: its threads may all wait for the interpreter.
    pub fn read_controls(&self) {
        for control in &self.controls {
            let (signals, has_ended) = read_control(control);
            if !signals.is_empty() {
                self.has_unheard_signals.store(true, Ordering::SeqCst);
            }
            if has_ended || !signals.is_empty() {
                self.obey(&signals, has_ended);
                self.waker.wake();
            }
        }
    }

    /// Do what signals ask for. `is_orphan`: the parent died.
    pub fn obey(&self, signals: &[u8], is_orphan: bool) {
        if is_orphan {
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
                    self.times.drain_until.clear();
                    self.finish_for(signal);
                }
                SIGINT | SIGTERM if self.times.is_second_signal() => self.finish_for(signal),
                SIGINT => self.begin_stop_within(FAST),
                // It may have come to all processes: the supervisor hears it too then, and decides which one stops last.
                SIGTERM if self.is_supervised() => self.report_pipe.tell(ASKED),
                SIGTERM | STOP => self.begin_stop(),
                DRAIN => self.begin_drain(),
                _ => {}
            }
        }
    }

    /// Make room for a successor: close each connection with its next answer, then stop. A worker leaves new clients to
    /// the others, which serve already; a process alone accepts as before.
    fn begin_drain(&self) {
        if !self.is_stopping() {
            self.times.drain_until.set_in(DRAIN_TIME);
            self.row.enter(State::Draining);
            if self.is_supervised() {
                lock(&self.listeners).clear();
            }
        }
    }

    /// Until when it makes room for a successor, if it does.
    pub fn drain_until(&self) -> Option<u64> {
        self.times.drain_until.get().filter(|_| !self.is_stopping())
    }

    /// Stop when the time for a successor is over, or earlier if no connection is left but those that `given_up` counts.
    pub fn end_drain(&self, connections: usize, given_up: impl Fn() -> usize) {
        if self.drain_until().is_some_and(|time| connections <= given_up() || time <= clock::now()) {
            self.stop_within(self.graceful_timeout);
        }
    }

    /// Whether a successor takes over the listeners.
    pub fn has_successor(&self) -> bool {
        self.times.drain_until.get().is_some()
    }

    /// Whether new clients are for other workers.
    pub fn leaves_clients(&self) -> bool {
        self.is_supervised() && self.has_successor()
    }

    /// Whether it wants no more requests: it stops, or makes way for a successor.
    pub fn is_leaving(&self) -> bool {
        self.is_stopping() || self.has_successor()
    }

    /// Accept no more, and finish what is in flight.
    pub fn begin_stop(&self) {
        self.begin_stop_within(self.graceful_timeout);
    }

    /// Accept no more, and finish what is in flight within so many milliseconds, or `graceful_timeout` where that is less.
    fn begin_stop_within(&self, milliseconds: u64) {
        // A client that comes now is to be refused, not left waiting.
        lock(&self.listeners).clear();
        self.times.drain_until.clear();
        self.stop_within(milliseconds.min(self.graceful_timeout));
    }

    fn stop_within(&self, milliseconds: u64) {
        self.times.stop_by.set_sooner(milliseconds);
        self.is_stopping.store(true, Ordering::Relaxed);
        self.row.enter(State::Stopping);
        self.end_in(milliseconds + LAST_GRACE);
    }

    /// Whether it accepts no more.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// When a stop becomes late, if there is one.
    pub fn stop_deadline(&self) -> Option<u64> {
        self.times.stop_by.get()
    }

    /// Whether there is a stop, and it is late.
    pub fn is_stop_late(&self) -> bool {
        self.stop_deadline().is_some_and(|deadline| clock::now() >= deadline)
    }

    /// Let every thread return from its run, for a signal asks for that.
    fn finish_for(&self, signal: u8) {
        // It fails where there was one before.
        let _ = self.stop_at_once.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        self.finish();
    }

    /// The first signal that asked to stop at once.
    pub fn stop_at_once(&self) -> Option<Signal> {
        Signal::from_named_raw(self.stop_at_once.load(Ordering::Relaxed).into())
    }

    /// Let every thread return from its run, whatever is in flight.
    pub fn finish(&self) {
        self.end_in(LAST_GRACE);
        self.is_finished.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether every thread is to return from its run.
    pub fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Acquire)
    }

    /// The flag that tells a thread so.
    pub fn finished(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_finished)
    }

    /// Let the watchdog see to it that the process ends.
    fn end_in(&self, milliseconds: u64) {
        self.times.end_by.set_sooner(milliseconds);
        self.watchdog.rouse();
    }

    /// When the process is to be ended, if a stop has begun.
    pub fn end_by(&self) -> Option<u64> {
        self.times.end_by.get()
    }

    /// The process itself stood still for so many milliseconds, for which nothing is late.
    pub fn forgive(&self, milliseconds: u64) {
        self.times.forgive(milliseconds);
    }

    /// The listeners are closed: tell it once.
    pub fn note_closed(&self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            self.report_pipe.tell(CLOSED);
        }
    }

    /// Whether the listeners are closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// The descriptors of the listeners, for a successor, or to be looked at; none after a stop.
    pub fn listeners(&self) -> Vec<RawFd> {
        lock(&self.listeners).iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Whether all other processes that accept here have accepted for the last time; to be asked once, when this process
    /// has done so too. Each takes a byte from a pipe, in which there is one less than processes once all are to stop. A
    /// process that finds none is the last one.
    pub fn is_last(&self) -> bool {
        self.countdown.as_ref().is_some_and(|countdown| rustix::io::read(countdown, &mut [0]) == Ok(0))
    }
}

/// What is to be read on a control descriptor, which never blocks, as the event loop and the watchdog may want the same
/// byte: the signals, and whether the other end is gone. A descriptor that the application has put in its place does not count as gone.
pub fn read_control(control: &OwnedFd) -> (Vec<u8>, bool) {
    let mut signals = Vec::with_capacity(64);
    let is_ended = rustix::io::read(control, rustix::buffer::spare_capacity(&mut signals)) == Ok(0);
    (signals, is_ended && has_other_end(control))
}

fn has_other_end(descriptor: &OwnedFd) -> bool {
    let kind = rustix::fs::fstat(descriptor).map(|facts| FileType::from_raw_mode(facts.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}

//! What the watchdog wants done with the interpreter: interrupt a late call, answer in the place of a stuck one, report
//! to a process without a supervisor.
//!
//! A call may keep the interpreter for ever, so the watchdog itself never waits for it. A thread that lives no longer
//! than its jobs does; there is one at most.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::calls::Late;
use super::watched::Watched;
use crate::net::clock::Pulse;
use crate::net::handler::Handler;
use crate::net::lock::lock;
use crate::net::panics;

/// How much may be left to do.
const MOST_PENDING: usize = 64;
/// How much stack a thread of the watchdog has.
pub const STACK: usize = 1024 * 1024;

/// What needs the interpreter.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// Interrupt a late call.
    Interrupt(Late),
    /// Answer in the place of a stuck call.
    GiveUp(Late),
    /// Interrupt the call on this slot that began then: the time of a stop is over.
    End(usize, u64),
    /// Give the process a report that only a supervisor would hear otherwise.
    Report(u8),
}

/// The jobs that are to be done in time.
#[derive(Debug, Default)]
pub struct Interrupter {
    pending: Vec<Job>,
}

impl Interrupter {
    /// Do these jobs as soon as the thread is free for them.
    pub fn add(&mut self, jobs: impl Iterator<Item = Job>) {
        self.pending.extend(jobs);
    }

    /// Report to the supervisor, or else to the process itself.
    pub fn report<S: Watched>(&mut self, server: &S, byte: u8) {
        let process = &server.shared().process;
        if process.is_supervised() {
            process.report_pipe.tell(byte);
        } else if self.pending.len() < MOST_PENDING {
            self.pending.push(Job::Report(byte));
        }
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.pending.is_empty()
    }

    /// Begin with what is left to do, if there is anything and the thread is free for it.
    pub fn go_on<S: Watched>(&mut self, server: &Arc<S>) {
        if !self.pending.is_empty() && begin(server, self.pending.clone()) {
            self.pending.clear();
        }
    }
}

/// For how long the thread has been at work, if it is: above all it waits for the interpreter.
pub fn time_at_work<S: Watched>(server: &S) -> Option<Duration> {
    let interrupter = lock(&server.watchdog().interrupter);
    interrupter.since.filter(|_| interrupter.is_at_work()).map(|since| since.elapsed())
}

/// Begin these jobs. Returns whether that could be: not while earlier ones wait for the interpreter.
pub fn begin<S: Watched>(server: &Arc<S>, jobs: Vec<Job>) -> bool {
    let mut interrupter = lock(&server.watchdog().interrupter);
    if interrupter.is_retired || interrupter.is_at_work() {
        return false;
    }
    let server = Arc::clone(server);
    let work = move || {
        for job in &jobs {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&*server, job))) {
                server.shared().handler.last_words(&panics::told(&*panic));
            }
        }
    };
    interrupter.thread = Builder::new().name("poorhttp-late".to_owned()).stack_size(STACK).spawn(work).ok();
    interrupter.since = Some(Instant::now());
    interrupter.thread.is_some()
}

fn work<S: Watched>(server: &S, job: &Job) {
    let shared = server.shared();
    let request = |slot: usize| shared.row.shown(slot).unwrap_or_default();
    let is_still = |late: &Late| server.last_beat(late.slot) == Some(late.beat);
    let is_in = |slot, began| server.pulse(slot).is_some_and(|it| it.last().is_some() && it.began() == began);
    match job {
        Job::Interrupt(late) => {
            shared.handler.interrupt(late.slot, &request(late.slot), Some(late.age), &|| is_still(late));
        }
        Job::GiveUp(late) => {
            let began = server.pulse(late.slot).map(Pulse::began);
            let is_answered = shared.handler.give_up(late.slot, &request(late.slot), late.age, &|| is_still(late));
            if let Some(began) = began.filter(|_| is_answered) {
                shared.row.note_given_up(late.slot, began);
            }
        }
        Job::End(slot, began) => {
            shared.handler.interrupt(*slot, &request(*slot), None, &|| is_in(*slot, *began));
        }
        Job::Report(byte) => shared.handler.hear_report(*byte),
    }
}

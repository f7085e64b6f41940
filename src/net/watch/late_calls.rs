//! What happens to calls that take too long: one that is slow is logged while it lasts, one that is older than
//! `request_timeout` is interrupted, and one that does not return from that is answered in its place.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{Calls, Late};
use super::interrupter::{Interrupter, Job, begin, time_at_work};
use super::stopping::kill;
use super::watched::Watched;
use crate::net::clock;
use crate::net::handler::Handler;
use crate::net::report::access_log::escaped;
use crate::net::report::report_pipe::STUCK;
use crate::net::report::scoreboard::Shown;

/// How long the interpreter lets other threads wait at most, unless a call keeps it.
const HOG: Duration = Duration::from_secs(1);

/// The calls of a server.
pub struct LateCalls {
    /// How long each of them takes.
    pub calls: Calls,
    is_hog_told: bool,
}

impl LateCalls {
    /// Those of a server that has just begun.
    pub fn new<S: Watched>(server: &S) -> Self {
        let limits = &server.shared().limits;
        let calls = Calls::new(server.watchdog().threads, limits.slow_request, limits.request_timeout, clock::now());
        Self { calls, is_hog_told: false }
    }

    /// Note how old the calls are; `planned`: how long after the last look this was to happen.
    pub fn look<S: Watched>(&mut self, server: &S, planned: Duration) {
        let planned = u64::try_from(planned.as_millis()).unwrap_or(0);
        self.calls.look(clock::now(), planned, server.tasks().map(|thread| thread.pulse.last()));
    }

    /// Log the calls that are slow while they last, each request once.
    pub fn tell_slow<S: Watched>(&mut self, server: &S) {
        for Late { slot, beat, age } in self.calls.newly_slow() {
            let shared = server.shared();
            let shown = shared.row.shown(slot);
            // Asked after that was read, which is about this call then.
            let is_it = server.last_beat(slot) == Some(beat);
            let Some(Shown { client, line, id }) = shown.filter(|_| is_it && shared.row.tell(slot)) else { continue };
            let id = if id.is_empty() { String::new() } else { format!(" (request id {})", escaped(&id)) };
            let (seconds, tenths) = (age / 1000, age % 1000 / 100);
            let text =
                format!("slow request: {}{id} has been at work for {seconds}.{tenths} s and goes on", escaped(&line));
            shared.handler.warn(client, &text);
        }
    }

    /// Interrupt the calls that are late.
    pub fn interrupt<S: Watched>(&mut self, server: &Arc<S>) {
        let late = self.calls.late();
        if !late.is_empty() && begin(server, late.iter().copied().map(Job::Interrupt).collect()) {
            self.calls.interrupted(&late);
        }
    }

    /// Tell of calls that do not return, answer in their place, and end a process that has a successor and nothing else.
    pub fn give_up<S: Watched>(&mut self, server: &Arc<S>, interrupter: &mut Interrupter) {
        let (shared, process) = (server.shared(), &server.shared().process);
        let fresh = self.calls.newly_stuck();
        if !fresh.is_empty() {
            interrupter.add(fresh.into_iter().map(Job::GiveUp));
            interrupter.report(&**server, STUCK);
        }
        let calls = self.calls.stuck();
        let are_all_stuck = calls.len() == server.watchdog().threads;
        let waited = time_at_work(&**server);
        let is_hogged = !calls.is_empty() && waited.is_some_and(|waited| waited > HOG);
        if is_hogged && !self.is_hog_told {
            shared.handler.last_words(
                "a call keeps the interpreter for longer than request_timeout: nothing else runs in this process, \
                 which cannot tell where it is",
            );
        }
        self.is_hog_told = is_hogged;
        shared.row.note_stuck(is_hogged || are_all_stuck);
        let is_all_said = waited.is_none() && interrupter.is_done();
        let is_lost = is_hogged || (are_all_stuck && is_all_said);
        // Where no thread is left, a stop waits for one to return: there may be other requests that it could serve then.
        let gives_up = if is_lost { process.has_successor() } else { is_all_said };
        if gives_up && server.watchdog().give_up(calls) {
            process.waker.wake();
        }
        if process.has_successor() && is_lost {
            // No thread is left that could end this in order.
            if process.is_supervised() {
                server.excuse();
                kill(
                    shared,
                    "a call does not return, and another worker serves in the place of this one; it ends itself",
                );
            } else if !process.is_finished() {
                process.finish();
            }
        }
    }
}

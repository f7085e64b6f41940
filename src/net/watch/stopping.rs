//! What the watchdog does for a stop whose time is over, where the threads of the server do not come to it: interrupt
//! their calls, then kill the process.

use std::sync::Arc;

use rustix::process::{Signal, getpid, kill_process};

use super::interrupter::{Job, begin};
use super::watched::Watched;
use crate::net::clock;
use crate::net::handler::Handler;
use crate::net::shared::Shared;

/// How soon a signal is sent again that did not bring the main thread back, in ms; longer than [`crate::timing::REPEAT`].
const URGE: u64 = 400;

/// How far a stop is.
#[derive(Debug, Default)]
pub struct Stopping {
    is_late: bool,
    next_urging: Option<u64>,
}

impl Stopping {
    /// Bring the main thread back, then kill the process, where it is time for that. `is_first_stuck`: whether the call
    /// on the main thread is given up.
    pub fn look<S: Watched>(&mut self, server: &Arc<S>, is_first_stuck: impl FnOnce() -> bool) {
        let (shared, process) = (server.shared(), &server.shared().process);
        self.urge_first(&**server, is_first_stuck);
        if process.end_by().is_some_and(|time| clock::now() > time) {
            kill(shared, "the application does not return; the process ends itself");
        }
        // The event loop does that, unless its threads are in the application.
        process.end_drain(usize::MAX, || 0);
        if process.is_stop_late() && !self.is_late {
            process.finish();
            // The first thread is the main one: the interpreter's own alarm leaves the process where that does not return.
            let busy = server.tasks().enumerate().skip(1).filter(|(_, thread)| thread.is_inside());
            let late: Vec<Job> = busy.map(|(slot, thread)| Job::End(slot, thread.pulse.began())).collect();
            self.is_late = late.is_empty() || begin(server, late);
        }
    }

    /// The first thread is the main one. A signal brings it back from the application, by the interpreter's handler. A
    /// signal that came right before a system call, or that another thread took, waits for the end of that call: send it
    /// again. A first signal that asks to stop would count as a second one; where the call is given up, a signal that
    /// means little goes in its place.
    fn urge_first<S: Watched>(&mut self, server: &S, is_stuck: impl FnOnce() -> bool) {
        let process = &server.shared().process;
        let signal = process.stop_at_once();
        let signal = signal.or_else(|| (process.is_stopping() && is_stuck()).then_some(Signal::USR1));
        let Some(signal) = signal.filter(|_| server.last_beat(0).is_some()) else {
            self.next_urging = None;
            return;
        };
        let now = clock::now();
        if now >= *self.next_urging.get_or_insert(now + URGE) {
            let _ = kill_process(getpid(), signal);
            self.next_urging = Some(now + URGE);
        }
    }
}

/// Kill this process, for a reason that the error log is told.
pub fn kill<H: Handler>(shared: &Shared<H>, why: &str) {
    shared.handler.last_words(why);
    let _ = shared.access_log.flush(|| false);
    let _ = kill_process(getpid(), Signal::KILL);
}

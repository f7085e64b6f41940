//! What everything in one server has in common: the application, the settings, the logs, the counters, and how a stop
//! goes. Connections get a reference to it with each call, and keep none.

use std::sync::atomic::Ordering;

use crate::limits::Limits;
use crate::net::handler::Handler;
use crate::net::heap::Freed;
use crate::net::lifecycle::process::Process;
use crate::net::proxies::policy::ProxyPolicy;
use crate::net::report::access_log::AccessLog;
use crate::net::report::report_pipe::SPENT;
use crate::net::report::scoreboard::Row;

/// What everything in one server has in common.
pub struct Shared<H: Handler> {
    /// The application.
    pub handler: H,
    /// The settings.
    pub limits: Limits,
    /// Which peers are believed.
    pub proxies: ProxyPolicy,
    /// The access log.
    pub access_log: AccessLog,
    /// What happened since the start, where everybody can see it.
    pub row: Row,
    /// How much memory was freed, which the watchdog may give back.
    pub freed: Freed,
    /// The requests to this process to stop or make way, and the means to wake its threads.
    pub process: Process,
}

impl<H: Handler> Shared<H> {
    /// A request was answered.
    pub fn count_request(&self, status: u16) {
        self.row.counts.note_status(status);
        let before = self.row.counts.requests.fetch_add(1, Ordering::Relaxed);
        if before + 1 == self.limits.max_requests {
            self.process.report_pipe.tell(SPENT);
        }
    }

    /// So many bytes of a request or an answer are no longer held.
    pub fn note_freed(&self, bytes: usize) {
        if self.freed.note(bytes) {
            self.process.watchdog.rouse();
        }
    }

    /// Whether a connection may have another request.
    pub fn keeps_alive(&self) -> bool {
        self.limits.keepalive_timeout > 0 && !self.process.is_leaving()
    }

    /// Write the lines of the access log. Call it detached. Where no program reads the log, this waits, and sees
    /// to it that a stop is heard of, which ends the wait.
    pub fn flush_log(&self) {
        let lost = self.access_log.flush(|| {
            self.process.read_controls();
            !self.process.is_stopping() && !self.process.is_finished()
        });
        if let Some(lost) = lost {
            self.handler.warn(None, &lost);
        }
    }
}

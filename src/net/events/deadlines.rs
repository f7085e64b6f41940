//! Deadlines: how long the loop may sleep, and which connections have waited too long. Time in which the process itself was
//! stopped does not count against a client.

use std::time::Duration;

use super::acceptor::Accepting;
use super::event_loop::{Event, EventLoop};
use crate::net::clock;
use crate::net::handler::Handler;
use crate::net::shared::Shared;
use crate::timing::STANDSTILL;

/// Least time between two looks at all deadlines, in ms.
const SWEEP_INTERVAL: u64 = 100;
/// How long no deadline is looked at after a standstill, in ms.
const PUT_OFF: u64 = 5 * SWEEP_INTERVAL;

impl<H: Handler> EventLoop<H> {
    /// How long the loop may sleep; none: without limit.
    pub(super) fn timeout(&self, drain_until: Option<u64>) -> Option<Duration> {
        let now = clock::now();
        let retry = match self.acceptor.state {
            Accepting::RetryAt(time) => Some(time),
            Accepting::PausedUntil(time) => return Some(Duration::from_millis(time.saturating_sub(now) + 1)),
            _ => None,
        };
        let next = [self.table.earliest_deadline(), retry, self.stop_at, drain_until].into_iter().flatten().min()?;
        // A tick of the coarse clock more, so that it has passed the deadline when the poller returns.
        Some(Duration::from_millis(next.max(self.next_sweep).saturating_sub(now) + 5))
    }

    /// Whether this process was stopped just now. The bytes that clients sent meanwhile are read before one of them is late.
    pub fn stood_still(&mut self) -> bool {
        let now = clock::now();
        let before = std::mem::replace(&mut self.last_look, now);
        if now > before + STANDSTILL && !self.is_put_off {
            self.next_sweep = now + PUT_OFF;
            self.is_put_off = true;
        }
        self.is_put_off
    }

    /// Queue the connections that are late, and resume accepting where its time has come. Looks at all connections at most
    /// once a tick.
    pub(super) fn sweep(&mut self, shared: &Shared<H>) {
        self.stood_still();
        let now = clock::now();
        if matches!(self.acceptor.state, Accepting::PausedUntil(time) if time <= now) {
            self.acceptor.resume(&self.poller);
        }
        if now < self.next_sweep {
            return;
        }
        self.is_put_off = false;
        self.next_sweep = now + SWEEP_INTERVAL;
        if matches!(self.acceptor.state, Accepting::RetryAt(time) if time <= now) {
            self.acceptor.retry(&self.poller, shared);
        }
        if self.table.earliest_deadline().is_some_and(|deadline| deadline <= now) {
            self.queued.extend(self.table.late(now).into_iter().map(Event::Late));
        }
        if self.stop_at.is_some_and(|time| time <= now) {
            shared.process.finish();
        }
    }
}

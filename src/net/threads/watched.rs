//! What the watchdog sees of a server, and may have it do.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::server::{SIGNAL_SLOT, Server};
use crate::net::handler::Handler;
use crate::net::shared::Shared;
use crate::net::watch::cpu;
use crate::net::watch::watched::{Watchdog, Watched};

/// For how long the watchdog asks the health thread for the baton, where every other thread is lost: one that waits for
/// the interpreter never lays it down.
const LAST_WISH: Duration = Duration::from_millis(500);

impl<H: Handler> Watched for Server<H> {
    type Handler = H;

    fn shared(&self) -> &Shared<H> {
        &self.shared
    }

    fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    fn tasks(&self) -> impl Iterator<Item = &cpu::Thread> + Clone {
        self.team.threads()
    }

    fn has_followers(&self) -> bool {
        self.team.has_followers()
    }

    fn is_awake(&self) -> bool {
        self.team.is_awake()
    }

    fn wake_one(&self) -> bool {
        self.team.wake_one()
    }

    fn calls_if_free(&self) -> Option<u64> {
        self.baton.calls_if_free()
    }

    fn is_awaited(&self) -> bool {
        poll(&mut [PollFd::new(&self.events, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    fn leave_clients(&self) {
        if !self.shared.process.leaves_clients() || self.shared.process.is_closed() {
            return;
        }
        if let Some(mut event_loop) = self.baton.take() {
            event_loop.leave_detached(&self.shared);
            self.lay_down(event_loop);
            self.team.wake_one();
            self.team.summon(SIGNAL_SLOT); // it may have come just now, and found the baton taken
        }
    }

    fn excuse(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
        let end = Instant::now() + LAST_WISH;
        while Instant::now() < end {
            if let Some(mut event_loop) = self.baton.take() {
                return event_loop.answer_unserved(&self.shared);
            }
            self.shared.process.waker.wake();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

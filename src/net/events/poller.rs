//! epoll, level-triggered: the kernel reports readiness until it is used up, so no event can be lost. Knows descriptors and
//! tokens, not what they stand for.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io;

use crate::net::connections::transport::Interest;

/// Most events in one batch.
pub const BATCH: usize = 128;

const fn flags(interest: Interest) -> EventFlags {
    match interest {
        Interest::Read => EventFlags::IN,
        Interest::Write => EventFlags::OUT,
    }
}

/// An epoll instance, and the events of its last batch that are still to be handled.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    /// The tokens of the events (the kernel's own event type may not pass between threads): handled ones, those of this batch,
    /// and later ones.
    tokens: Vec<u64>,
    /// Index of the next token to handle.
    next: usize,
    /// Number of tokens of this batch that are still to be handled.
    left: usize,
    /// A signal interrupted the last wait.
    pub interrupted: bool,
}

impl Poller {
    /// A new instance.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            tokens: Vec::with_capacity(BATCH),
            next: 0,
            left: 0,
            interrupted: false,
        })
    }

    /// A duplicate of its descriptor.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(&self.epoll, 0)
    }

    /// Watch `source`; its events carry `token`.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        epoll::add(&self.epoll, source, EventData::new_u64(token), flags(interest))
    }

    /// Watch a listener: of all processes that watch it so, the kernel wakes only one for each client.
    pub fn add_exclusive(&self, listener: impl AsFd, token: u64) -> io::Result<()> {
        let exclusive = EventFlags::IN.union(EventFlags::EXCLUSIVE);
        match epoll::add(&self.epoll, &listener, EventData::new_u64(token), exclusive) {
            // Linux before 4.5 has no EPOLLEXCLUSIVE: there each client wakes all processes.
            Err(io::Errno::INVAL) => self.add(listener, token, Interest::Read),
            other => other,
        }
    }

    /// Watch `source` for something else.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        epoll::modify(&self.epoll, source, EventData::new_u64(token), flags(interest))
    }

    /// Stop watching `source`.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        epoll::delete(&self.epoll, source)
    }

    /// The token of the next event of the batch.
    pub fn next_token(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let token = self.tokens.get(self.next)?;
        self.next += 1;
        Some(*token)
    }

    /// Add an event of `token` at the end of the batch.
    pub fn put_last(&mut self, token: u64) {
        self.tokens.insert(self.next + self.left, token);
        self.left += 1;
    }

    /// The events whose token has the upper 48 bits of `token`, by their lower 16 bits.
    pub fn events_of(&self, token: u64) -> impl Iterator<Item = usize> {
        let ours = self.tokens.iter().filter(move |&it| it & !0xffff == token);
        ours.map(|it| usize::try_from(it & 0xffff).unwrap_or(0))
    }

    /// Move the events whose token has the upper 48 bits of `token` to the beginning. Returns whether there are any.
    pub fn put_first(&mut self, token: u64) -> bool {
        self.forget_handled();
        let is_any = self.events_of(token).next().is_some();
        if is_any {
            self.tokens.sort_by_key(|it| it & !0xffff != token);
        }
        is_any
    }

    /// Whether events are still to be handled, in this batch or after it.
    pub fn has_more(&self) -> bool {
        self.next < self.tokens.len()
    }

    /// Get a new batch: the events that [`Poller::add_new`] put behind the last one, and those that came since. If there
    /// are none, wait for at most `timeout` (none: without limit). An interrupted wait gives an empty batch.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.forget_handled();
        if self.tokens.is_empty() {
            self.take(timeout)?;
        } else {
            self.add_new()?;
        }
        self.left = self.tokens.len();
        Ok(self.left)
    }

    /// Ask the kernel for new events and put them behind this batch; inside it they could make it endless. Events that are
    /// not handled yet, and which the kernel reports again, are left out.
    pub fn add_new(&mut self) -> io::Result<()> {
        self.forget_handled();
        let waiting = self.tokens.len();
        if waiting < BATCH {
            self.take(Some(Duration::ZERO))?;
            let (before, reported) = self.tokens.split_at(waiting);
            let new: Vec<u64> = reported.iter().filter(|token| !before.contains(token)).copied().collect();
            self.tokens.truncate(waiting);
            self.tokens.extend(new);
        }
        Ok(())
    }

    fn forget_handled(&mut self) {
        self.tokens.drain(..self.next);
        self.next = 0;
    }

    /// Append the events that the kernel reports.
    fn take(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.interrupted = false;
        let timeout = timeout.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut events = [const { MaybeUninit::<Event>::uninit() }; BATCH];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => {
                let token = |event: &mut Event| {
                    let data = event.data;
                    data.u64()
                };
                self.tokens.extend(events.iter_mut().map(token));
                Ok(())
            }
            Err(io::Errno::INTR) => {
                self.interrupted = true;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_events_stand_behind_waiting_ones() {
        let mut poller = Poller::new().unwrap();
        let pipes: Vec<_> = (0..3).map(|_| rustix::pipe::pipe().unwrap()).collect();
        for ((reader, _), token) in pipes.iter().zip(0..) {
            poller.add(reader, token, Interest::Read).unwrap();
        }
        let send = |index: usize| rustix::io::write(&pipes[index].1, b"x").unwrap();
        let receive = |index: usize| rustix::io::read(&pipes[index].0, &mut [0; 1]).unwrap();
        send(0);
        send(1);
        assert_eq!((poller.wait(None), poller.next_token()), (Ok(2), Some(0)));
        receive(0);
        // The event of the second pipe still waits, and is not added twice.
        for index in [2, 0] {
            send(index);
            poller.add_new().unwrap();
        }
        assert_eq!([(); 2].map(|()| poller.next_token()), [Some(1), None], "the batch of two ends");
        assert_eq!((poller.has_more(), poller.wait(None)), (true, Ok(3)), "the second one is still to be handled");
        assert_eq!([(); 4].map(|()| poller.next_token()), [Some(2), Some(0), Some(1), None]);
        assert!(!poller.has_more());
    }

    #[test]
    fn without_exclusive_watching_all_processes_are_woken() {
        // The kernel refuses EPOLLEXCLUSIVE for an epoll instance, as old kernels do for every descriptor.
        let (inner, mut outer) = (Poller::new().unwrap(), Poller::new().unwrap());
        outer.add_exclusive(&inner.epoll, 7).unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        inner.add(&reader, 1, Interest::Read).unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!((outer.wait(None), outer.next_token()), (Ok(1), Some(7)));
    }
}

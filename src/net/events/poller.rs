//! epoll, level-triggered: readiness that was not used up is told again, so nothing can be forgotten.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io;

/// Events in one batch, at most.
pub const BATCH: usize = 128;

/// What a descriptor is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes to read, or the end of them.
    Read,
    /// Room to write.
    Write,
    /// A connection to accept; of the processes that watch the same listener, one is woken.
    Accept,
}

impl Interest {
    const fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN,
            Self::Write => EventFlags::OUT,
            Self::Accept => EventFlags::IN.union(EventFlags::EXCLUSIVE),
        }
    }
}

/// An epoll instance and the events of its last batch that are not handled yet.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    /// The tokens of the batch; the kernel's own event type may not pass between threads.
    tokens: Vec<u64>,
    next: usize,
    /// Events of the batch that are still to be told.
    left: usize,
    /// The last wait was interrupted by a signal.
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
        let add = |interest: Interest| epoll::add(&self.epoll, &source, EventData::new_u64(token), interest.flags());
        match add(interest) {
            // Linux before 4.5 has no EPOLLEXCLUSIVE: all processes are woken then.
            Err(io::Errno::INVAL) if interest == Interest::Accept => add(Interest::Read),
            other => other,
        }
    }

    /// Watch `source` for something else.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        epoll::modify(&self.epoll, source, EventData::new_u64(token), interest.flags())
    }

    /// Watch `source` no more.
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

    /// Let an event of this token be the last one of the batch.
    pub fn put_last(&mut self, token: u64) {
        self.tokens.insert(self.next + self.left, token);
        self.left += 1;
    }

    /// The events of this token in the batch, by their lowest 16 bits.
    pub fn told(&self, token: u64) -> impl Iterator<Item = usize> {
        let ours = self.tokens.iter().filter(move |&told| told & !0xffff == token);
        ours.map(|told| usize::try_from(told & 0xffff).unwrap_or(0))
    }

    /// Let the events of this token be the next ones of the batch. Returns whether there is any.
    pub fn put_first(&mut self, token: u64) -> bool {
        self.forget_handled();
        let is_any = self.told(token).next().is_some();
        if is_any {
            self.tokens.sort_by_key(|told| told & !0xffff != token);
        }
        is_any
    }

    /// Whether events wait that were not handled yet, in this batch or behind it.
    pub fn has_more(&self) -> bool {
        self.next < self.tokens.len()
    }

    /// Get a new batch: what [`Poller::add_new`] has put behind the last one, and what came since. Where there is none,
    /// wait for it, at most `timeout`, or for ever. An interrupted wait is an empty batch.
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

    /// Put what came meanwhile behind the events that are not handled yet; not into this batch, which would never end. The
    /// kernel tells of those that are not handled again: these are left out.
    pub fn add_new(&mut self) -> io::Result<()> {
        self.forget_handled();
        let waiting = self.tokens.len();
        if waiting < BATCH {
            self.take(Some(Duration::ZERO))?;
            let (before, told) = self.tokens.split_at(waiting);
            let new: Vec<u64> = told.iter().filter(|token| !before.contains(token)).copied().collect();
            self.tokens.truncate(waiting);
            self.tokens.extend(new);
        }
        Ok(())
    }

    fn forget_handled(&mut self) {
        self.tokens.drain(..self.next);
        self.next = 0;
    }

    /// Add to the tokens what the kernel tells.
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
    fn what_came_meanwhile_stands_behind_what_waited() {
        let mut poller = Poller::new().unwrap();
        let pipes: Vec<_> = (0..3).map(|_| rustix::pipe::pipe().unwrap()).collect();
        for ((reader, _), token) in pipes.iter().zip(0..) {
            poller.add(reader, token, Interest::Read).unwrap();
        }
        let tell = |index: usize| rustix::io::write(&pipes[index].1, b"x").unwrap();
        let hear = |index: usize| rustix::io::read(&pipes[index].0, &mut [0; 1]).unwrap();
        tell(0);
        tell(1);
        assert_eq!((poller.wait(None), poller.next_token()), (Ok(2), Some(0)));
        hear(0);
        // The second one, which waits, is not told twice.
        for index in [2, 0] {
            tell(index);
            poller.add_new().unwrap();
        }
        assert_eq!([(); 2].map(|()| poller.next_token()), [Some(1), None], "the batch of two ends");
        assert_eq!((poller.has_more(), poller.wait(None)), (true, Ok(3)), "the one that was told is still to be read");
        assert_eq!([(); 4].map(|()| poller.next_token()), [Some(2), Some(0), Some(1), None]);
        assert!(!poller.has_more());
    }

    #[test]
    fn what_cannot_be_watched_for_one_process_is_watched_for_all() {
        // An epoll instance is refused with EPOLLEXCLUSIVE, as everything is by old kernels.
        let (inner, mut outer) = (Poller::new().unwrap(), Poller::new().unwrap());
        outer.add(&inner.epoll, 7, Interest::Accept).unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        inner.add(&reader, 1, Interest::Read).unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!((outer.wait(None), outer.next_token()), (Ok(1), Some(7)));
    }
}

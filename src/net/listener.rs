//! A listening socket: accept, and tell why not.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::transport::Transport;

/// Connections accepted in one turn, so that those which are open get theirs.
pub const MOST_ACCEPTS: usize = 32;
/// After how many that came alone it is looked whether another one waits.
const LOOK_AGAIN: u32 = 8;

/// A bound, listening, non-blocking socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// Its address; none for a unix socket.
    pub address: Option<SocketAddr>,
}

/// What accepting gave.
#[derive(Debug)]
pub enum Accepted {
    /// A connection, and its peer (none on a unix socket).
    Connection(Transport, Option<SocketAddr>),
    /// No connection waits.
    Nothing,
    /// No descriptor, or no memory, is left.
    Exhausted,
}

impl Listener {
    /// Duplicate a listening socket that somebody else owns.
    pub fn adopt(descriptor: RawFd) -> std::io::Result<Self> {
        let socket = duplicate(descriptor)?;
        let address = rustix::net::getsockname(&socket)?.try_into().ok();
        Ok(Self { socket, address })
    }

    /// Take the next connection that waits.
    pub fn accept(&self) -> Accepted {
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            return match rustix::net::acceptfrom_with(&self.socket, flags) {
                Ok((socket, peer)) => {
                    Accepted::Connection(Transport::new(socket), peer.and_then(|peer| peer.try_into().ok()))
                }
                Err(Errno::AGAIN) => Accepted::Nothing,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Accepted::Exhausted,
                // This connection failed before it was taken, or the call was interrupted: there may be others.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => continue,
                Err(_) => Accepted::Nothing,
            };
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A duplicate, which is ours, of a descriptor that is the caller's.
pub fn duplicate(descriptor: RawFd) -> std::io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(std::io::Error::other(format!("{descriptor} is not a descriptor")));
    }
    // SAFETY: the number is only handed to fcntl, which answers EBADF where it is not open. Descriptors come from
    // Python as numbers; there is no way to receive them without one such line.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    borrowed.try_clone_to_owned()
}

/// How connections come. Behind one that wakes the loop alone there is hardly another, and to ask costs up to a tenth of what
/// an answer on a connection of its own does; but of many that come at once none is to wait for a turn of each.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// How often there was one alone, as far as was asked.
    alone: u32,
    /// How many are asked for beyond.
    more: usize,
}

impl Arrivals {
    /// How many to accept after an event that came alone.
    pub fn most(&self) -> usize {
        if self.alone < LOOK_AGAIN { 1 } else { (1 + self.more).min(MOST_ACCEPTS) }
    }

    /// Whether there were so many.
    pub fn note(&mut self, were_there: bool) {
        if self.alone < LOOK_AGAIN {
            (self.alone, self.more) = (self.alone + 1, 1);
        } else if were_there {
            self.more = (2 * self.more).min(MOST_ACCEPTS);
        } else {
            self.alone = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_come_alone_are_taken_alone_and_a_crowd_as_one() {
        let mut arrivals = Arrivals::default();
        // Asked for one more now and then, in vain.
        let asked: usize = (0..900)
            .map(|_| {
                let most = arrivals.most();
                arrivals.note(most == 1);
                most
            })
            .sum();
        assert_eq!(asked, 1000);
        let turns: Vec<_> = (0..16)
            .map(|_| {
                let most = arrivals.most();
                arrivals.note(true);
                most
            })
            .collect();
        assert_eq!(turns, [1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 5, 9, 17, 32, 32, 32]);
        arrivals.note(false);
        assert_eq!(arrivals.most(), 1);
    }
}

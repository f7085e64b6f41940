//! A listening socket: accept, and tell why not.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::transport::Transport;

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

//! One stream socket, never blocking: read, write, send a file, shut down.

use std::ffi::c_int;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

const SIOCOUTQ: Opcode = 0x5411;
const SIOCOUTQNSD: Opcode = 0x894B;
/// Bytes that are looked at before they are read.
const PEEK: usize = 256;
/// Bytes of a file that are read at once where the kernel does not send it.
const PIECE: usize = 64 * 1024;

/// A connected socket. Clones are the same socket.
#[derive(Clone, Debug)]
pub struct Transport(Arc<Socket>);

#[derive(Debug)]
struct Socket {
    descriptor: OwnedFd,
    /// See [`Transport::hold_end`].
    is_held: AtomicBool,
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The peer sends no more, or is gone.
    End,
}

/// What a write took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now: the socket is full.
    Nothing,
    /// The peer is gone.
    Broken,
}

impl Transport {
    /// Take over a non-blocking socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self(Arc::new(Socket { descriptor: socket, is_held: AtomicBool::new(false) }))
    }

    /// Its descriptor, if there is no clone.
    pub fn into_descriptor(self) -> Option<OwnedFd> {
        Arc::into_inner(self.0).map(|socket| socket.descriptor)
    }

    /// Read into the spare capacity of `buffer`, which must have some.
    pub fn receive(&self, buffer: &mut Vec<u8>) -> Received {
        received(|| rustix::net::recv(self, spare_capacity(buffer), RecvFlags::empty()).map(|(count, _)| count))
    }

    /// Throw away what has come, at most as much as `room` holds. TCP copies nothing for that, which takes two thirds of
    /// the time; a unix socket leaves it in `room`.
    pub fn discard(&self, room: &mut [u8]) -> Received {
        received(|| rustix::net::recv(self, &mut *room, RecvFlags::TRUNC).map(|(count, _)| count))
    }

    /// What has come, without reading it: as much as tells whose it is; nothing where the peer is gone, too.
    pub fn peek(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PEEK);
        // Where it fails, so does reading it.
        let _ = rustix::net::recv(self, spare_capacity(&mut bytes), RecvFlags::PEEK);
        bytes
    }

    /// Whether the peer sends no more, and nothing that came is left to be read.
    pub fn has_ended(&self) -> bool {
        matches!(rustix::net::recv(self, &mut [0], RecvFlags::PEEK), Ok((0, _)))
    }

    /// Write what goes now.
    pub fn send(&self, bytes: &[u8]) -> Sent {
        sent(|| rustix::net::send(self, bytes, SendFlags::NOSIGNAL))
    }

    /// The same, when more follows at once.
    pub fn send_more(&self, bytes: &[u8]) -> Sent {
        sent(|| rustix::net::send(self, bytes, SendFlags::NOSIGNAL | SendFlags::MORE))
    }

    /// Write two pieces as one.
    pub fn send_both(&self, first: &[u8], second: &[u8]) -> Sent {
        sent(|| rustix::io::writev(self, &[IoSlice::new(first), IoSlice::new(second)]))
    }

    /// Send at most `count` bytes of `file` from `offset` on, which is moved.
    pub fn send_file(&self, file: &File, offset: &mut u64, count: usize) -> Sent {
        match sent(|| rustix::fs::sendfile(self, file, Some(offset), count)) {
            // The kernel, a sandbox or the file system may have no sendfile; a client that is gone is so for `send` too.
            Sent::Broken => self.send_read(file, offset, count),
            other => other,
        }
    }

    /// The same, read here.
    fn send_read(&self, file: &File, offset: &mut u64, count: usize) -> Sent {
        let mut bytes = vec![0; count.min(PIECE)];
        let Ok(read) = file.read_at(&mut bytes, *offset) else { return Sent::Broken };
        let sent = self.send(bytes.get(..read).unwrap_or_default());
        if let Sent::Bytes(count) = sent {
            *offset += count as u64;
        }
        sent
    }

    /// Bytes that were written and that the peer has not taken yet.
    pub fn unacknowledged(&self) -> u32 {
        self.count::<SIOCOUTQ>().unwrap_or(u32::MAX)
    }

    /// Whether something that was written waits for the peer to have room. On a unix socket nothing does.
    pub fn has_unsent(&self) -> bool {
        self.count::<SIOCOUTQNSD>().is_some_and(|count| count > 0)
    }

    fn count<const QUEUE: Opcode>(&self) -> Option<u32> {
        // SAFETY: SIOCOUTQ (in asm-generic/ioctls.h as TIOCOUTQ) and SIOCOUTQNSD (in linux/sockios.h) write one int, and
        // fail where they are not known.
        let count = unsafe { ioctl(self, Getter::<QUEUE, c_int>::new()) };
        count.ok().and_then(|count| u32::try_from(count).ok())
    }

    /// Only [`Transport::finish`] is to look like an end: by whatever else the connection ends, even the death of this
    /// process, is to be a reset. A unix socket knows none.
    pub fn hold_end(&self) {
        self.0.is_held.store(true, Ordering::Relaxed);
        let _ = set_socket_linger(self, Some(Duration::ZERO));
    }

    /// Whether the connection ends by a reset.
    pub fn is_held(&self) -> bool {
        self.0.is_held.load(Ordering::Relaxed)
    }

    /// Say that nothing more will be sent.
    pub fn finish(&self) {
        if self.0.is_held.swap(false, Ordering::Relaxed) {
            let _ = set_socket_linger(self, None);
        }
        // A peer that is gone needs not be told.
        let _ = rustix::net::shutdown(self, Shutdown::Write);
    }

    /// End the connection now, although others may hold the same socket open.
    pub fn end(&self) {
        if self.is_held() { self.reset() } else { self.finish() }
    }

    /// Reset the connection, so that nobody takes what was sent for all of it. A unix socket knows no reset: the peer
    /// sees an end there.
    pub fn reset(&self) {
        // On Linux a TCP socket that is told to connect to nobody sends it, even where another thread holds the socket.
        if rustix::net::connect_unspec(self).is_err() {
            self.finish();
        }
    }
}

fn received(mut read: impl FnMut() -> Result<usize, Errno>) -> Received {
    loop {
        return match read() {
            Ok(0) => Received::End,
            Ok(count) => Received::Bytes(count),
            Err(Errno::AGAIN) => Received::Nothing,
            Err(Errno::INTR) => continue,
            Err(_) => Received::End,
        };
    }
}

fn sent(mut write: impl FnMut() -> Result<usize, Errno>) -> Sent {
    loop {
        return match write() {
            Ok(count) => Sent::Bytes(count),
            Err(Errno::AGAIN) => Sent::Nothing,
            Err(Errno::INTR) => continue,
            Err(_) => Sent::Broken,
        };
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }
}

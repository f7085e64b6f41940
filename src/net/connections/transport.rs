//! One stream socket, never blocking: read, write, send a file, shut down. Knows no HTTP and no connection state.

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
use rustix::net::sockopt::{set_socket_linger, set_tcp_nodelay};
use rustix::net::{RecvFlags, SendFlags, Shutdown};

const SIOCOUTQ: Opcode = 0x5411;
const SIOCOUTQNSD: Opcode = 0x894B;
/// Most bytes that [`Transport::peek`] returns.
const PEEK: usize = 256;
/// Bytes of a file that are read at once where the kernel cannot send it.
const PIECE: usize = 64 * 1024;

/// The event that a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes to read, or the end of them.
    Read,
    /// Room to write.
    Write,
}

/// A connected socket. Clones are the same socket.
#[derive(Clone, Debug)]
pub struct Transport(Arc<Socket>);

#[derive(Debug)]
struct Socket {
    descriptor: OwnedFd,
    /// See [`Transport::reset_unless_finished`].
    ends_by_reset: AtomicBool,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The peer sends no more, or is disconnected.
    End,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many bytes.
    Bytes(usize),
    /// Nothing: the socket's buffer is full.
    Nothing,
    /// The peer is disconnected.
    Broken,
}

impl Transport {
    /// Take over a non-blocking socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self(Arc::new(Socket { descriptor: socket, ends_by_reset: AtomicBool::new(false) }))
    }

    /// The descriptor, if this is the only clone.
    pub fn into_descriptor(self) -> Option<OwnedFd> {
        Arc::into_inner(self.0).map(|socket| socket.descriptor)
    }

    /// Whether there is another clone.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Read into the spare capacity of `buffer`, which must have some.
    pub fn receive(&self, buffer: &mut Vec<u8>) -> Received {
        received(|| rustix::net::recv(self, spare_capacity(buffer), RecvFlags::empty()).map(|(count, _)| count))
    }

    /// Discard received bytes, at most as many as fit into `room`. TCP does it without copying, in two thirds of the time; a
    /// unix socket copies them into `room`.
    pub fn discard(&self, room: &mut [u8]) -> Received {
        received(|| rustix::net::recv(self, &mut *room, RecvFlags::TRUNC).map(|(count, _)| count))
    }

    /// The first received bytes, which stay unread: as many as show what a request asks for. Empty where the peer is
    /// disconnected, too.
    pub fn peek(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PEEK);
        // If this fails, the read that follows fails too.
        let _ = rustix::net::recv(self, spare_capacity(&mut bytes), RecvFlags::PEEK);
        bytes
    }

    /// Whether the peer sends no more and everything that it sent was read.
    pub fn has_ended(&self) -> bool {
        matches!(rustix::net::recv(self, &mut [0], RecvFlags::PEEK), Ok((0, _)))
    }

    /// Write as much as the socket takes.
    pub fn send(&self, bytes: &[u8]) -> Sent {
        sent(|| rustix::net::send(self, bytes, SendFlags::NOSIGNAL))
    }

    /// Write as much as the socket takes, when more follows at once, or [`Transport::push`]: the kernel keeps what fills no
    /// packet, for 200 ms at most. A unix socket keeps nothing.
    pub fn send_more(&self, bytes: &[u8]) -> Sent {
        sent(|| rustix::net::send(self, bytes, SendFlags::NOSIGNAL | SendFlags::MORE))
    }

    /// Send what the kernel keeps.
    pub fn push(&self) {
        // To set it sends what waits, even if it is set already (tcp(7)). A unix socket does not have it.
        let _ = set_tcp_nodelay(self, true);
    }

    /// Write two pieces in one system call.
    pub fn send_both(&self, first: &[u8], second: &[u8]) -> Sent {
        sent(|| rustix::io::writev(self, &[IoSlice::new(first), IoSlice::new(second)]))
    }

    /// Send at most `count` bytes of `file` from `offset` on, and advance `offset`.
    pub fn send_file(&self, file: &File, offset: &mut u64, count: usize) -> Sent {
        match sent(|| rustix::fs::sendfile(self, file, Some(offset), count)) {
            // The kernel, a sandbox or the file system may lack sendfile; if the client is disconnected, `send` fails too.
            Sent::Broken => self.read_and_send(file, offset, count),
            other => other,
        }
    }

    fn read_and_send(&self, file: &File, offset: &mut u64, count: usize) -> Sent {
        let mut bytes = vec![0; count.min(PIECE)];
        let Ok(read) = file.read_at(&mut bytes, *offset) else { return Sent::Broken };
        let sent = self.send(bytes.get(..read).unwrap_or_default());
        if let Sent::Bytes(count) = sent {
            *offset += count as u64;
        }
        sent
    }

    /// Bytes that were written and not yet acknowledged by the peer.
    pub fn unacknowledged(&self) -> u32 {
        self.count::<SIOCOUTQ>().unwrap_or(u32::MAX)
    }

    /// Whether written bytes wait until the peer has room for them. Never on a unix socket.
    pub fn has_unsent(&self) -> bool {
        self.count::<SIOCOUTQNSD>().is_some_and(|count| count > 0)
    }

    fn count<const QUEUE: Opcode>(&self) -> Option<u32> {
        // SAFETY: SIOCOUTQ (TIOCOUTQ in asm-generic/ioctls.h) and SIOCOUTQNSD (in linux/sockios.h) write one int, and
        // fail where the kernel does not know them.
        let count = unsafe { ioctl(self, Getter::<QUEUE, c_int>::new()) };
        count.ok().and_then(|count| u32::try_from(count).ok())
    }

    /// From now on every end of the connection but [`Transport::finish`] is a reset, even the death of this process. (A unix
    /// socket has no reset.)
    pub fn reset_unless_finished(&self) {
        self.0.ends_by_reset.store(true, Ordering::Relaxed);
        let _ = set_socket_linger(self, Some(Duration::ZERO));
    }

    /// Whether the connection will end by a reset.
    pub fn ends_by_reset(&self) -> bool {
        self.0.ends_by_reset.load(Ordering::Relaxed)
    }

    /// Tell the peer that nothing more will be sent.
    pub fn finish(&self) {
        if self.0.ends_by_reset.swap(false, Ordering::Relaxed) {
            let _ = set_socket_linger(self, None);
        }
        // It fails if the peer is disconnected, which needs no message then.
        let _ = rustix::net::shutdown(self, Shutdown::Write);
    }

    /// End the connection now, even if other processes hold the same socket open.
    pub fn end(&self) {
        if self.ends_by_reset() { self.reset() } else { self.finish() }
    }

    /// Reset the connection, so that the client does not take an incomplete answer for a complete one. On a unix socket the
    /// client sees an orderly end instead.
    pub fn reset(&self) {
        // On Linux this sends the reset at once, even if another thread or process holds the socket.
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

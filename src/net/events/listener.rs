//! A listening socket: accepts clients, says why it cannot, and is shut at the end of a server. Does not know when to do so.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::{sock_filter, sock_fprog};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{Shutdown, SocketAddrAny, SocketFlags};

use crate::net::connections::transport::Transport;

/// Time after [`Listener::shut`] in which clients in the middle of their TCP handshake are still accepted: on one machine a
/// handshake takes some 20 us. A longer time would harm: clients that connect meanwhile have to try again a second later.
pub const HANDSHAKE: Duration = Duration::from_micros(50);
/// Errors that keep this process from accepting anybody; all others concern one connection, or the end of the socket.
const HINDRANCES: [Errno; 7] =
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::NOSYS, Errno::PERM, Errno::ACCESS];
/// Descriptors that a process needs for its start.
const RESERVE: usize = 32;

/// A bound, listening, non-blocking socket.
#[derive(Debug)]
pub struct Listener {
    /// Shared with the server, which closes it in a child that the application forks.
    pub socket: Arc<OwnedFd>,
    /// Its address; none for a unix socket.
    pub address: Option<SocketAddr>,
    /// Another process has shut the socket down: it would be readable for ever, and is not watched.
    pub is_closed: bool,
}

/// The result of accepting.
#[derive(Debug)]
pub enum Accepted {
    /// A connection, and the address of its peer (none on a unix socket).
    Connection(Transport, Option<SocketAddr>),
    /// No client waits.
    Nothing,
    /// No client is to be accepted now: see [`Listener::accept_unless`].
    Paused,
    /// No client can be accepted now: no descriptor or memory is left, or the system forbids it.
    Failed(Errno),
}

impl Listener {
    /// Duplicate a listening socket that the caller owns.
    pub fn adopt(descriptor: RawFd) -> std::io::Result<Self> {
        let socket = duplicate(descriptor)?;
        let address = rustix::net::getsockname(&socket)?.try_into().ok();
        Ok(Self { socket: Arc::new(socket), address, is_closed: false })
    }

    /// Accept the next client.
    pub fn accept(&self) -> Accepted {
        loop {
            return match self.accepted() {
                Ok((socket, peer)) => {
                    Accepted::Connection(Transport::new(socket), peer.and_then(|peer| peer.try_into().ok()))
                }
                Err(Errno::AGAIN) => Accepted::Nothing,
                // This client has gone already, or a signal interrupted the call: other clients may wait.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => continue,
                Err(error) if HINDRANCES.contains(&error) => Accepted::Failed(error),
                Err(_) => Accepted::Nothing,
            };
        }
    }

    fn accepted(&self) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match rustix::net::acceptfrom_with(&self.socket, flags) {
            // The kernel or a sandbox lacks accept4.
            Err(Errno::NOSYS | Errno::PERM) => {
                let (socket, peer) = rustix::net::acceptfrom(&self.socket)?;
                fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
                ioctl_fionbio(&socket, true)?;
                Ok((socket, peer))
            }
            other => other,
        }
    }

    /// Shut the socket for all processes that share it, and accept the clients that wait or finish their handshake within
    /// [`HANDSHAKE`], as far as descriptors last.
    pub fn take_waiting(&self) -> Vec<OwnedFd> {
        self.shut();
        let until = Instant::now() + HANDSHAKE;
        let mut taken = Vec::new();
        loop {
            match self.accept() {
                Accepted::Connection(transport, _) => taken.extend(transport.into_descriptor()),
                Accepted::Nothing if Instant::now() < until => {}
                Accepted::Nothing | Accepted::Paused => break,
                Accepted::Failed(_) => {
                    taken.truncate(taken.len().saturating_sub(RESERVE));
                    return taken; // other processes that share the socket can still accept the other clients
                }
            }
        }
        // As long as another process holds the socket, new clients would get no answer from it, nor from a new server.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        taken
    }

    /// Accept the next client, unless `is_paused`. A client that was there before `is_paused` is asked, and no later one, is
    /// accepted: so look for a client first, under a lock that keeps other processes from accepting it.
    pub fn accept_unless(&self, is_paused: impl FnOnce() -> bool) -> Accepted {
        // Systems that cannot lock sockets do without.
        if fcntl_lock(&self.socket, FlockOperation::NonBlockingLockExclusive) == Err(Errno::AGAIN) {
            return Accepted::Nothing;
        }
        let accepted = if !self.has_client() {
            Accepted::Nothing
        } else if is_paused() {
            Accepted::Paused
        } else {
            self.accept()
        };
        let _ = fcntl_lock(&self.socket, FlockOperation::Unlock);
        accepted
    }

    /// Whether a client waits.
    pub fn has_client(&self) -> bool {
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&Timespec::default())) != Ok(0)
    }

    /// Whether another process has shut the socket down; `accept` does not report that for a unix socket.
    pub fn is_hung_up(&self) -> bool {
        let mut socket = [PollFd::new(&self.socket, PollFlags::empty())];
        let _ = poll(&mut socket, Some(&Timespec::default()));
        socket.iter().any(|it| it.revents().contains(PollFlags::HUP))
    }

    /// Let no new client connect, in no process; clients in the queue can still be accepted. (If the socket were only closed,
    /// clients that came after the last `accept` would be reset.) A new client of a unix socket is refused. A new TCP client
    /// gets no answer and tries again a second later; by then the socket is closed and the client is refused. A TCP client in
    /// the middle of its handshake still gets into the queue.
    pub fn shut(&self) {
        if self.address.is_none() {
            // It cannot fail: it is a listening socket.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
            return;
        }
        let filter = [
            sock_filter { code: LOAD_BYTE, jt: 0, jf: 0, k: TCP_FLAGS },
            sock_filter { code: SKIP_IF_SET, jt: 1, jf: 0, k: SYN },
            sock_filter { code: TAKE_BYTES, jt: 0, jf: 0, k: u32::MAX },
            sock_filter { code: TAKE_BYTES, jt: 0, jf: 0, k: 0 },
        ];
        let program = sock_fprog { len: 4, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the kernel copies the program and its four steps, which live until it returns, and changes nothing.
        // Where a sandbox forbids it, clients that come at the last moment are reset.
        unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                libc::socklen_t::try_from(size_of::<sock_fprog>()).unwrap_or(0),
            );
        }
    }
}

/// Instructions of a packet filter (linux/bpf_common.h).
const LOAD_BYTE: u16 = 0x30;
const SKIP_IF_SET: u16 = 0x45;
const TAKE_BYTES: u16 = 0x06;
/// Offset of the flags in the TCP header (RFC 9293 3.1), which is where a packet begins for the filter of a socket.
const TCP_FLAGS: u32 = 13;
const SYN: u32 = 2;

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Duplicate a descriptor that the caller owns.
pub fn duplicate(descriptor: RawFd) -> std::io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(std::io::Error::other(format!("{descriptor} is not a descriptor")));
    }
    // SAFETY: the number is only passed to fcntl, which returns EBADF if it is not open. Python passes descriptors as
    // numbers, so one line like this is needed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    borrowed.try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::Duration;

    use super::*;

    #[test]
    fn after_a_shut_clients_in_the_queue_are_accepted_and_no_others() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let socket = TcpListener::bind(host).unwrap();
            socket.set_nonblocking(true).unwrap();
            let address = socket.local_addr().unwrap();
            let listener = Listener::adopt(socket.as_raw_fd()).unwrap();
            let early = TcpStream::connect(address).unwrap();
            listener.shut();
            let late = TcpStream::connect_timeout(&address, Duration::from_millis(200)).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::TimedOut);
            let Accepted::Connection(transport, _) = listener.accept() else { panic!("it was in the queue") };
            assert!(matches!(listener.accept(), Accepted::Nothing));
            // The connection inherits the filter, which lets everything but new connections pass.
            assert!(matches!(transport.send(b"answer"), crate::net::connections::transport::Sent::Bytes(6)));
            let mut answer = [0; 6];
            std::io::Read::read_exact(&mut &early, &mut answer).unwrap();
            assert_eq!(&answer, b"answer");
            // A client that tried in between tries again, and is refused.
            let asking = std::thread::spawn(move || TcpStream::connect(address).unwrap_err().kind());
            drop((listener, socket));
            assert_eq!(asking.join().unwrap(), ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn after_take_waiting_no_process_listens() {
        fn taken<C>(socket: &OwnedFd, connect: impl Fn() -> std::io::Result<C>) {
            rustix::io::ioctl_fionbio(socket, true).unwrap();
            let (ours, theirs) = [(); 2].map(|()| Listener::adopt(socket.as_raw_fd()).unwrap()).into();
            assert!(!ours.is_hung_up());
            let _waiting = connect().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(theirs.take_waiting().len(), 1);
            assert!(matches!(ours.accept(), Accepted::Nothing) && ours.is_hung_up());
            assert_eq!(connect().err().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
        }
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        taken(&tcp.into(), || TcpStream::connect(address));
        let path = std::env::temp_dir().join(format!("poorhttp-taken-{}", std::process::id()));
        let unix = UnixListener::bind(&path).unwrap();
        taken(&unix.into(), || UnixStream::connect(&path));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_shut_unix_socket_refuses_new_clients_and_keeps_its_queue() {
        let path = std::env::temp_dir().join(format!("poorhttp-shut-{}", std::process::id()));
        let socket = UnixListener::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let listener = Listener::adopt(socket.as_raw_fd()).unwrap();
        let _early = UnixStream::connect(&path).unwrap();
        listener.shut();
        let late = UnixStream::connect(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(late.kind(), ErrorKind::ConnectionRefused);
        assert!(matches!(listener.accept(), Accepted::Connection(..)));
    }
}

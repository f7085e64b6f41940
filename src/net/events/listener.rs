//! A listening socket: accept, and tell why not; let nobody in any more.

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

/// How long the last process that accepts takes in those whose handshake was half done when it let nobody in any more; on
/// one machine that is done some 20 us later. Longer would harm: who comes meanwhile has to ask again a second later.
pub const HANDSHAKE: Duration = Duration::from_micros(50);
/// Why nobody can be accepted; all else is over with a connection, or with the socket.
const HINDRANCES: [Errno; 7] =
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::NOSYS, Errno::PERM, Errno::ACCESS];
/// Descriptors that a process needs to begin.
const RESERVE: usize = 32;

/// A bound, listening, non-blocking socket.
#[derive(Debug)]
pub struct Listener {
    /// The engine has one descriptor of it, which a child that the application forks can let go of.
    pub socket: Arc<OwnedFd>,
    /// Its address; none for a unix socket.
    pub address: Option<SocketAddr>,
    /// It was found hung up: readable for ever, so that it is not watched.
    pub is_closed: bool,
}

/// What accepting gave.
#[derive(Debug)]
pub enum Accepted {
    /// A connection, and its peer (none on a unix socket).
    Connection(Transport, Option<SocketAddr>),
    /// No connection waits.
    Nothing,
    /// None can be taken now: no descriptor or no memory is left, or the system does not let this process.
    Failed(Errno),
}

impl Listener {
    /// Duplicate a listening socket that somebody else owns.
    pub fn adopt(descriptor: RawFd) -> std::io::Result<Self> {
        let socket = duplicate(descriptor)?;
        let address = rustix::net::getsockname(&socket)?.try_into().ok();
        Ok(Self { socket: Arc::new(socket), address, is_closed: false })
    }

    /// Take the next connection that waits.
    pub fn accept(&self) -> Accepted {
        loop {
            return match self.accepted() {
                Ok((socket, peer)) => {
                    Accepted::Connection(Transport::new(socket), peer.and_then(|peer| peer.try_into().ok()))
                }
                Err(Errno::AGAIN) => Accepted::Nothing,
                // This connection failed before it was taken, or the call was interrupted: there may be others.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => continue,
                Err(error) if HINDRANCES.contains(&error) => Accepted::Failed(error),
                Err(_) => Accepted::Nothing,
            };
        }
    }

    fn accepted(&self) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match rustix::net::acceptfrom_with(&self.socket, flags) {
            // The kernel, or a sandbox, has no accept4.
            Err(Errno::NOSYS | Errno::PERM) => {
                let (socket, peer) = rustix::net::acceptfrom(&self.socket)?;
                fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
                ioctl_fionbio(&socket, true)?;
                Ok((socket, peer))
            }
            other => other,
        }
    }

    /// Take who waits, or has half a handshake that is whole in [`HANDSHAKE`], as many as leave descriptors to go on, and
    /// let nobody in any more: the socket is closed for all processes that share it.
    pub fn take_waiting(&self) -> Vec<OwnedFd> {
        self.shut();
        let until = Instant::now() + HANDSHAKE;
        let mut taken = Vec::new();
        loop {
            match self.accept() {
                Accepted::Connection(transport, _) => taken.extend(transport.into_descriptor()),
                Accepted::Nothing if Instant::now() < until => {}
                Accepted::Nothing => break,
                Accepted::Failed(_) => {
                    taken.truncate(taken.len().saturating_sub(RESERVE));
                    return taken; // who else shares the socket can accept the others still
                }
            }
        }
        // Else who comes gets no answer for as long as another process has it, be another server there for him or not.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        taken
    }

    /// Take the next connection; None if `is_shut`. Who comes between a look at that and `accept` may come after what is
    /// looked for. So look first whether somebody is there, whom no other process takes meanwhile: he is the one.
    pub fn accept_unless(&self, is_shut: impl FnOnce() -> bool) -> Option<Accepted> {
        // It is for the moment; where a system cannot lock sockets, do without.
        if fcntl_lock(&self.socket, FlockOperation::NonBlockingLockExclusive) == Err(Errno::AGAIN) {
            return Some(Accepted::Nothing);
        }
        let accepted = if !self.is_awaited() {
            Some(Accepted::Nothing)
        } else if is_shut() {
            None
        } else {
            Some(self.accept())
        };
        let _ = fcntl_lock(&self.socket, FlockOperation::Unlock);
        accepted
    }

    /// Whether somebody waits to be accepted.
    fn is_awaited(&self) -> bool {
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&Timespec::default())) != Ok(0)
    }

    /// Whether a process that shares the socket has closed it for all: `accept` does not tell, of a unix socket.
    pub fn is_hung_up(&self) -> bool {
        let mut socket = [PollFd::new(&self.socket, PollFlags::empty())];
        let _ = poll(&mut socket, Some(&Timespec::default()));
        socket.iter().any(|it| it.revents().contains(PollFlags::HUP))
    }

    /// Let nobody in any more, in no process; who is in the queue can be accepted still. To close it alone would reset
    /// who came after the last `accept`. On a unix socket the next client is refused. A TCP client gets no answer, so
    /// that it asks once more a second later, when the socket is closed and it is refused; a client whose handshake was
    /// half done believes that it is connected, and comes in still.
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
        // Where it takes none, as in some sandboxes, who comes at the last moment is reset.
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
/// Where the flags are in the header of TCP (RFC 9293 3.1), with which a packet begins for the filter of a socket.
const TCP_FLAGS: u32 = 13;
const SYN: u32 = 2;

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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_is_in_the_queue_of_a_shut_listener_can_be_accepted_and_nobody_else_comes() {
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
            // The connection has the filter of the listener, which lets through what it is made of.
            assert!(matches!(transport.send(b"answer"), crate::net::connections::transport::Sent::Bytes(6)));
            let mut answer = [0; 6];
            std::io::Read::read_exact(&mut &early, &mut answer).unwrap();
            assert_eq!(&answer, b"answer");
            // Who asked in between asks again, and is refused.
            let asking = std::thread::spawn(move || TcpStream::connect(address).unwrap_err().kind());
            drop((listener, socket));
            assert_eq!(asking.join().unwrap(), ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn where_who_waits_was_taken_nobody_listens_any_more() {
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
    fn a_shut_unix_socket_refuses_and_keeps_who_is_in_its_queue() {
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

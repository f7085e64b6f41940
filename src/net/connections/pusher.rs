//! Has the kernel send within a millisecond what it was told to keep for more ([`Transport::send_more`]), whatever the
//! application does meanwhile. PEP 3333 ("Buffering and Streaming") allows to keep it if another thread sees to that.
//!
//! Knows sockets only. The thread ends when there was nothing to send for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{Builder, sleep};
use std::time::Duration;

use super::transport::Transport;
use crate::net::lock::lock;

/// How long bytes are kept.
const PAUSE: Duration = Duration::from_millis(1);
/// How long the thread waits for the next socket: to start one costs as much as to send thirty short blocks.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much stack the thread has.
const STACK: usize = 64 * 1024;

/// The thread, while there is one, and what it looks after.
#[derive(Clone, Debug, Default)]
pub struct Pusher(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    sockets: Mutex<Sockets>,
    /// There is a first socket.
    added: Condvar,
}

#[derive(Debug, Default)]
struct Sockets {
    kept: Vec<Weak<Kept>>,
    has_thread: bool,
}

/// A socket with bytes that the kernel keeps. What is left is sent when this is dropped.
#[derive(Debug)]
pub struct Pushed {
    kept: Arc<Kept>,
    pusher: Pusher,
}

#[derive(Debug)]
struct Kept {
    transport: Transport,
    /// There are such bytes since the thread has looked.
    is_due: AtomicBool,
}

impl Pusher {
    /// Look after `transport`, once something was sent to it.
    pub fn watch(&self, transport: &Transport) -> Pushed {
        let kept = Kept { transport: transport.clone(), is_due: AtomicBool::new(false) };
        Pushed { kept: Arc::new(kept), pusher: self.clone() }
    }

    /// Add a socket. Fails where there is no thread, and none can be started.
    fn add(&self, kept: &Arc<Kept>) -> std::io::Result<()> {
        let mut sockets = lock(&self.0.sockets);
        if !sockets.has_thread {
            let pusher = self.clone();
            Builder::new().name("poorhttp-push".to_owned()).stack_size(STACK).spawn(move || pusher.work())?;
            sockets.has_thread = true;
        } else if sockets.kept.is_empty() {
            self.0.added.notify_one();
        }
        if !sockets.kept.iter().any(|it| it.as_ptr() == Arc::as_ptr(kept)) {
            sockets.kept.push(Arc::downgrade(kept));
        }
        Ok(())
    }

    /// Push until no socket was added for a while. Those to which nothing was sent since the last look are forgotten.
    fn work(&self) {
        let mut sockets = lock(&self.0.sockets);
        while !sockets.kept.is_empty() {
            drop(sockets);
            sleep(PAUSE);
            sockets = lock(&self.0.sockets);
            sockets.kept.retain(|kept| kept.upgrade().is_some_and(|kept| kept.push_if_due()));
            let waited = self.0.added.wait_timeout_while(sockets, PATIENCE, |sockets| sockets.kept.is_empty());
            sockets = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        sockets.has_thread = false;
    }
}

impl Pushed {
    /// Something was sent that the kernel may keep: push it soon.
    pub fn push_soon(&self) {
        // While it is due the thread will come.
        if !self.kept.is_due.swap(true, Ordering::SeqCst) && self.pusher.add(&self.kept).is_err() {
            self.kept.push_if_due();
        }
    }
}

impl Kept {
    fn push_if_due(&self) -> bool {
        let is_due = self.is_due.swap(false, Ordering::SeqCst);
        if is_due {
            self.transport.push();
        }
        is_due
    }
}

impl Drop for Pushed {
    fn drop(&mut self) {
        self.kept.push_if_due();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;
    use crate::net::connections::transport::Sent;

    /// A client, and the server's end of its connection.
    fn connected() -> (TcpStream, Transport) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nodelay(true).unwrap();
        (client, Transport::new(server.into()))
    }

    fn send(transport: &Transport, stream: &Pushed) {
        assert_eq!(transport.send_more(b"block"), Sent::Bytes(5));
        stream.push_soon();
    }

    fn wait_until_it_rests(pusher: &Pusher) {
        while !lock(&pusher.0.sockets).kept.is_empty() {
            sleep(PAUSE);
        }
    }

    #[test]
    fn what_the_kernel_keeps_is_sent_soon_and_again_and_again() {
        let (mut client, transport) = connected();
        let pusher = Pusher::default();
        let stream = pusher.watch(&transport);
        let began = Instant::now();
        for number in 0..50 {
            send(&transport, &stream);
            let mut block = [0; 5];
            client.read_exact(&mut block).unwrap();
            assert_eq!(&block, b"block");
            if number % 10 == 0 {
                wait_until_it_rests(&pusher);
            }
        }
        // The kernel alone would keep each of them for 200 ms.
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    }

    #[test]
    fn at_the_end_it_is_sent_at_once() {
        let (mut client, transport) = connected();
        let pusher = Pusher::default();
        let stream = pusher.watch(&transport);
        send(&transport, &stream);
        drop(stream);
        client.set_nonblocking(true).unwrap();
        let mut read = |block: &mut [u8]| client.read(block).map_err(|error| error.kind());
        assert_eq!(read(&mut [0; 10]), Ok(5), "on one machine it has come by now");
        assert_eq!(read(&mut [0; 10]), Err(ErrorKind::WouldBlock));
        wait_until_it_rests(&pusher);
        assert!(!transport.is_shared());
    }
}

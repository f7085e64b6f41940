//! Has the kernel send within a millisecond what it was told to keep for more ([`Transport::send_more`]), whatever the
//! application does meanwhile. PEP 3333 ("Buffering and Streaming") allows to keep it if another thread sees to that.
//!
//! Knows sockets only. The thread lives no longer than there is something to send.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{Builder, sleep};
use std::time::Duration;

use super::transport::Transport;
use crate::net::lock::lock;

/// How long bytes are kept.
const PAUSE: Duration = Duration::from_millis(1);
/// How much stack the thread has.
const STACK: usize = 64 * 1024;

/// The thread, while there is one, and the sockets that it looks after.
#[derive(Clone, Debug, Default)]
pub struct Pusher(Arc<Mutex<Vec<Weak<Kept>>>>);

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

    /// Add a socket, and start the thread if there was none. Fails where none can be started.
    fn add(&self, kept: &Arc<Kept>) -> std::io::Result<()> {
        let mut all = lock(&self.0);
        if all.is_empty() {
            let pusher = self.clone();
            Builder::new().name("poorhttp-push".to_owned()).stack_size(STACK).spawn(move || pusher.work())?;
        }
        if !all.iter().any(|it| it.as_ptr() == Arc::as_ptr(kept)) {
            all.push(Arc::downgrade(kept));
        }
        Ok(())
    }

    /// Until no socket is left: those to which nothing was sent since the last look are forgotten.
    fn work(&self) {
        loop {
            sleep(PAUSE);
            let mut all = lock(&self.0);
            all.retain(|kept| kept.upgrade().is_some_and(|kept| kept.push_if_due()));
            if all.is_empty() {
                return;
            }
        }
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

    fn send(transport: &Transport, pushed: &Pushed) {
        assert_eq!(transport.send_more(b"block"), Sent::Bytes(5));
        pushed.push_soon();
    }

    fn wait_for_the_end(pusher: &Pusher) {
        while !lock(&pusher.0).is_empty() {
            sleep(PAUSE);
        }
    }

    #[test]
    fn what_the_kernel_keeps_is_sent_soon_and_again_and_again() {
        let (mut client, transport) = connected();
        let pusher = Pusher::default();
        let pushed = pusher.watch(&transport);
        let began = Instant::now();
        for number in 0..30 {
            send(&transport, &pushed);
            let mut block = [0; 5];
            client.read_exact(&mut block).unwrap();
            assert_eq!(&block, b"block");
            if number % 10 == 0 {
                wait_for_the_end(&pusher);
            }
        }
        // The kernel alone would keep each of them for 200 ms.
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }

    #[test]
    fn at_the_end_it_is_sent_at_once() {
        let (mut client, transport) = connected();
        let pusher = Pusher::default();
        let pushed = pusher.watch(&transport);
        send(&transport, &pushed);
        drop(pushed);
        client.set_nonblocking(true).unwrap();
        let mut read = |block: &mut [u8]| client.read(block).map_err(|error| error.kind());
        assert_eq!(read(&mut [0; 10]), Ok(5), "on one machine it has come by now");
        assert_eq!(read(&mut [0; 10]), Err(ErrorKind::WouldBlock));
        wait_for_the_end(&pusher);
        assert!(!transport.is_shared());
    }
}

//! The application of these tests: it answers by path, blocks or panics on request, and keeps what it was told to log.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use _engine::http::own_fields::OwnFields;
use _engine::http::response::ResponseHead;
use _engine::net::connections::outbox::{Flushed, Outbox};
use _engine::net::connections::transport::Transport;
use _engine::net::handler::{Done, Handler, Outcome, Request, Resumed};
use _engine::net::report::scoreboard::Shown;

use crate::PATIENCE;

/// Length of the answer to `/stream`, in bytes.
pub const STREAM: u64 = 64 * 1024 * 1024;

/// Answers by path: `/panic` and `/partial` with a panic, `/block` once the test lets it, `/stream` with 64 MiB of zeros, all
/// others with a greeting.
pub struct Site {
    gate: Mutex<Receiver<()>>,
    blocked: Sender<()>,
    /// The lines of the log, each with its level.
    pub lines: Mutex<Vec<String>>,
    /// Where it panics, and how often still.
    pub panics: Mutex<(&'static str, usize)>,
}

/// The number of bytes that are left of a stream, and its thread.
pub struct Stream {
    left: u64,
    thread: std::thread::ThreadId,
}

impl Site {
    /// With what lets a blocked call go on, and what receives when one blocks.
    pub fn new(panics: (&'static str, usize)) -> (Self, Sender<()>, Receiver<()>) {
        let (open_gate, gate) = channel();
        let (send_blocked, blocked) = channel();
        let (gate, lines, panics) = (Mutex::new(gate), Mutex::default(), Mutex::new(panics));
        (Self { gate, blocked: send_blocked, lines, panics }, open_gate, blocked)
    }

    fn log(&self, level: char, text: &str) {
        self.lines.lock().unwrap().push(format!("{level} {text}"));
    }

    /// Panic here, where the test asked for it.
    fn pass(&self, place: &str) {
        let mut panics = self.panics.lock().unwrap();
        if panics.0 == place && panics.1 > 0 {
            panics.1 -= 1;
            drop(panics);
            panic!("as asked");
        }
    }

    fn go_on(mut stream: Stream, transport: &Transport, outbox: &mut Outbox) -> Outcome<Stream> {
        assert_eq!(stream.thread, std::thread::current().id(), "a stream is resumed by its own thread");
        let block = vec![0; 65536];
        while stream.left > 0 && !outbox.is_broken() {
            outbox.push(&block, transport, || None);
            stream.left -= block.len() as u64;
            if outbox.flush(transport) == Flushed::Pending && outbox.is_full() {
                return Outcome::Suspended(stream);
            }
        }
        Outcome::Done(Done { status: 200, length: STREAM, persistent: true })
    }
}

impl Handler for Site {
    type Stream = Stream;
    type ThreadState = ();

    fn call(&self, request: Request<'_, ()>, outbox: &mut Outbox) -> Outcome<Stream> {
        let path = request.head.path.of(request.bytes);
        let head = ResponseHead::begin(&mut outbox.bytes, b"200 OK").unwrap();
        let length = if path == b"/stream" { STREAM } else { 5 };
        let (_, persistent) = head.finish(&mut outbox.bytes, request.asked, Some(length), OwnFields::new(b"").at(0));
        match path {
            b"/panic" => {
                outbox.bytes.clear();
                panic!("as asked")
            }
            b"/partial" => {
                outbox.flush(request.transport);
                panic!("as asked, later")
            }
            b"/stream" => {
                return Self::go_on(
                    Stream { left: STREAM, thread: std::thread::current().id() },
                    request.transport,
                    outbox,
                );
            }
            b"/block" => {
                self.blocked.send(()).unwrap();
                self.gate.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            }
            _ => {}
        }
        outbox.bytes.extend_from_slice(b"hello");
        Outcome::Done(Done { status: 200, length, persistent })
    }

    fn resume(&self, stream: Stream, resumed: Resumed<'_, ()>, outbox: &mut Outbox) -> Outcome<Stream> {
        Self::go_on(stream, resumed.transport, outbox)
    }

    fn detached<R: Send>(&self, wait: impl FnOnce() -> R + Send) -> R {
        wait()
    }

    fn report(&self, level: char, _: Option<SocketAddr>, text: &str) {
        assert!(!text.contains("/refused-with-a-panic"), "as asked");
        if text.contains("PROXY protocol") {
            self.pass("accept");
        }
        self.log(level, text);
    }

    fn last_words(&self, text: &str) {
        self.log('C', text);
    }

    fn warn(&self, _: Option<SocketAddr>, text: &str) {
        self.pass("warn");
        self.log('W', text);
    }

    fn page(&self, status: u16, _: &str, _: &str) -> Vec<u8> {
        status.to_string().into_bytes()
    }

    fn server_header(&self) -> &[u8] {
        b""
    }

    fn utc_offset(&self, _: u64) -> i64 {
        0
    }

    fn interrupt(&self, _: usize, _: &Shown, _: Option<u64>, _: &dyn Fn() -> bool) {
        self.pass("interrupt");
        self.log('W', "interrupted");
    }

    fn give_up(&self, _: usize, _: &Shown, _: u64, _: &dyn Fn() -> bool) -> bool {
        false
    }

    fn hear_report(&self, _: u8) {}

    fn hear_signals(&self) -> bool {
        self.pass("wait");
        false
    }

    fn enter(&self, _: usize) {}
}

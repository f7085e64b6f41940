//! The network with an application that is not Python: the baton, streams that wait, panics, and stopping.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use _engine::http::own_fields::OwnFields;
use _engine::http::response::ResponseHead;
use _engine::limits::Limits;
use _engine::net::connections::outbox::{Flushed, Outbox};
use _engine::net::events::listener::Listener;
use _engine::net::handler::{Done, Handler, Outcome, Request, Resumed};
use _engine::net::proxies::front::Fronts;
use _engine::net::report::access_log::{AccessLog, Format};
use _engine::net::report::board::{Row, Shown};
use _engine::net::threads::server::{Ends, Server};

const PATIENCE: Duration = Duration::from_secs(20);
const STREAM: u64 = 64 * 1024 * 1024;

/// What the log says of `panic!("as asked")`.
const TOLD: &str = "C panic in the engine, please report it: as asked";

/// Answers by path: `/` a greeting, `/panic` a panic, `/block` once the test says so, `/stream` 64 MiB of zeros.
struct Site {
    gate: Mutex<Receiver<()>>,
    blocked: Sender<()>,
    blocks: AtomicUsize,
    /// What the log was told, each with its level.
    lines: Mutex<Vec<String>>,
    /// Where it panics, and how often still.
    panics: Mutex<(&'static str, usize)>,
}

/// How much of a stream is left, and whose it is.
struct Stream {
    left: u64,
    thread: std::thread::ThreadId,
}

impl Site {
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

    fn go_on(
        mut stream: Stream,
        transport: &_engine::net::connections::transport::Transport,
        outbox: &mut Outbox,
    ) -> Outcome<Stream> {
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
    type Seat = ();

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
                self.blocks.fetch_add(1, Ordering::SeqCst);
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

    fn told(&self, _: u8) {}

    fn hear_signals(&self) -> bool {
        self.pass("wait");
        false
    }

    fn enter(&self, _: usize) {}
}

struct Running {
    server: Arc<Server<Site>>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
    open_gate: Sender<()>,
    blocked: Receiver<()>,
}

fn limits() -> Limits {
    Limits {
        keepalive_timeout: 20_000,
        head_timeout: 20_000,
        body_timeout: 20_000,
        body_rate: 0,
        request_timeout: 0,
        slow_request: 0,
        write_timeout: 20_000,
        linger_timeout: 1000,
        graceful_timeout: 20_000,
        max_request_line: 8192,
        max_head: 65536,
        max_fields: 100,
        max_body: 1 << 20,
        body_memory: 1 << 16,
        max_connections: 1000,
        max_connections_per_address: 1000,
        max_requests: u64::MAX,
        tells_load: false,
        has_neighbours: false,
    }
}

fn start(threads: usize) -> Running {
    start_at(&TcpListener::bind("127.0.0.1:0").unwrap(), threads, vec![], None)
}

fn start_with(limits: Limits, fronts: Fronts, panics: (&'static str, usize)) -> Running {
    start_as(&TcpListener::bind("127.0.0.1:0").unwrap(), 1, (vec![], None, None), (limits, fronts), panics)
}

fn start_at(listener: &TcpListener, threads: usize, controls: Vec<OwnedFd>, countdown: Option<OwnedFd>) -> Running {
    start_as(listener, threads, (controls, None, countdown), (limits(), Fronts::default()), ("", 0))
}

fn start_as(
    listener: &TcpListener,
    threads: usize,
    (controls, report, countdown): (Vec<OwnedFd>, Option<OwnedFd>, Option<OwnedFd>),
    (limits, fronts): (Limits, Fronts),
    panics: (&'static str, usize),
) -> Running {
    let (open_gate, gate) = channel();
    let (send_blocked, blocked) = channel();
    let site = Site {
        gate: Mutex::new(gate),
        blocked: send_blocked,
        blocks: AtomicUsize::new(0),
        lines: Mutex::default(),
        panics: Mutex::new(panics),
    };
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let adopted = vec![Listener::adopt(listener.as_raw_fd()).unwrap()];
    let log = AccessLog::new(None, Format::Poor);
    let row = Row::private(threads, threads).unwrap();
    let ends = Ends { listeners: adopted, controls, report, row, gates: vec![], countdown };
    let server = Arc::new(Server::new(site, limits, fronts, log, ends, threads).unwrap());
    let run = |slot| {
        let server = Arc::clone(&server);
        std::thread::spawn(move || server.run(slot).unwrap())
    };
    Running { threads: (0..threads).map(run).collect(), server, address, open_gate, blocked }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream
    }

    /// The lines of the log once there are so many.
    fn lines(&self, at_least: usize) -> Vec<String> {
        let began = Instant::now();
        loop {
            let lines = self.server.handler().lines.lock().unwrap().clone();
            if lines.len() >= at_least {
                return lines;
            }
            assert!(began.elapsed() < PATIENCE, "{lines:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop(self) {
        self.server.stop();
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// The status line and what follows the head, of `length` bytes.
fn read_answer(stream: &mut TcpStream, length: usize) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (String::from_utf8(bytes).unwrap().lines().next().unwrap().to_owned(), body)
}

#[test]
fn pipelined_requests_are_answered_in_order_and_a_stop_ends_all_threads() {
    for threads in [1, 4] {
        let running = start(threads);
        let mut stream = running.connect();
        stream.write_all(&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000)).unwrap();
        for _ in 0..1000 {
            assert_eq!(read_answer(&mut stream, 5), ("HTTP/1.1 200 OK".to_owned(), b"hello".to_vec()));
        }
        running.stop();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "an idle connection is closed by a stop");
    }
}

#[test]
fn blocked_calls_hold_up_nobody_while_a_thread_is_left() {
    let running = start(4);
    let mut blocked: Vec<_> = (0..3).map(|_| running.ask("/block")).collect();
    for _ in 0..3 {
        running.blocked.recv_timeout(PATIENCE).unwrap();
    }
    for _ in 0..100 {
        assert_eq!(read_answer(&mut running.ask("/"), 5).1, b"hello");
    }
    for _ in 0..3 {
        running.open_gate.send(()).unwrap();
    }
    for stream in &mut blocked {
        assert_eq!(read_answer(stream, 5).1, b"hello");
    }
    running.stop();
}

#[test]
fn a_stop_finishes_what_is_in_flight() {
    let running = start(2);
    let mut stream = running.ask("/block");
    running.blocked.recv_timeout(PATIENCE).unwrap();
    running.server.stop();
    running.open_gate.send(()).unwrap();
    assert_eq!(read_answer(&mut stream, 5).1, b"hello");
    running.stop();
}

/// A worker, with the write end of its control descriptor, to which a supervisor listens.
fn start_worker(listener: &TcpListener) -> (Running, OwnedFd, OwnedFd) {
    let (control, told) = rustix::pipe::pipe().unwrap();
    let (supervisor, report) = rustix::pipe::pipe().unwrap();
    let ends = (vec![control], Some(report), None);
    (start_as(listener, 1, ends, (limits(), Fronts::default()), ("", 0)), told, supervisor)
}

#[test]
fn who_comes_during_a_call_is_not_for_a_worker_that_was_told_to_leave() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (old, told, _old_supervisor) = start_worker(&listener);
    let mut first = old.ask("/block");
    old.blocked.recv_timeout(PATIENCE).unwrap();
    let (new, _told, _new_supervisor) = start_worker(&listener);
    let mut second = new.ask("/block");
    new.blocked.recv_timeout(PATIENCE).unwrap();
    let mut third = new.ask("/");
    rustix::io::write(&told, b"\0").unwrap();
    std::thread::sleep(Duration::from_millis(20)); // a tick: by that it knows that it has not looked for a while
    old.open_gate.send(()).unwrap();
    assert_eq!(read_answer(&mut first, 5).1, b"hello");
    for thread in old.threads {
        thread.join().unwrap();
    }
    assert_eq!(old.server.counts().accepted.load(Ordering::Relaxed), 1);
    new.open_gate.send(()).unwrap();
    for stream in [&mut second, &mut third] {
        assert_eq!(read_answer(stream, 5).1, b"hello");
    }
    new.stop();
}

#[test]
fn who_has_woken_a_worker_that_is_to_leave_is_answered() {
    let mut by_old = 0;
    for _ in 0..300 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (old, told, _old_supervisor) = start_worker(&listener);
        let (new, _told, _new_supervisor) = start_worker(&listener);
        let mut client = new.connect();
        rustix::io::write(&told, b"\0").unwrap();
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(read_answer(&mut client, 5).1, b"hello");
        by_old += old.server.counts().accepted.load(Ordering::Relaxed);
        old.stop();
        new.stop();
    }
    assert!(by_old > 0, "the kernel has told none of them alone");
}

#[test]
fn a_byte_that_two_threads_want_holds_up_none() {
    // The watchdog looks at the descriptor too, for the first time 10 ms after the start.
    for round in 0..300 {
        let (read, write) = rustix::pipe::pipe().unwrap(); // which blocks
        let running = start_at(&TcpListener::bind("127.0.0.1:0").unwrap(), 1, vec![read], None);
        std::thread::sleep(Duration::from_micros(9_900 + round * 13 % 600));
        rustix::io::write(&write, &[255]).unwrap();
        let began = Instant::now();
        while !running.threads[0].is_finished() {
            assert!(began.elapsed() < PATIENCE / 2, "round {round}: it does not end");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

#[test]
fn only_the_last_of_those_who_accept_lets_nobody_in() {
    let ends = |bytes: &[u8]| {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        rustix::io::write(&write, bytes).unwrap();
        (read, write)
    };
    let (last, end) = ends(b"");
    drop(end);
    let (first, _one_more) = ends(b"\0");
    let (alone, _all_go_on) = ends(b"");
    for (countdown, comes_in) in [(Some(last), false), (Some(first), true), (Some(alone), true), (None, true)] {
        // Another process has the socket too.
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        start_at(&other, 1, vec![], countdown).stop();
        let patience = if comes_in { PATIENCE } else { Duration::from_millis(200) };
        let coming = TcpStream::connect_timeout(&other.local_addr().unwrap(), patience);
        assert_eq!(coming.is_ok(), comes_in);
    }
}

#[test]
fn whoever_could_connect_while_the_last_one_stops_is_answered() {
    let mut unanswered = 0;
    for _ in 0..50 {
        let (last, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let running = start_at(&TcpListener::bind("127.0.0.1:0").unwrap(), 1, vec![], Some(last));
        let address = running.address;
        let (send_answered, answered) = channel();
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let send_answered = send_answered.clone();
                std::thread::spawn(move || {
                    while let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
                        stream.set_read_timeout(Some(PATIENCE)).unwrap();
                        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
                        assert_eq!(read_answer(&mut stream, 5).1, b"hello");
                        let _ = send_answered.send(());
                    }
                })
            })
            .collect();
        answered.recv_timeout(PATIENCE).unwrap();
        running.stop();
        unanswered += clients.into_iter().filter_map(|client| client.join().err()).count();
    }
    assert!(unanswered <= 1, "{unanswered} were not: one may have lost its core in the 50 us of its handshake");
}

#[test]
fn a_reader_that_stalls_holds_up_nobody_and_gets_everything() {
    for threads in [1, 2, 3] {
        let running = start(threads);
        let mut slow: Vec<_> = (0..8).map(|_| running.ask("/stream")).collect();
        for _ in 0..20 {
            assert_eq!(read_answer(&mut running.ask("/"), 5).1, b"hello");
        }
        for stream in &mut slow {
            let (status, body) = read_answer(stream, usize::try_from(STREAM).unwrap());
            assert_eq!((status.as_str(), body.iter().all(|&byte| byte == 0)), ("HTTP/1.1 200 OK", true));
            write!(stream, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            assert_eq!(read_answer(stream, 5).1, b"hello");
        }
        running.stop();
    }
}

#[test]
fn a_panic_behind_a_beginning_breaks_off() {
    let running = start(1);
    let mut broken = running.ask("/partial");
    let mut answer = String::new();
    broken.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && !answer.contains(" 500 "), "{answer}");
    assert_eq!(running.lines(1), [format!("{TOLD}, later")]);
    running.stop();
}

#[test]
fn a_panic_before_the_application_costs_one_connection_a_500() {
    for threads in [1, 4] {
        let running = start(threads);
        let mut stream = running.connect();
        stream.write_all(b"GET /refused-with-a-panic HTTP/1.1\r\nBad Name: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("Connection: close"), "{answer}");
        assert_eq!(read_answer(&mut running.ask("/"), 5).1, b"hello");
        assert_eq!(running.lines(1), [TOLD]);
        running.stop();
    }
}

#[test]
fn a_panic_costs_one_connection_a_500() {
    let running = start(1);
    let mut stream = running.ask("/panic");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("Connection: close"), "{answer}");
    assert_eq!(read_answer(&mut running.ask("/"), 5).1, b"hello");
    assert_eq!(running.lines(1), [TOLD]);
    running.stop();
}

#[test]
fn a_panic_between_connections_costs_a_line() {
    let running = start_with(limits(), Fronts::default(), ("wait", 10));
    assert_eq!(running.lines(10), [TOLD; 10]);
    assert_eq!(read_answer(&mut running.ask("/"), 5).1, b"hello");
    *running.server.handler().panics.lock().unwrap() = ("wait", 10);
    assert_eq!(read_answer(&mut running.ask("/"), 5).1, b"hello");
    assert_eq!(running.lines(20), [TOLD; 20]);
    running.stop();
}

#[test]
fn a_panic_at_each_client_costs_a_line_each() {
    let fronts = Fronts { proxy_protocol: true, ..Fronts::default() };
    let running = start_with(limits(), fronts, ("accept", 40));
    for _ in 0..41 {
        assert_eq!(running.connect().read(&mut [0]).unwrap(), 0);
    }
    let lines = running.lines(41);
    assert_eq!(lines[..40], [TOLD; 40]);
    assert!(lines[40].starts_with("I connection closed before"), "{lines:?}");
    running.stop();
}

#[test]
fn a_loop_that_does_nothing_but_panic_ends() {
    // Its watchdog stays, as no thread ever leaves in order, and would end this process when the time of the stop is over.
    let limits = Limits { graceful_timeout: 3_600_000, ..limits() };
    let running = start_with(limits, Fronts::default(), ("wait", usize::MAX));
    let ends: Vec<_> = running.threads.into_iter().map(JoinHandle::join).collect();
    assert!(ends[0].is_err());
    assert_eq!(running.server.handler().lines.lock().unwrap().len(), 16);
    running.server.stop();
}

#[test]
fn a_panic_of_the_watchdog_costs_a_line() {
    let limits = Limits { slow_request: 50, request_timeout: 100, ..limits() };
    let running = start_with(limits, Fronts::default(), ("warn", 1));
    for round in [[TOLD, "W interrupted"], ["W slow request: GET /block", "W interrupted"]] {
        let before = running.lines(0).len();
        let mut stream = running.ask("/block");
        running.blocked.recv_timeout(PATIENCE).unwrap();
        let lines = running.lines(before + 2);
        for (line, expected) in lines[before..].iter().zip(round) {
            assert!(line.starts_with(expected), "{lines:?}");
        }
        running.open_gate.send(()).unwrap();
        assert_eq!(read_answer(&mut stream, 5).1, b"hello");
    }
    running.stop();
}

#[test]
fn a_panic_of_who_interrupts_costs_a_line() {
    let limits = Limits { request_timeout: 100, ..limits() };
    let running = start_with(limits, Fronts::default(), ("interrupt", 1));
    let mut stream = running.ask("/block");
    running.blocked.recv_timeout(PATIENCE).unwrap();
    assert_eq!(running.lines(1), [TOLD]);
    running.open_gate.send(()).unwrap();
    assert_eq!(read_answer(&mut stream, 5).1, b"hello");
    running.stop();
}

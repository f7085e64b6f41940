//! The network with an application that is not Python: the baton, suspended answers, panics, and stopping.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod panics;
mod serving;
mod site;
mod stopping;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use _engine::limits::Limits;
use _engine::net::events::listener::Listener;
use _engine::net::proxies::policy::ProxyPolicy;
use _engine::net::report::access_log::{AccessLog, Format};
use _engine::net::report::report_pipe::ReportPipe;
use _engine::net::report::scoreboard::Row;
use _engine::net::threads::server::{Channels, Server};

use crate::site::Site;

const PATIENCE: Duration = Duration::from_secs(20);

/// A server to start.
struct Setup {
    threads: usize,
    limits: Limits,
    proxies: ProxyPolicy,
    controls: Vec<OwnedFd>,
    report: Option<OwnedFd>,
    countdown: Option<OwnedFd>,
    /// Where it panics, and how often.
    panics: (&'static str, usize),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            threads: 1,
            limits: limits(),
            proxies: ProxyPolicy::default(),
            controls: vec![],
            report: None,
            countdown: None,
            panics: ("", 0),
        }
    }
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
    Setup { threads, ..Setup::default() }.start()
}

impl Setup {
    fn start(self) -> Running {
        self.start_at(&TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn start_at(self, listener: &TcpListener) -> Running {
        let (site, open_gate, blocked) = Site::new(self.panics);
        listener.set_nonblocking(true).unwrap();
        let channels = Channels {
            listeners: vec![Listener::adopt(listener.as_raw_fd()).unwrap()],
            controls: self.controls,
            report_pipe: ReportPipe::new(self.report),
            row: Row::private(self.threads, self.threads).unwrap(),
            accept_pauses: vec![],
            countdown: self.countdown,
        };
        let log = AccessLog::new(None, Format::Poor);
        let server = Arc::new(Server::new(site, self.limits, self.proxies, log, channels, self.threads).unwrap());
        let run = |slot| {
            let server = Arc::clone(&server);
            std::thread::spawn(move || server.run(slot).unwrap())
        };
        let threads = (0..self.threads).map(run).collect();
        Running { threads, server, address: listener.local_addr().unwrap(), open_gate, blocked }
    }
}

/// A server that was started.
struct Running {
    server: Arc<Server<Site>>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
    /// Lets one blocked call go on.
    open_gate: Sender<()>,
    /// Receives when a call blocks.
    blocked: Receiver<()>,
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

/// The status line, and `length` bytes behind the head.
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

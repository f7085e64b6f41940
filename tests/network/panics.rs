//! A panic, which would be a defect of the engine, costs one connection or one line of the log.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;

use _engine::limits::Limits;
use _engine::net::proxies::policy::ProxyPolicy;

use crate::{PATIENCE, Running, Setup, limits, read_answer, start};

/// What the log says of `panic!("as asked")`.
const TOLD: &str = "C panic in the engine, please report it: as asked";

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

fn costs_this_connection_a_500(running: &Running, mut stream: TcpStream) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("Connection: close"), "{answer}");
    assert_eq!(read_answer(&mut running.ask("/"), 5).1, b"hello");
    assert_eq!(running.lines(1), [TOLD]);
}

#[test]
fn a_panic_before_the_application_costs_one_connection_a_500() {
    for threads in [1, 4] {
        let running = start(threads);
        let mut stream = running.connect();
        stream.write_all(b"GET /refused-with-a-panic HTTP/1.1\r\nBad Name: x\r\n\r\n").unwrap();
        costs_this_connection_a_500(&running, stream);
        running.stop();
    }
}

#[test]
fn a_panic_costs_one_connection_a_500() {
    let running = start(1);
    let stream = running.ask("/panic");
    costs_this_connection_a_500(&running, stream);
    running.stop();
}

#[test]
fn a_panic_between_connections_costs_a_line() {
    let running = Setup { panics: ("wait", 10), ..Setup::default() }.start();
    assert_eq!(running.lines(10), [TOLD; 10]);
    assert_eq!(read_answer(&mut running.ask("/"), 5).1, b"hello");
    *running.server.handler().panics.lock().unwrap() = ("wait", 10);
    assert_eq!(read_answer(&mut running.ask("/"), 5).1, b"hello");
    assert_eq!(running.lines(20), [TOLD; 20]);
    running.stop();
}

#[test]
fn a_panic_at_each_client_costs_a_line_each() {
    let proxies = ProxyPolicy { proxy_protocol: true, ..ProxyPolicy::default() };
    let running = Setup { proxies, panics: ("accept", 40), ..Setup::default() }.start();
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
    let running = Setup { limits, panics: ("wait", usize::MAX), ..Setup::default() }.start();
    let ends: Vec<_> = running.threads.into_iter().map(JoinHandle::join).collect();
    assert!(ends[0].is_err());
    assert_eq!(running.server.handler().lines.lock().unwrap().len(), 16);
    running.server.stop();
}

#[test]
fn a_panic_of_the_watchdog_costs_a_line() {
    let limits = Limits { slow_request: 50, request_timeout: 100, ..limits() };
    let running = Setup { limits, panics: ("warn", 1), ..Setup::default() }.start();
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
    let running = Setup { limits, panics: ("interrupt", 1), ..Setup::default() }.start();
    let mut stream = running.ask("/block");
    running.blocked.recv_timeout(PATIENCE).unwrap();
    assert_eq!(running.lines(1), [TOLD]);
    running.open_gate.send(()).unwrap();
    assert_eq!(read_answer(&mut stream, 5).1, b"hello");
    running.stop();
}

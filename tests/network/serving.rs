//! Clients that are served while others wait: pipelined requests, blocked calls, slow readers.

use std::io::{Read, Write};

use crate::site::STREAM;
use crate::{PATIENCE, read_answer, start};

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

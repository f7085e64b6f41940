//! A stop answers every client that was accepted, and a worker that leaves takes no client that another one could serve.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::{PATIENCE, Running, Setup, read_answer, start};

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

/// A worker, the write end of its control pipe, and the read end of its report pipe.
fn start_worker(listener: &TcpListener) -> (Running, OwnedFd, OwnedFd) {
    let (control, told) = rustix::pipe::pipe().unwrap();
    let (supervisor, report) = rustix::pipe::pipe().unwrap();
    let setup = Setup { controls: vec![control], report: Some(report), ..Setup::default() };
    (setup.start_at(listener), told, supervisor)
}

#[test]
fn a_client_that_comes_during_a_call_is_not_for_a_worker_that_was_told_to_leave() {
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
fn a_client_that_has_woken_a_worker_that_is_to_leave_is_answered() {
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
        let running = Setup { controls: vec![read], ..Setup::default() }.start();
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
        Setup { countdown, ..Setup::default() }.start_at(&other).stop();
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
        let running = Setup { countdown: Some(last), ..Setup::default() }.start();
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

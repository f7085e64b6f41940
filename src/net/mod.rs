//! Sockets and time: connections that are accepted, read, served and closed by one event loop.
//!
//! Knows HTTP through `http` and the application only as a [`handler::Handler`]; knows no Python.

pub mod access_log;
pub mod admission;
pub mod append;
pub mod board;
pub mod calls;
pub mod clock;
pub mod connection;
pub mod cpu;
pub mod crowd;
pub mod dispositions;
pub mod event_loop;
pub mod front;
pub mod handler;
pub mod heap;
pub mod lingering;
pub mod listener;
pub mod load;
pub mod outbox;
pub mod panics;
pub mod peer;
pub mod poller;
pub mod proxy_protocol;
pub mod server;
pub mod shared;
pub mod spool;
pub mod table;
pub mod team;
pub mod transport;
pub mod watchdog;

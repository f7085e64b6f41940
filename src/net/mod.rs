//! Sockets and time: connections that are accepted, read, served and closed by one event loop.
//!
//! Knows HTTP through `http` and the application only as a [`handler::Handler`]; knows no Python.

pub mod clock;
pub mod connections;
pub mod events;
pub mod handler;
pub mod proxies;
pub mod report;
pub mod threads;
pub mod watch;

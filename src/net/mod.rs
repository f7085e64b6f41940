//! Sockets and time: connections that are accepted, read, served and closed by one event loop.
//!
//! Knows HTTP through `http` and the application only as a [`handler::Handler`]; knows no Python.
//!
//! Its parts know each other one way, and a test holds that: `threads` -> `watch` -> `events` -> `connections` ->
//! `shared` -> `handler` -> `lifecycle` -> `report` -> `proxies` -> `clock`, `heap`, `lock`, `panics`. `handler` also
//! names what a request and its answer are made of: `connections::{outbox, pusher, spool, transport}`, which know none of these.

pub mod clock;
pub mod connections;
pub mod events;
pub mod handler;
pub mod heap;
pub mod lifecycle;
pub mod lock;
pub mod panics;
pub mod proxies;
pub mod report;
pub mod shared;
pub mod threads;
pub mod watch;

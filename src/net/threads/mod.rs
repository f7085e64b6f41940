//! The threads of one process: the baton that one of them has, how they serve, and which of them sleep.
//!
//! May know all other folders; none of them knows this one.

pub mod baton;
pub mod health_thread;
pub mod server;
pub mod serving;
pub mod team;
pub mod turns;
pub mod watched;

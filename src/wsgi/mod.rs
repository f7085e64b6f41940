//! PEP 3333: environ, `wsgi.input`, `start_response`, and what an application returns.
//!
//! Implements `net`'s [`crate::net::handler::Handler`] with Python; knows no socket but to hand bytes to it.

pub mod application;
pub mod environ;
pub mod exchange;
pub mod file_wrapper;
pub mod handover;
pub mod held_body;
pub mod input;
pub mod iteration;
pub mod known;
pub mod signal_handler;
pub mod text;

//! What this process tells: the rows of the board, the access log.
//!
//! May know `proxies` and what lies below it.

pub mod access_log;
pub mod append;
pub mod scoreboard;
pub mod supervisor;

//! The reports of this process: its row of the scoreboard, the access log, the report pipe to its supervisor.
//!
//! May know `proxies` and what lies below it.

pub mod access_log;
pub mod append;
pub mod calendar;
pub mod report_pipe;
pub mod scoreboard;

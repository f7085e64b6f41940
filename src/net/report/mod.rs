//! What this process tells: the rows of the board, the access log.

pub mod access_log;
pub mod append;
pub mod board;

//! Times that the engine and the Python side must agree on, in milliseconds.
//!
//! Python declares the same numbers, in seconds; a test compares the two.

/// Requests in flight may last so long after SIGINT.
pub const FAST: u64 = 1000;
/// A second signal to stop that comes sooner is the first one, told twice: process managers signal a process and then
/// its whole group. Longer than the watchdog takes to hear of a signal.
pub const REPEAT: u64 = 300;
/// How long a process that has a successor closes connections with their next answer before it stops.
pub const DRAIN: u64 = 1000;
/// A thread that wakes up so much later than it wanted to was stopped (SIGSTOP), and the whole process with it.
pub const STANDSTILL: u64 = 1000;

/// All of these, with the names that Python has for them.
pub const ALL: [(&str, u64); 4] = [("FAST", FAST), ("REPEAT", REPEAT), ("DRAIN", DRAIN), ("STANDSTILL", STANDSTILL)];

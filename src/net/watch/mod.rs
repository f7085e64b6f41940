//! What the watchdog sees: calls that are late or stuck, threads that compute or wait, how busy the process is.
//!
//! May know `shared` and what lies below it, and the server only as a [`watched::Watched`].

pub mod admission;
pub mod calls;
pub mod cpu;
pub mod dispositions;
pub mod load;
pub mod watchdog;
pub mod watched;

//! What the watchdog sees: calls that are late or stuck, threads that compute or wait, how busy the process is.

pub mod calls;
pub mod cpu;
pub mod heap;
pub mod load;
pub mod watchdog;

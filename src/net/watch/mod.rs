//! The watchdog: it looks after calls that are late or stuck, after threads that compute or wait, and after a late stop.
//!
//! May know `shared` and what lies below it, and the server only as a [`watched::Watched`].

pub mod admission;
pub mod calls;
pub mod cpu;
pub mod dispositions;
pub mod followers;
pub mod interrupter;
pub mod late_calls;
pub mod load;
pub mod stopping;
pub mod watchdog;
pub mod watched;

//! One process from its start to its end: what it was asked to do, by when it must be over, and which thread must wake up.
//!
//! May know `report` and what lies below it; knows neither connections nor the application.

pub mod process;
pub mod times;
pub mod wakeups;

//! What happens next: descriptors that are ready, deadlines that have passed, connections that wait.
//!
//! May know `connections` and what lies below it. Knows no thread, nor which of them does what an event asks for.

pub mod event_loop;
pub mod eviction;
pub mod listener;
pub mod poller;
pub mod table;

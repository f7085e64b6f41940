//! What happens next: descriptors that are ready, deadlines that have passed, connections that wait.

pub mod event_loop;
pub mod listener;
pub mod poller;
pub mod table;

//! Who works: the threads of one process, the baton that one of them holds, and how many calls go on at once.
//!
//! May know all other folders; none of them knows this one.

pub mod server;
pub mod team;

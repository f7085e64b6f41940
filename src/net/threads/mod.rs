//! Who works: the threads of one process, the baton that one of them holds, and how many calls go on at once.

pub mod admission;
pub mod dispositions;
pub mod panics;
pub mod server;
pub mod shared;
pub mod team;

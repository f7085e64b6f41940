//! Front servers: which are trusted, and what they tell of their clients.
//!
//! May know the files beside the folders that know nothing: clock, heap, lock, panics.

pub mod crowd;
pub mod front;
pub mod peer;
pub mod proxy_protocol;

//! Front servers: which are trusted, and what they tell of their clients.

pub mod crowd;
pub mod front;
pub mod peer;
pub mod proxy_protocol;

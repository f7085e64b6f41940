//! Front servers: which are trusted, and what they tell of their clients.

pub mod peer;
pub mod per_address;
pub mod policy;
pub mod proxy_protocol;

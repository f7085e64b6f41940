//! Reverse proxies: which are trusted, what they say about their clients, and how many connections an address may have.
//!
//! Knows addresses, the PROXY protocol and the fields that proxies add; knows neither sockets nor connections. May know the
//! files beside the folders, which know nothing: clock, heap, lock, panics.

pub mod peer;
pub mod per_address;
pub mod policy;
pub mod proxy_protocol;
pub mod request_id;

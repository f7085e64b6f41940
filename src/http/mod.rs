//! HTTP/1.1 without input or output: bytes become requests, and answers become bytes.
//!
//! Knows no socket, no clock and no Python, so that it is tested and fuzzed by itself. Ambiguous bytes are refused.

pub mod body;
pub mod forwarded;
pub mod framing;
pub mod grammar;
pub mod head;
pub mod head_parser;
pub mod line;
pub mod own_fields;
pub mod protocol;
pub mod reject;
pub mod response;

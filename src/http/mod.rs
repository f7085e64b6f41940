//! HTTP/1.1 without input or output: bytes in, facts out, and the other way round.
//!
//! Knows no socket, no clock and no Python, so it is tested and fuzzed by itself. What is ambiguous is refused.

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

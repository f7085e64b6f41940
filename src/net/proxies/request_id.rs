//! The id of a request: made here, or taken from a trusted proxy, for logs and for the application.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::http::head::{Field, RequestHead};
use crate::net::clock;

/// The longest request id that is taken from a proxy.
const LONGEST_ID: usize = 128;

/// Makes unique request ids: 128 bits in hexadecimal digits.
#[derive(Debug, Default)]
pub struct RequestIds {
    state: RandomState,
    count: AtomicU64,
}

impl RequestIds {
    /// A new one.
    pub fn make(&self) -> String {
        // Forked processes may share the random state, but not the process id.
        let seed = (self.count.fetch_add(1, Ordering::Relaxed), std::process::id(), clock::unix_second(), clock::now());
        format!("{:016x}{:016x}", self.state.hash_one(seed), self.state.hash_one((seed, 1)))
    }
}

/// The X-Request-ID of a head, if there is exactly one, short and plain enough for any log.
pub fn taken<'a>(head: &RequestHead, bytes: &'a [u8]) -> Option<&'a str> {
    let is_it = |field: &&Field| field.name.of(bytes).eq_ignore_ascii_case(b"x-request-id");
    let mut fields = head.fields.iter().filter(is_it);
    let value = fields.next().filter(|_| fields.next().is_none())?.value.of(bytes);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(byte);
    let fits = (1..=LONGEST_ID).contains(&value.len()) && value.iter().all(is_plain);
    std::str::from_utf8(value).ok().filter(|_| fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_requests_have_the_same_id() {
        let ids = RequestIds::default();
        let made: std::collections::HashSet<String> = (0..10_000).map(|_| ids.make()).collect();
        assert_eq!(made.len(), 10_000);
        assert!(made.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }
}

//! IMF-fixdate (RFC 9110 5.6.7), made once a second.

use std::time::{Duration, SystemTime};

/// The `Date` value of one second.
#[derive(Debug, Default)]
pub struct DateCache {
    second: u64,
    text: String,
}

impl DateCache {
    /// The date of `second`, counted from the Unix epoch.
    pub fn at(&mut self, second: u64) -> &[u8] {
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
        }
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_with_the_second() {
        let mut cache = DateCache::default();
        assert_eq!(cache.at(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(cache.at(784_111_778), b"Sun, 06 Nov 1994 08:49:38 GMT");
    }
}

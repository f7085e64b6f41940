//! The end of a connection whose client may still send. These bytes are discarded, so that it can send everything and then
//! read the answer: closing at once would reset the connection, and the client could lose the answer (RFC 9112 9.6).
//!
//! Most clients write a whole request before they read. So a client that was refused early may send for as long as the
//! request could have lasted, at the pace that `body_timeout` and `body_rate` ask of any body. That costs a place in the
//! table and no buffer; where places run out, such connections are the first to be cut.

use crate::limits::Limits;

/// Longest time of lingering, in ms: a body of 450 MB at one megabit per second takes so long.
const TIME: u64 = 60 * 60 * 1000;
/// Most bytes that are discarded, some seconds of work: the image of a disk, uploaded where it is too large.
const BYTES: u64 = 16 << 30;
/// Time between the last bytes of an incomplete answer and the reset, in ms: some proxies (lighttpd for one) take the answer
/// for a complete one if they see both at once.
pub const BEFORE_RESET: u64 = 100;

/// What the client has sent since the last answer.
#[derive(Debug, Default)]
pub struct Lingering {
    received: u64,
    /// Bytes of the announced body that are still to come; `u64::MAX` for a chunked body.
    awaited: u64,
    /// The client sends no more.
    pub has_ended: bool,
}

impl Lingering {
    /// For a client that has announced `awaited` more bytes.
    pub fn new(awaited: u64) -> Self {
        Self { awaited, ..Self::default() }
    }

    /// Note that `count` bytes were discarded.
    pub fn note(&mut self, count: usize) {
        self.received += count as u64;
        self.awaited = self.awaited.saturating_sub(count as u64);
    }

    /// How long the client may pause, in ms.
    pub fn patience(&self, limits: &Limits) -> u64 {
        if self.awaited > 0 { limits.body_timeout.max(limits.linger_timeout) } else { limits.linger_timeout }
    }

    /// Whether the client has sent long enough or enough; `elapsed`: ms since the answer.
    pub fn is_over(&self, elapsed: u64) -> bool {
        self.received > BYTES || elapsed > TIME
    }

    /// Whether the client sends more slowly than a body may come; `elapsed`: ms since the answer.
    pub fn is_too_slow(&self, elapsed: u64, limits: &Limits) -> bool {
        limits.is_too_slow(self.received, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_and_so_long_and_no_more() {
        let mut lingering = Lingering::new(u64::MAX);
        assert_eq!([lingering.is_over(TIME), lingering.is_over(TIME + 1)], [false, true]);
        lingering.note(usize::try_from(BYTES).unwrap());
        assert!(!lingering.is_over(TIME));
        lingering.note(1);
        assert!(lingering.is_over(0));
    }
}

//! The end of a connection whose client may still send: what comes is thrown away, so that the client can send all that
//! it has, and read the answer then. To close at once would reset the connection under the answer (RFC 9112 9.6).
//!
//! Most clients write a whole request before they read. So one that was refused early may send on as long as the
//! request could have lasted, at the pace that `body_timeout` and `body_rate` ask of any body. It costs a place in the
//! table and no buffer; where places are scarce it is the first to go.

use std::collections::VecDeque;

use crate::limits::Limits;
use crate::net::events::table::Key;

/// Longest time of this, in ms. A body of 450 MB that comes at one megabit per second takes so long.
const TIME: u64 = 60 * 60 * 1000;
/// Most bytes that are thrown away, some seconds of work: an image of a disk, uploaded where it is too large.
const BYTES: u64 = 16 << 30;
/// How long an answer that breaks off is with the client before the reset, in ms: lighttpd, for one, takes it for a whole
/// one where it learns of both at once.
pub const BEFORE_RESET: u64 = 100;

/// What came since the last answer.
#[derive(Debug, Default)]
pub struct Lingering {
    received: u64,
    /// Bytes of the announced body that are still to come; `u64::MAX` where chunks end it.
    awaited: u64,
    /// The client sends no more.
    pub has_ended: bool,
}

impl Lingering {
    /// For a client that has announced so many bytes more.
    pub fn new(awaited: u64) -> Self {
        Self { awaited, ..Self::default() }
    }

    /// So many bytes came.
    pub fn note(&mut self, count: usize) {
        self.received += count as u64;
        self.awaited = self.awaited.saturating_sub(count as u64);
    }

    /// How long the client may be silent, in ms.
    pub fn patience(&self, limits: &Limits) -> u64 {
        if self.awaited > 0 { limits.body_timeout.max(limits.linger_timeout) } else { limits.linger_timeout }
    }

    /// Whether the client has sent for long enough; `elapsed`: ms since the answer.
    pub fn is_over(&self, elapsed: u64) -> bool {
        self.received > BYTES || elapsed > TIME
    }

    /// Whether what comes is slower than a body may be; `elapsed`: ms since the answer.
    pub fn is_too_slow(&self, elapsed: u64, limits: &Limits) -> bool {
        limits.is_too_slow(self.received, elapsed)
    }
}

/// The connections that linger, in the order in which they are cut where a place is needed: the eldest first, and those of
/// trusted front servers last, since many clients may wait behind such a one.
#[derive(Debug, Default)]
pub struct Expendable {
    strangers: VecDeque<Key>,
    trusted: VecDeque<Key>,
}

impl Expendable {
    /// One more.
    pub fn add(&mut self, key: Key, is_trusted: bool) {
        if is_trusted { &mut self.trusted } else { &mut self.strangers }.push_back(key);
    }

    /// It is gone.
    pub fn remove(&mut self, key: Key) {
        self.strangers.retain(|&it| it != key);
        self.trusted.retain(|&it| it != key);
    }

    /// The next one to be cut.
    pub fn pop(&mut self) -> Option<Key> {
        self.strangers.pop_front().or_else(|| self.trusted.pop_front())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.strangers.is_empty() && self.trusted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::events::table::Table;

    #[test]
    fn so_much_and_so_long_and_no_more() {
        let mut lingering = Lingering::new(u64::MAX);
        assert_eq!([lingering.is_over(TIME), lingering.is_over(TIME + 1)], [false, true]);
        lingering.note(usize::try_from(BYTES).unwrap());
        assert!(!lingering.is_over(TIME));
        lingering.note(1);
        assert!(lingering.is_over(0));
    }

    #[test]
    fn strangers_are_cut_before_front_servers_and_the_eldest_first() {
        let (mut table, mut expendable) = (Table::<()>::default(), Expendable::default());
        let keys: Vec<_> = (0..5).map(|descriptor| table.reserve(descriptor)).collect();
        for (key, is_trusted) in keys.iter().zip([true, false, true, false, false]) {
            expendable.add(*key, is_trusted);
        }
        expendable.remove(keys[3]);
        assert_eq!([(); 4].map(|()| expendable.pop()), [1, 4, 0, 2].map(|index| Some(keys[index])));
        assert!(expendable.is_empty() && expendable.pop().is_none());
    }
}

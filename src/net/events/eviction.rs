//! The order in which lingering connections are cut where a place or a descriptor is needed: the oldest first, and those of
//! trusted proxies last, since many clients may wait behind one of them. Knows connections only by their keys.

use std::collections::VecDeque;

use super::table::Key;

/// The connections that may be cut.
#[derive(Debug, Default)]
pub struct EvictionQueue {
    strangers: VecDeque<Key>,
    trusted: VecDeque<Key>,
}

impl EvictionQueue {
    /// A connection begins to linger.
    pub fn add(&mut self, key: Key, is_trusted: bool) {
        if is_trusted { &mut self.trusted } else { &mut self.strangers }.push_back(key);
    }

    /// A connection has ended. Most end in the order in which they began to linger, so it is near the front.
    pub fn remove(&mut self, key: Key) {
        for queue in [&mut self.strangers, &mut self.trusted] {
            if let Some(index) = queue.iter().position(|&it| it == key) {
                queue.remove(index);
                return;
            }
        }
    }

    /// The next connection to cut.
    pub fn pop(&mut self) -> Option<Key> {
        self.strangers.pop_front().or_else(|| self.trusted.pop_front())
    }

    /// Whether no connection may be cut.
    pub fn is_empty(&self) -> bool {
        self.strangers.is_empty() && self.trusted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::events::table::Table;

    #[test]
    fn trusted_proxies_are_cut_last_and_the_oldest_connection_first() {
        let (mut table, mut queue) = (Table::<()>::default(), EvictionQueue::default());
        let keys: Vec<_> = (0..5).map(|descriptor| table.reserve(descriptor)).collect();
        for (key, is_trusted) in keys.iter().zip([true, false, true, false, false]) {
            queue.add(*key, is_trusted);
        }
        queue.remove(keys[3]);
        assert_eq!([(); 4].map(|()| queue.pop()), [1, 4, 0, 2].map(|index| Some(keys[index])));
        assert!(queue.is_empty() && queue.pop().is_none());
    }
}

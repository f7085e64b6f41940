//! Which connections are cut first where places or descriptors run out: those that only linger.

use std::collections::VecDeque;

use super::table::Key;

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

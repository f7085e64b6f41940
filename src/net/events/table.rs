//! The connections of one process and the deadlines of those that wait.
//!
//! A slot is empty, holds a connection that waits, or is reserved for one that is away: a thread owns it at the moment. Slots
//! are used again, but the [`Key`] of a connection that has ended finds nothing.

use std::os::fd::RawFd;

/// Identifies a connection, even after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The event token of the connection.
    pub fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The key that has this event token.
    pub fn from_token(token: u64) -> Self {
        #[allow(clippy::cast_possible_truncation)]
        Self { index: token as u32, generation: (token >> 32) as u32 }
    }
}

#[derive(Debug)]
enum Content<C> {
    Empty,
    Waiting(C),
    Away,
}

#[derive(Debug)]
struct Slot<C> {
    generation: u32,
    /// The descriptor of the connection; it stays open while the connection is away.
    descriptor: RawFd,
    /// The poller no longer watches the descriptor, because it became ready while the connection was away.
    is_unwatched: bool,
    /// Until when the connection may wait, in ms of [`crate::net::clock::now`].
    deadline: u64,
    content: Content<C>,
}

/// All connections.
#[derive(Debug)]
pub struct Table<C> {
    slots: Vec<Slot<C>>,
    free: Vec<u32>,
    count: usize,
    /// No deadline is before this.
    earliest: u64,
}

/// Tokens of generation 0 are used by the event loop itself.
const FIRST_GENERATION: u32 = 1;

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), count: 0, earliest: u64::MAX }
    }
}

impl<C> Table<C> {
    /// Reserve a slot for a new connection, which is away until [`Table::put`].
    pub fn reserve(&mut self, descriptor: RawFd) -> Key {
        self.count += 1;
        let free = self.free.pop();
        if let Some((index, slot)) = free.and_then(|index| Some((index, self.slots.get_mut(index as usize)?))) {
            slot.content = Content::Away;
            slot.descriptor = descriptor;
            slot.is_unwatched = false;
            return Key { index, generation: slot.generation };
        }
        let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(Slot {
            generation: FIRST_GENERATION,
            descriptor,
            is_unwatched: false,
            deadline: u64::MAX,
            content: Content::Away,
        });
        Key { index, generation: FIRST_GENERATION }
    }

    /// Let a connection that was away wait until `deadline`.
    pub fn put(&mut self, key: Key, connection: C, deadline: u64) {
        if let Some(slot) = self.slot(key) {
            slot.content = Content::Waiting(connection);
            slot.deadline = deadline;
            self.earliest = self.earliest.min(deadline);
        }
    }

    /// Take a waiting connection, which is away then.
    pub fn take(&mut self, key: Key) -> Option<C> {
        let slot = self.slot(key)?;
        match std::mem::replace(&mut slot.content, Content::Away) {
            Content::Waiting(connection) => Some(connection),
            other => {
                slot.content = other;
                None
            }
        }
    }

    /// The descriptor of a connection that is away; the caller stops watching it.
    pub fn unwatch(&mut self, key: Key) -> Option<RawFd> {
        let slot = self.slot(key).filter(|slot| matches!(slot.content, Content::Away))?;
        slot.is_unwatched = true;
        Some(slot.descriptor)
    }

    /// Whether [`Table::unwatch`] was called since the connection went away.
    pub fn was_unwatched(&mut self, key: Key) -> bool {
        self.slot(key).is_some_and(|slot| std::mem::take(&mut slot.is_unwatched))
    }

    /// A connection that was away has ended: free its slot.
    pub fn release(&mut self, key: Key) {
        if let Some(slot) = self.slot(key) {
            slot.content = Content::Empty;
            slot.deadline = u64::MAX;
            slot.generation = slot.generation.checked_add(1).unwrap_or(FIRST_GENERATION);
            self.free.push(key.index);
            self.count -= 1;
        }
    }

    /// Number of connections, waiting and away.
    pub fn count(&self) -> usize {
        self.count
    }

    /// No connection is late before this time.
    pub fn earliest_deadline(&self) -> Option<u64> {
        (self.earliest != u64::MAX).then_some(self.earliest)
    }

    /// The connections whose deadline has passed. It looks at every slot, so it is not to be called often.
    pub fn late(&mut self, now: u64) -> Vec<Key> {
        let (mut earliest, mut late) = (u64::MAX, Vec::new());
        for (key, slot) in self.waiting_slots() {
            if slot.deadline <= now { late.push(key) } else { earliest = earliest.min(slot.deadline) }
        }
        self.earliest = earliest;
        late
    }

    /// The connections that wait.
    pub fn waiting(&self) -> Vec<Key> {
        self.waiting_slots().map(|(key, _)| key).collect()
    }

    fn waiting_slots(&self) -> impl Iterator<Item = (Key, &Slot<C>)> {
        let waiting = (0..).zip(&self.slots).filter(|(_, slot)| matches!(slot.content, Content::Waiting(_)));
        waiting.map(|(index, slot)| (Key { index, generation: slot.generation }, slot))
    }

    fn slot(&mut self, key: Key) -> Option<&mut Slot<C>> {
        self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_nothing_after_the_end_of_its_connection() {
        let mut table = Table::default();
        let first = table.reserve(1);
        table.put(first, "first", 10);
        assert_eq!(table.take(first), Some("first"));
        assert_eq!((table.take(first), table.unwatch(first), table.was_unwatched(first)), (None, Some(1), true));
        assert!(!table.was_unwatched(first));
        table.release(first);
        let second = table.reserve(2);
        table.put(second, "second", 10);
        assert_eq!(second.token() & 0xffff_ffff, first.token() & 0xffff_ffff, "the slot is used again");
        assert_eq!((table.take(first), table.unwatch(first), table.count()), (None, None, 1));
        assert_eq!(Key::from_token(second.token()), second);
    }

    #[test]
    fn deadlines_are_found_once_they_come() {
        let mut table = Table::default();
        let keys: Vec<Key> = (0..3).map(|descriptor| table.reserve(descriptor)).collect();
        for (key, deadline) in keys.iter().zip([30, 10, 20]) {
            table.put(*key, (), deadline);
        }
        assert_eq!((table.earliest_deadline(), table.late(9)), (Some(10), vec![]));
        assert_eq!(table.late(20), vec![keys[1], keys[2]]);
        table.take(keys[1]);
        table.take(keys[2]);
        assert_eq!((table.late(29), table.earliest_deadline()), (vec![], Some(30)));
        table.take(keys[0]);
        assert_eq!((table.late(99), table.earliest_deadline()), (vec![], None));
    }
}

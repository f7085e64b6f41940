//! The connections of one process: slots with a generation, and the deadlines of those that wait.
//!
//! A slot is empty, holds a connection that waits, or stands for one that is away: owned by a thread, in the
//! application. A [`Key`] of a connection that is gone finds nothing, even if its slot is used again.

use std::os::fd::RawFd;

/// Names a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// As an event token.
    pub fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// From an event token.
    pub fn from_token(token: u64) -> Self {
        #[allow(clippy::cast_possible_truncation)]
        Self { index: token as u32, generation: (token >> 32) as u32 }
    }
}

#[derive(Debug)]
enum Place<C> {
    Empty,
    Here(C),
    Away,
}

#[derive(Debug)]
struct Slot<C> {
    generation: u32,
    /// Its descriptor; that of a connection which is away stays open until it returns.
    descriptor: RawFd,
    /// The poller was told to forget the descriptor, because it became ready while the connection was away.
    unwatched: bool,
    /// When the connection here has waited too long, in ms of [`crate::net::clock::now`].
    deadline: u64,
    place: Place<C>,
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

/// A generation of zero would make the first keys look like small numbers, which the event loop uses for itself.
const FIRST_GENERATION: u32 = 1;

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), count: 0, earliest: u64::MAX }
    }
}

impl<C> Table<C> {
    /// Make room for a connection, which is away until [`Table::put`].
    pub fn reserve(&mut self, descriptor: RawFd) -> Key {
        self.count += 1;
        if let Some(index) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            slot.place = Place::Away;
            slot.descriptor = descriptor;
            slot.unwatched = false;
            return Key { index, generation: slot.generation };
        }
        let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(Slot {
            generation: FIRST_GENERATION,
            descriptor,
            unwatched: false,
            deadline: u64::MAX,
            place: Place::Away,
        });
        Key { index, generation: FIRST_GENERATION }
    }

    /// Put a connection that was away back, to wait until `deadline`.
    pub fn put(&mut self, key: Key, connection: C, deadline: u64) {
        if let Some(slot) = self.slot(key) {
            slot.place = Place::Here(connection);
            slot.deadline = deadline;
            self.earliest = self.earliest.min(deadline);
        }
    }

    /// Take a connection that waits; it is away then.
    pub fn take(&mut self, key: Key) -> Option<C> {
        let slot = self.slot(key)?;
        match std::mem::replace(&mut slot.place, Place::Away) {
            Place::Here(connection) => Some(connection),
            other => {
                slot.place = other;
                None
            }
        }
    }

    /// The descriptor of a connection that is away, which the caller will watch no more.
    pub fn unwatch(&mut self, key: Key) -> Option<RawFd> {
        let slot = self.slot(key).filter(|slot| matches!(slot.place, Place::Away))?;
        slot.unwatched = true;
        Some(slot.descriptor)
    }

    /// Whether the descriptor was unwatched since the connection went away.
    pub fn was_unwatched(&mut self, key: Key) -> bool {
        self.slot(key).is_some_and(|slot| std::mem::take(&mut slot.unwatched))
    }

    /// Forget a connection that was away.
    pub fn release(&mut self, key: Key) {
        if let Some(slot) = self.slot(key) {
            slot.place = Place::Empty;
            slot.deadline = u64::MAX;
            // Skip the generations that would collide with the tokens of the event loop.
            slot.generation = slot.generation.checked_add(1).unwrap_or(FIRST_GENERATION);
            self.free.push(key.index);
            self.count -= 1;
        }
    }

    /// How many connections there are, here and away.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// When [`Table::late`] may find something.
    pub fn earliest_deadline(&self) -> Option<u64> {
        (self.earliest != u64::MAX).then_some(self.earliest)
    }

    /// The connections whose deadline has come. Looks at every slot, so ask seldom.
    pub fn late(&mut self, now: u64) -> Vec<Key> {
        let mut earliest = u64::MAX;
        let mut late = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            if let Place::Here(_) = slot.place {
                if slot.deadline <= now {
                    late.push(Key { index: u32::try_from(index).unwrap_or(u32::MAX), generation: slot.generation });
                } else {
                    earliest = earliest.min(slot.deadline);
                }
            }
        }
        self.earliest = earliest;
        late
    }

    /// The connections that wait.
    pub fn waiting(&self) -> Vec<Key> {
        let here = |(_, slot): &(usize, &Slot<C>)| matches!(slot.place, Place::Here(_));
        let key = |(index, slot): (usize, &Slot<C>)| Key {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            generation: slot.generation,
        };
        self.slots.iter().enumerate().filter(here).map(key).collect()
    }

    fn slot(&mut self, key: Key) -> Option<&mut Slot<C>> {
        self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_dies_with_its_connection() {
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
        assert_eq!((table.take(first), table.unwatch(first), table.len()), (None, None, 1));
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

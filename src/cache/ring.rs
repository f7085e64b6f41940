//! The ring of a shard: records one behind the other, from which room for a new one is made.
//!
//! A record is put at the head. Behind the head is a gap, and then come the oldest records: where the gap is too small,
//! the oldest one is given up, or moved to the head if it is still wanted. At the end of the memory in use the head goes
//! on at the begin; or more memory is taken, if much of what is in use is wanted. So the memory in use stays below twice
//! of what is wanted and a step, and nothing that is wanted is given up while more memory can be had.

use crate::cache::record::{Damaged, LIVE, Record, USED, block, fill, number, put};
use crate::cache::shard::{EVICTIONS, Shard};

/// Bytes that are taken at a time.
pub(super) const STEP: usize = 128 << 10;
/// Records, and bytes beside a multiple of the new record, that are moved for one new record at most.
const MOVED_RECORDS: usize = 1024;
const MOVED_BYTES: usize = 256 << 10;
/// How often the head goes round for one new record at most. Before the last rounds nothing is moved any more.
const ROUNDS: usize = 4;

/// Where the parts of the ring begin: records from the first one to `head`, a gap to `edge`, and older records to `end`.
/// If there are none, all to `taken` is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Where the next record is put.
    pub head: usize,
    /// The begin of the oldest record.
    pub edge: usize,
    /// The end of the oldest records.
    pub end: usize,
    /// The end of the memory that may be used.
    pub taken: usize,
    /// Bytes of live records.
    pub live: usize,
    /// How many they are.
    pub items: usize,
}

/// What may still be moved for one new record.
struct Moves {
    records: usize,
    bytes: usize,
}

impl Shard<'_> {
    /// Make room for a record, and count it as live. Returns where it begins; `None` if not enough memory can be had.
    pub(super) fn make_room(&mut self, needed: usize, now: u64) -> Result<Option<usize>, Damaged> {
        let mut ring = self.ring()?;
        let mut moves = Moves { records: MOVED_RECORDS, bytes: MOVED_BYTES + 4 * needed };
        let (mut rounds, mut may_grow) = (0, true);
        loop {
            let free = if ring.edge == ring.end { ring.taken } else { ring.edge };
            if free - ring.head >= needed {
                break;
            }
            if may_grow && ring.taken < self.memory.len() && (ring.live + needed) * 2 >= ring.taken - self.first {
                self.leave_gap(&mut ring)?;
                may_grow = self.extend(&mut ring, needed);
            } else if ring.edge < ring.end {
                self.reclaim(&mut ring, &mut moves, now)?;
            } else if rounds < ROUNDS {
                rounds += 1;
                ring = Ring { head: self.first, edge: self.first, end: ring.head, ..ring };
                if rounds + 1 == ROUNDS {
                    moves.records = 0;
                }
            } else {
                self.set_ring(&ring)?;
                return Ok(None);
            }
        }
        let at = ring.head;
        ring.head += needed;
        if ring.edge == ring.end {
            (ring.edge, ring.end) = (ring.head, ring.head);
        }
        ring.live += needed;
        ring.items += 1;
        self.set_ring(&ring)?;
        Ok(Some(at))
    }

    /// Go on behind the last record. What was the gap becomes a dead record.
    fn leave_gap(&mut self, ring: &mut Ring) -> Result<(), Damaged> {
        if ring.edge < ring.end {
            if ring.head < ring.edge {
                fill(self.memory, ring.head, ring.edge - ring.head)?;
            }
            ring.head = ring.end;
        }
        (ring.edge, ring.end) = (ring.head, ring.head);
        Ok(())
    }

    /// Take more memory, so that `needed` bytes fit behind the head. Returns whether there was some.
    fn extend(&self, ring: &mut Ring, needed: usize) -> bool {
        let wanted = (ring.head + needed).max(ring.taken + 1).next_multiple_of(STEP).min(self.memory.len());
        let is_more = (self.grow)(ring.taken, wanted);
        if is_more {
            ring.taken = wanted;
        }
        is_more
    }

    /// Give up the oldest record, or move it to the head.
    fn reclaim(&mut self, ring: &mut Ring, moves: &mut Moves, now: u64) -> Result<(), Damaged> {
        let at = ring.edge;
        let (room, flags) = block(self.memory, at)?;
        ring.edge = Some(at + room).filter(|edge| *edge <= ring.end).ok_or(Damaged)?;
        if flags & LIVE == 0 {
            return Ok(());
        }
        let record = Record::read(self.memory, at)?;
        let link = self.link_to(&record)?;
        let is_crowded = ring.live * 4 >= (ring.taken - self.first) * 3;
        let is_wanted = !record.is_over(now) && (flags & USED != 0 || !is_crowded);
        if is_wanted && moves.records > 0 && moves.bytes >= room {
            moves.records -= 1;
            moves.bytes -= room;
            self.memory.copy_within(at..at + room, ring.head);
            let flags = if is_crowded { flags & !USED } else { flags };
            Record { at: ring.head, flags, ..record }.write(self.memory)?;
            self.set_link(link, ring.head)?;
            ring.head += room;
            return Ok(());
        }
        put(self.memory, link, &record.next.to_ne_bytes())?;
        ring.live = ring.live.checked_sub(room).ok_or(Damaged)?;
        ring.items = ring.items.checked_sub(1).ok_or(Damaged)?;
        if !record.is_over(now) {
            self.count(EVICTIONS);
        }
        Ok(())
    }

    /// The state of the ring.
    pub(super) fn ring(&self) -> Result<Ring, Damaged> {
        let size = |at| usize::try_from(number(self.memory, at)?).map_err(|_| Damaged);
        let ring =
            Ring { head: size(0)?, edge: size(4)?, end: size(8)?, taken: size(12)?, live: size(16)?, items: size(20)? };
        let places = [self.first, ring.head, ring.edge, ring.end, ring.taken, self.memory.len()];
        let is_possible = places.is_sorted() && ring.live <= ring.taken - self.first;
        if is_possible { Ok(ring) } else { Err(Damaged) }
    }

    /// Note the state of the ring.
    pub(super) fn set_ring(&mut self, ring: &Ring) -> Result<(), Damaged> {
        let mut words = [[0; 4]; 6];
        let sizes = [ring.head, ring.edge, ring.end, ring.taken, ring.live, ring.items];
        for (word, size) in words.iter_mut().zip(sizes) {
            *word = u32::try_from(size).map_err(|_| Damaged)?.to_ne_bytes();
        }
        put(self.memory, 0, words.as_flattened())
    }
}

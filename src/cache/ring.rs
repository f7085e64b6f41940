//! The ring of a shard: records one behind the other, from which room for a new one is made.
//!
//! A record is put at the head. Behind the head is a gap, and then come the oldest records: where the gap is too small,
//! the oldest one is given up, or kept if it is still wanted: moved to the head, or passed where the head would have to
//! move many. At the end of the memory in use the head goes on at the begin; or more memory is taken, if much of what is
//! in use is wanted. So the memory in use stays below twice of what is wanted and a step; and while a quarter of all
//! memory is free, nothing that is wanted is given up, unless no place was found in a whole round.

use crate::cache::record::{Damaged, LIVE, Record, USED, block, fill, number, put};
use crate::cache::shard::{EVICTIONS, Shard, TAKEN};

/// Bytes that are taken at a time.
pub(super) const STEP: usize = 128 << 10;
/// Bytes that are moved for one new record at most: behind the last one that was given up, and in all. Each record counts
/// for some bytes more, as the index must be told.
const MOVED_IN_A_ROW: usize = 64 << 10;
const MOVED: usize = 512 << 10;
const MOVED_WITH_EACH: usize = 256;
/// Records that are kept for one new record at most.
const KEPT: usize = 100_000;
/// How often the head goes round for one new record at most. In the last round nothing is kept.
const ROUNDS: usize = 2;

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

/// What was done for one new record.
#[derive(Default)]
struct Work {
    needed: usize,
    moved_in_a_row: usize,
    moved: usize,
    kept: usize,
    rounds: usize,
}

impl Work {
    /// Whether old records may still be kept.
    fn may_keep(&self) -> bool {
        self.kept < KEPT && self.rounds < ROUNDS
    }

    /// Whether a record of this room may still be moved. Then it counts as moved.
    fn may_move(&mut self, room: usize) -> bool {
        let cost = room + MOVED_WITH_EACH;
        let may = self.moved_in_a_row + cost <= MOVED_IN_A_ROW && self.moved + cost <= MOVED + 4 * self.needed;
        if may {
            self.moved_in_a_row += cost;
            self.moved += cost;
        }
        may
    }
}

impl Shard<'_> {
    /// Make room for a record, and count it as live. Returns where it begins; `None` if not enough memory can be had.
    pub(super) fn make_room(&mut self, needed: usize, now: u64) -> Result<Option<usize>, Damaged> {
        let mut ring = self.ring()?;
        let mut work = Work { needed, ..Work::default() };
        let mut may_grow = true;
        loop {
            let free = if ring.edge == ring.end { ring.taken } else { ring.edge };
            if free - ring.head >= needed {
                break;
            }
            let used = ring.taken - self.first;
            if may_grow && ring.taken < self.memory.len() && (ring.live + needed) * 2 >= used {
                self.go_to_end(&mut ring)?;
                may_grow = self.extend(&mut ring, needed);
            } else if needed > used || work.rounds > ROUNDS {
                self.set_ring(&ring)?;
                return Ok(None);
            } else if ring.edge < ring.end {
                self.reclaim(&mut ring, &mut work, now)?;
            } else {
                work.rounds += 1;
                ring = Ring { head: self.first, edge: self.first, end: ring.head, ..ring };
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

    /// Go on behind the last record.
    fn go_to_end(&mut self, ring: &mut Ring) -> Result<(), Damaged> {
        if ring.edge < ring.end {
            self.close_gap(ring.head, ring.edge)?;
            ring.head = ring.end;
        }
        (ring.edge, ring.end) = (ring.head, ring.head);
        Ok(())
    }

    /// Let a dead record fill the gap.
    fn close_gap(&mut self, head: usize, edge: usize) -> Result<(), Damaged> {
        if head < edge { fill(self.memory, head, edge - head) } else { Ok(()) }
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

    /// Give up the oldest record, or keep it.
    fn reclaim(&mut self, ring: &mut Ring, work: &mut Work, now: u64) -> Result<(), Damaged> {
        let at = ring.edge;
        let (room, flags) = block(self.memory, at)?;
        ring.edge = Some(at + room).filter(|edge| *edge <= ring.end).ok_or(Damaged)?;
        if flags & LIVE == 0 {
            work.moved_in_a_row = 0;
            return Ok(());
        }
        let record = Record::read(self.memory, at)?;
        let is_crowded = ring.live * 4 >= (ring.taken - self.first) * 3;
        if work.may_keep() && !record.is_over(now) && (flags & USED != 0 || !is_crowded) {
            work.kept += 1;
            let flags = if is_crowded { flags & !USED } else { flags };
            return self.keep(ring, work, Record { flags, ..record });
        }
        work.moved_in_a_row = 0;
        let link = self.link_to(&record)?;
        put(self.memory, link, &record.next.to_ne_bytes())?;
        ring.live = ring.live.checked_sub(room).ok_or(Damaged)?;
        ring.items = ring.items.checked_sub(1).ok_or(Damaged)?;
        if !record.is_over(now) {
            self.count(EVICTIONS);
        }
        Ok(())
    }

    /// Keep a record that lies behind the gap: move it to the head, or go on behind it.
    fn keep(&mut self, ring: &mut Ring, work: &mut Work, record: Record) -> Result<(), Damaged> {
        let Record { at, room, .. } = record;
        if ring.head < at && work.may_move(room) {
            let link = self.link_to(&record)?;
            self.memory.copy_within(at..at + room, ring.head);
            Record { at: ring.head, ..record }.write(self.memory)?;
            self.set_link(link, ring.head)?;
            ring.head += room;
        } else {
            self.close_gap(ring.head, at)?;
            record.write(self.memory)?;
            ring.head = at + room;
        }
        Ok(())
    }

    /// The state of the ring.
    pub(super) fn ring(&self) -> Result<Ring, Damaged> {
        let size = |at| usize::try_from(number(self.memory, at)?).map_err(|_| Damaged);
        let ring = Ring {
            head: size(0)?,
            edge: size(4)?,
            end: size(8)?,
            taken: size(TAKEN)?,
            live: size(16)?,
            items: size(20)?,
        };
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

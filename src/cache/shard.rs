//! A shard: records in a ring, and an index that finds them by their keys.
//!
//! Knows its bytes, and a function that makes more of them usable. Knows neither locks nor files. A shard begins with
//! the state of the ring and counters; the index follows, chains of records by a part of the hash; then the ring. Memory
//! above what the ring has taken is never touched.

use crate::cache::record::{BYTES, Damaged, HEAD, INTEGER, LIVE, Record, USED, number, put, room_for, sum_of};
use crate::cache::ring::Ring;

/// Bytes of the state before the index.
const STATE: usize = 64;
/// A bucket of the index for so many bytes of the shard.
const BYTES_A_BUCKET: usize = 256;
/// Bytes of the ring that are there from the start.
const FIRST: usize = 64 << 10;
/// Records of one chain at most. The hash is a secret, so nobody can make chains long.
const LONGEST: usize = 1000;

/// Where the end of the memory that may be used is.
pub(super) const TAKEN: usize = 12;
/// Where the counters are.
const HITS: usize = 24;
const MISSES: usize = 32;
pub(super) const EVICTIONS: usize = 40;

/// A key, with a part of its hash.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The part of the hash.
    pub tag: u32,
}

/// What is put under a key.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What the value means.
    pub kind: u8,
    /// The value.
    pub value: &'a [u8],
    /// When it is over, in nanoseconds since the machine has started; 0 for never.
    pub expires: u64,
}

/// When a value is put.
#[derive(Clone, Copy, Debug)]
pub enum When<'a> {
    /// In any case.
    Always,
    /// If there is none.
    Missing,
    /// If there is one of bytes that starts with these.
    StartsWith(&'a [u8]),
}

/// What came of a request to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// The number now.
    To(i64),
    /// There is no value.
    #[default]
    Missing,
    /// The value is of another kind.
    NoInteger,
    /// The number would be too large; it stays what it is.
    Overflow,
}

/// A shard.
pub struct Shard<'a> {
    pub(super) memory: &'a mut [u8],
    /// Makes the bytes between two offsets usable; tells whether they are.
    pub(super) grow: &'a dyn Fn(usize, usize) -> bool,
    /// How many buckets less one, a number of ones in binary.
    mask: u32,
    /// Where the ring begins.
    pub(super) first: usize,
}

impl<'a> Shard<'a> {
    /// The shard in this memory.
    pub fn new(memory: &'a mut [u8], grow: &'a dyn Fn(usize, usize) -> bool) -> Self {
        let mask = u32::try_from(buckets_of(memory.len()) - 1).unwrap_or(0);
        let first = first_of(memory.len());
        Self { memory, grow, mask, first }
    }

    /// How much of a shard must be usable from the start.
    pub fn usable_from_start(length: usize) -> usize {
        (first_of(length) + FIRST).min(length)
    }

    /// Let there be nothing, and no more memory in use than from the start.
    pub fn empty(&mut self) {
        let first = self.first;
        let taken = Self::usable_from_start(self.memory.len());
        if let Some(index) = self.memory.get_mut(STATE..first) {
            index.fill(0);
        }
        // It cannot fail: these sizes are those of the shard.
        let _ = self.set_ring(&Ring { head: first, edge: first, end: first, taken, live: 0, items: 0 });
    }

    /// The kind and the value of a key, if there is one. now: the clock, which is read if that matters. copy: makes a copy
    /// of a value, of its kind, which is what is judged.
    pub fn get<C: AsRef<[u8]>>(
        &mut self,
        name: Name<'_>,
        now: &dyn Fn() -> u64,
        copy: impl FnOnce(u8, &[u8]) -> C,
    ) -> Result<Option<(u8, C)>, Damaged> {
        let found = self.locate(name)?.map(|(_, record)| record);
        let Some(record) = found.filter(|record| record.expires == 0 || !record.is_over(now())) else {
            self.count(MISSES);
            return Ok(None);
        };
        self.count(HITS);
        if record.flags & USED == 0 {
            self.note_used(&record)?;
        }
        let value = copy(record.kind, record.value(self.memory)?);
        if sum_of(record.kind, value.as_ref()) == record.sum { Ok(Some((record.kind, value))) } else { Err(Damaged) }
    }

    /// Whether there is a value.
    pub fn has(&self, name: Name<'_>, now: u64) -> Result<bool, Damaged> {
        Ok(self.live(name, now)?.is_some())
    }

    /// Put a value under a key. Returns whether `when` was so. If not enough memory can be had, there is no value then.
    pub fn set(&mut self, name: Name<'_>, entry: Entry<'_>, when: When<'_>, now: u64) -> Result<bool, Damaged> {
        let found = self.locate(name)?;
        let live = found.filter(|(_, record)| !record.is_over(now));
        let may = match (when, live) {
            (When::Always, _) | (When::Missing, None) => true,
            (When::StartsWith(prefix), Some((_, old))) => self.starts_with(&old, prefix)?,
            _ => false,
        };
        if may {
            self.put(name, entry, found, now)?;
        }
        Ok(may)
    }

    /// Add to the number of a key. If there is none, begin with `start`, if given, which is over at its time.
    pub fn count_up(
        &mut self,
        name: Name<'_>,
        delta: i64,
        start: Option<(i64, u64)>,
        now: u64,
    ) -> Result<Counted, Damaged> {
        let found = self.locate(name)?;
        let (old, expires) = match (found.filter(|(_, record)| !record.is_over(now)), start) {
            (Some((_, record)), _) => match self.integer(&record)? {
                Some(number) => (number, record.expires),
                None => return Ok(Counted::NoInteger),
            },
            (None, Some(start)) => start,
            (None, None) => return Ok(Counted::Missing),
        };
        let Some(sum) = old.checked_add(delta) else { return Ok(Counted::Overflow) };
        self.put(name, Entry { kind: INTEGER, value: &sum.to_ne_bytes(), expires }, found, now)?;
        Ok(Counted::To(sum))
    }

    /// Remove the value of a key. Returns whether there was one.
    pub fn delete(&mut self, name: Name<'_>, now: u64) -> Result<bool, Damaged> {
        let Some((link, record)) = self.locate(name)? else { return Ok(false) };
        self.remove(link, &record)?;
        Ok(!record.is_over(now))
    }

    /// Let the value of a key be over at another time. Returns whether there is one.
    pub fn touch(&mut self, name: Name<'_>, expires: u64, now: u64) -> Result<bool, Damaged> {
        let Some(record) = self.live(name, now)? else { return Ok(false) };
        Record { expires, flags: record.flags | USED, ..record }.write(self.memory)?;
        Ok(true)
    }

    /// What happened, and what is there: hits, misses, values (also those that are over and not given up yet), their
    /// bytes, how many were given up for others, and the bytes of memory in use.
    pub fn stats(&self) -> Result<[u64; 6], Damaged> {
        let ring = self.ring()?;
        let counter = |at| {
            let words = self.memory.get(at..).and_then(<[u8]>::first_chunk);
            words.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        let sizes = (ring.items as u64, ring.live as u64, ring.taken as u64);
        Ok([counter(HITS), counter(MISSES), sizes.0, sizes.1, counter(EVICTIONS), sizes.2])
    }

    /// Whether a value is bytes that start with these.
    fn starts_with(&self, record: &Record, prefix: &[u8]) -> Result<bool, Damaged> {
        let value = record.value(self.memory)?;
        let is_so = record.kind == BYTES && value.starts_with(prefix);
        if sum_of(record.kind, value) == record.sum { Ok(is_so) } else { Err(Damaged) }
    }

    /// The number that a value is, if it is one.
    fn integer(&self, record: &Record) -> Result<Option<i64>, Damaged> {
        let value = record.value(self.memory)?;
        let number = <[u8; 8]>::try_from(value).ok().filter(|_| record.kind == INTEGER);
        let copy = number.as_ref().map_or(value, <[u8; 8]>::as_slice);
        if sum_of(record.kind, copy) == record.sum { Ok(number.map(i64::from_ne_bytes)) } else { Err(Damaged) }
    }

    /// Write a value: where the old one is if it fits there, else at the head of the ring.
    fn put(
        &mut self,
        name: Name<'_>,
        entry: Entry<'_>,
        found: Option<(usize, Record)>,
        now: u64,
    ) -> Result<(), Damaged> {
        let needed = room_for(name.key.len(), entry.value.len());
        let sum = sum_of(entry.kind, entry.value);
        let changed = Record {
            at: 0,
            next: 0,
            room: needed,
            tag: name.tag,
            key: name.key.len(),
            value: entry.value.len(),
            kind: entry.kind,
            flags: LIVE,
            sum,
            expires: entry.expires,
        };
        if let Some((link, old)) = found {
            if needed <= old.room && old.room <= 2 * needed {
                let record = Record { at: old.at, next: old.next, room: old.room, flags: LIVE | USED, ..changed };
                return self.write(&record, name.key, entry.value);
            }
            self.remove(link, &old)?;
        }
        let Some(at) = self.make_room(needed, now)? else {
            self.count(EVICTIONS);
            return Ok(());
        };
        let bucket = self.bucket(name.tag);
        let next = number(self.memory, bucket)?;
        self.write(&Record { at, next, ..changed }, name.key, entry.value)?;
        self.set_link(bucket, at)
    }

    fn write(&mut self, record: &Record, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        record.write(self.memory)?;
        put(self.memory, record.at + HEAD, key)?;
        put(self.memory, record.at + HEAD + key.len(), value)
    }

    /// Take a record out of the index, and mark it as dead. link: of the index or of a record, which leads to it.
    fn remove(&mut self, link: usize, record: &Record) -> Result<(), Damaged> {
        let ring = self.ring()?;
        let live = ring.live.checked_sub(record.room).ok_or(Damaged)?;
        let items = ring.items.checked_sub(1).ok_or(Damaged)?;
        put(self.memory, link, &record.next.to_ne_bytes())?;
        Record { flags: 0, ..*record }.write(self.memory)?;
        self.set_ring(&Ring { live, items, ..ring })
    }

    /// Find the record of a key, and the link that leads to it.
    fn locate(&self, name: Name<'_>) -> Result<Option<(usize, Record)>, Damaged> {
        let mut link = self.bucket(name.tag);
        for _ in 0..LONGEST {
            let Some(record) = self.next(link)? else { return Ok(None) };
            if record.tag == name.tag && record.key(self.memory)? == name.key {
                return Ok(Some((link, record)));
            }
            link = record.at;
        }
        Err(Damaged)
    }

    /// The link that leads to a record.
    pub(super) fn link_to(&self, record: &Record) -> Result<usize, Damaged> {
        let mut link = self.bucket(record.tag);
        for _ in 0..LONGEST {
            let found = self.next(link)?.ok_or(Damaged)?;
            if found.at == record.at {
                return Ok(link);
            }
            link = found.at;
        }
        Err(Damaged)
    }

    fn live(&self, name: Name<'_>, now: u64) -> Result<Option<Record>, Damaged> {
        Ok(self.locate(name)?.map(|(_, record)| record).filter(|record| !record.is_over(now)))
    }

    /// The record that a link leads to. The first word of a record is a link, too.
    fn next(&self, link: usize) -> Result<Option<Record>, Damaged> {
        let at = usize::try_from(number(self.memory, link)?).map_err(|_| Damaged)?;
        match at {
            0 => Ok(None),
            at if at < self.first => Err(Damaged),
            at => Record::read(self.usable()?, at).map(Some),
        }
    }

    /// The memory that may be read.
    fn usable(&self) -> Result<&[u8], Damaged> {
        let taken = usize::try_from(number(self.memory, TAKEN)?).map_err(|_| Damaged)?;
        self.memory.get(..taken).ok_or(Damaged)
    }

    pub(super) fn set_link(&mut self, link: usize, at: usize) -> Result<(), Damaged> {
        put(self.memory, link, &u32::try_from(at).map_err(|_| Damaged)?.to_ne_bytes())
    }

    /// Where the chain of a key begins.
    fn bucket(&self, tag: u32) -> usize {
        STATE + usize::try_from(tag & self.mask).unwrap_or(0) * 4
    }

    fn note_used(&mut self, record: &Record) -> Result<(), Damaged> {
        Record { flags: record.flags | USED, ..*record }.write(self.memory)
    }

    pub(super) fn count(&mut self, counter: usize) {
        if let Some(bytes) = self.memory.get_mut(counter..).and_then(<[u8]>::first_chunk_mut) {
            *bytes = u64::from_ne_bytes(*bytes).wrapping_add(1).to_ne_bytes();
        }
    }
}

/// Where the ring of a shard of this length begins.
fn first_of(length: usize) -> usize {
    STATE + 4 * buckets_of(length)
}

/// How many buckets the index of a shard of this length has: a power of two, and some even if it is tiny.
fn buckets_of(length: usize) -> usize {
    1 << (length / BYTES_A_BUCKET).max(16).ilog2()
}

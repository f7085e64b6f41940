//! The form of a record: a head of 32 bytes, the key, the value, and what is left of its room.
//!
//! Knows bytes at an offset in a shard. Knows neither the index nor the ring that the records lie in.
//!
//! If something writes into the file without the lock, bytes change while they are read. So numbers are copied first, and
//! judged and used as they were copied: whatever they are, each slice that they lead to ends within the shard. Keys and
//! values are only compared, summed and copied, and a value is right if the sum of its copy is.

use std::hint::black_box;

use crate::words::{WORD, word_of};

/// Bytes of the head.
pub const HEAD: usize = 32;
/// Each record begins at a multiple of this, and takes one.
pub const UNIT: usize = 16;

/// A kind of value: bytes as they are. The other kinds are the business of those who use the cache.
pub const BYTES: u8 = 0;
/// A kind of value: an `i64`.
pub const INTEGER: u8 = 2;

/// The index leads to the record.
pub const LIVE: u8 = 1;
/// It was used since it was put where it is.
pub const USED: u8 = 2;

/// An odd number without a pattern, with which sums are made.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What was read cannot be: an offset outside of the shard, a chain without an end, a value with another sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// The head of a record. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it begins in the shard.
    pub at: usize,
    /// Where the next record of its chain begins; 0 for none.
    pub next: u32,
    /// What it takes, to the begin of the record behind it.
    pub room: usize,
    /// A part of the hash of its key.
    pub tag: u32,
    /// The size of the key.
    pub key: usize,
    /// The size of the value.
    pub value: usize,
    /// What the value means to those who use the cache.
    pub kind: u8,
    /// `LIVE`, `USED`.
    pub flags: u8,
    /// The sum of the value. It stands in the head mixed with `tag` and `expires`, and so is wrong if one of them is.
    pub sum: u32,
    /// When it is over, in nanoseconds since the machine has started; 0 for never.
    pub expires: u64,
}

impl Record {
    /// Read the head of the live record at `at`.
    pub fn read(memory: &[u8], at: usize) -> Result<Self, Damaged> {
        let [next, room, tag, [key, key_high, kind, flags], value, sum, expires, expires_high] = words(memory, at)?;
        let size = |bytes| usize::try_from(u32::from_ne_bytes(bytes)).map_err(|_| Damaged);
        let tag = u32::from_ne_bytes(tag);
        let expires = u64::from(u32::from_ne_bytes(expires)) | u64::from(u32::from_ne_bytes(expires_high)) << 32;
        let record = Self {
            at,
            next: u32::from_ne_bytes(next),
            room: size(room)?,
            tag,
            key: usize::from(u16::from_ne_bytes([key, key_high])),
            value: size(value)?,
            kind,
            flags,
            sum: u32::from_ne_bytes(sum) ^ seal(tag, expires),
            expires,
        };
        let is_whole = room_for(record.key, record.value) <= record.room && record.room <= memory.len() - at;
        let is_placed = at % UNIT == 0 && record.room % UNIT == 0;
        if is_whole && is_placed && flags & LIVE != 0 { Ok(record) } else { Err(Damaged) }
    }

    /// Write the head.
    pub fn write(&self, memory: &mut [u8]) -> Result<(), Damaged> {
        let small = |size: usize| u32::try_from(size).map_err(|_| Damaged);
        let [key, key_high] = u16::try_from(self.key).map_err(|_| Damaged)?.to_ne_bytes();
        let words = [
            self.next.to_ne_bytes(),
            small(self.room)?.to_ne_bytes(),
            self.tag.to_ne_bytes(),
            [key, key_high, self.kind, self.flags],
            small(self.value)?.to_ne_bytes(),
            (self.sum ^ seal(self.tag, self.expires)).to_ne_bytes(),
        ];
        let low = u32::try_from(self.expires & u64::from(u32::MAX)).map_err(|_| Damaged)?;
        let high = u32::try_from(self.expires >> 32).map_err(|_| Damaged)?;
        put(memory, self.at, words.as_flattened())?;
        put(memory, self.at + 24, [low.to_ne_bytes(), high.to_ne_bytes()].as_flattened())
    }

    /// Its key.
    pub fn key<'a>(&self, memory: &'a [u8]) -> Result<&'a [u8], Damaged> {
        let start = self.at + HEAD;
        memory.get(start..start + self.key).ok_or(Damaged)
    }

    /// Its value, whether the sum is right or not.
    pub fn value<'a>(&self, memory: &'a [u8]) -> Result<&'a [u8], Damaged> {
        let start = self.at + HEAD + self.key;
        memory.get(start..start + self.value).ok_or(Damaged)
    }

    /// Whether it is over at this time.
    pub fn is_over(&self, now: u64) -> bool {
        self.expires != 0 && self.expires <= now
    }
}

/// The room of a record with a key and a value of these sizes.
pub fn room_for(key: usize, value: usize) -> usize {
    (HEAD + key + value).next_multiple_of(UNIT)
}

/// Room and flags of the record at `at`, which may be dead, and may be shorter than a head then.
pub fn block(memory: &[u8], at: usize) -> Result<(usize, u8), Damaged> {
    let [_, room, _, [_, _, _, flags]] = words(memory, at)?;
    let room = usize::try_from(u32::from_ne_bytes(room)).map_err(|_| Damaged)?;
    if room == 0 || room % UNIT != 0 { Err(Damaged) } else { Ok((room, flags)) }
}

/// A copy of so many words of four bytes that lie at `at`.
fn words<const N: usize>(memory: &[u8], at: usize) -> Result<[[u8; 4]; N], Damaged> {
    let mut words = [[0; 4]; N];
    let bytes = memory.get(at..).and_then(|rest| rest.get(..size_of_val(&words))).ok_or(Damaged)?;
    words.as_flattened_mut().copy_from_slice(bytes);
    // The compiler, which takes the memory for unchanged, must not read it again where the copy is used.
    Ok(black_box(words))
}

/// Let a dead record fill this room, which may be shorter than a head.
pub fn fill(memory: &mut [u8], at: usize, room: usize) -> Result<(), Damaged> {
    let room = u32::try_from(room).map_err(|_| Damaged)?;
    put(memory, at, [[0; 4], room.to_ne_bytes(), [0; 4], [0; 4]].as_flattened())
}

/// Write bytes at `at`.
pub fn put(memory: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), Damaged> {
    memory.get_mut(at..at + bytes.len()).ok_or(Damaged)?.copy_from_slice(bytes);
    Ok(())
}

/// The number of 32 bits at `at`.
pub fn number(memory: &[u8], at: usize) -> Result<u32, Damaged> {
    words(memory, at).map(|[word]| u32::from_ne_bytes(word))
}

/// What the sum of a value is mixed with.
fn seal(tag: u32, expires: u64) -> u32 {
    let [a, b, c, d, ..] = (expires ^ u64::from(tag) << 32).wrapping_mul(FACTOR).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The sum of a value and its kind, by which damage is noticed. It is no defence against a forger.
pub fn sum_of(kind: u8, value: &[u8]) -> u32 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    // Four sums side by side, since a processor multiplies several numbers at a time.
    let mut sums = [1, 2, 3, 4];
    let mut blocks = value.chunks_exact(4 * WORD);
    for block in &mut blocks {
        for (sum, word) in sums.iter_mut().zip(block.chunks_exact(WORD)) {
            *sum = mix(*sum, word_of(word));
        }
    }
    let words = blocks.remainder().chunks(WORD).map(word_of);
    let ends = [value.len() as u64, u64::from(kind)];
    let [a, b, c, d, ..] = sums.into_iter().chain(words).chain(ends).fold(0, mix).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_as_it_was() {
        let record = Record {
            at: 48,
            next: 7,
            room: 80,
            tag: 0xdead_beef,
            key: 3,
            value: 45,
            kind: 4,
            flags: LIVE | USED,
            sum: 99,
            expires: u64::MAX - 1,
        };
        let mut memory = vec![0; 128];
        record.write(&mut memory).unwrap();
        assert_eq!(Record::read(&memory, 48), Ok(record));
        assert_eq!(block(&memory, 48), Ok((80, LIVE | USED)));
        fill(&mut memory, 48, 80).unwrap();
        assert_eq!((Record::read(&memory, 48), block(&memory, 48)), (Err(Damaged), Ok((80, 0))));
    }

    #[test]
    fn a_head_that_cannot_be_is_damage() {
        let good =
            Record { at: 0, next: 0, room: 64, tag: 0, key: 1, value: 31, kind: 0, flags: LIVE, sum: 0, expires: 0 };
        let read = |record: Record| {
            let mut memory = vec![0; 128];
            record.write(&mut memory).unwrap();
            Record::read(&memory, record.at)
        };
        assert_eq!(read(good), Ok(good));
        for bad in [
            Record { value: 32, ..good },
            Record { value: usize::try_from(u32::MAX).unwrap(), ..good },
            Record { key: 65535, ..good },
            Record { room: 0, ..good },
            Record { room: 72, ..good },
            Record { room: 144, ..good },
            Record { flags: USED, ..good },
            Record { at: 8, ..good },
            Record { at: 80, ..good },
        ] {
            assert_eq!(read(bad), Err(Damaged), "{bad:?}");
        }
        for at in [97, 128, 1 << 40] {
            assert_eq!(Record::read(&[0; 128], at), Err(Damaged));
        }
    }

    #[test]
    fn each_bit_counts_in_a_sum() {
        for length in [0, 1, 7, 8, 9, 31, 32, 33, 100] {
            let value: Vec<u8> = (0..length).map(|number| u8::try_from(number % 251).unwrap()).collect();
            let sum = sum_of(0, &value);
            assert_eq!(sum, sum_of(0, &value.clone()));
            assert_ne!(sum, sum_of(1, &value));
            assert_ne!(sum, sum_of(0, &[value.as_slice(), &[0]].concat()));
            for bit in 0..length * 8 {
                let mut other = value.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(sum, sum_of(0, &other), "{length} {bit}");
            }
        }
    }
}

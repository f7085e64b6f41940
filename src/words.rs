//! Bytes as words of 64 bits, as they lie in memory. Knows nothing else.

/// Bytes of a word.
pub const WORD: usize = size_of::<u64>();

/// The first bytes as they are to lie in memory. If there are fewer than a word has, zeros follow the last one.
pub fn word_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(whole) => u64::from_ne_bytes(*whole),
        None => u64::from_le(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))),
    }
}

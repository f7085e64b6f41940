//! Giving freed memory back to the system. The allocator of glibc keeps it: after many large bodies most of what they
//! took, since small blocks that live on lie between them. The allocator of musl gives large blocks back itself.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests of fewer bytes, their answers included, are not counted.
const LITTLE: usize = 512;
/// So many bytes are left to the allocator, which will use them again.
const SPARED: usize = 4 << 20;

/// Let all threads allocate from one heap, so that one thread can use what another one has freed, unless MALLOC_ARENA_MAX
/// says how many heaps there are. They seldom wait for each other there, as Python runs on one thread at a time.
pub fn share() {
    #[cfg(target_env = "gnu")]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        // SAFETY: it sets a number, under the lock of the allocator.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Let large blocks use the pages again of those that were freed. By itself the allocator of glibc gets a block of more
/// than 128 KiB from the system, which zeroes its pages, and gives the end of the heap back as soon as that much is free
/// there. Both bounds rise when a block from the system is freed: to its size and to twice that (mallopt(3)).
pub fn keep() {
    #[cfg(target_env = "gnu")]
    drop(std::hint::black_box(Vec::<u8>::with_capacity(SPARED / 4)));
}

/// Make room for `more` bytes in a buffer, by a quarter where Vec would double it: thousands of such buffers may wait at
/// once. `whole`: the length that the buffer will have in the end, if that is known.
pub fn grow(buffer: &mut Vec<u8>, more: usize, whole: Option<usize>) {
    let needed = buffer.len() + more;
    if needed > buffer.capacity() {
        let size = (needed + needed / 4).min(whole.unwrap_or(usize::MAX)).max(needed);
        buffer.reserve_exact(size - buffer.len());
    }
}

/// How many bytes were freed since pages were given back.
#[derive(Debug, Default)]
pub struct Freed(AtomicUsize);

impl Freed {
    /// So many bytes are no longer held. Returns whether it is time to give pages back.
    pub fn note(&self, bytes: usize) -> bool {
        bytes >= LITTLE && self.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= SPARED
    }

    /// Give the pages back in which nothing is allocated any more, if they may be many. No thread can allocate meanwhile, for
    /// about a millisecond for each 20 MB.
    pub fn give_back(&self) {
        if self.0.load(Ordering::Relaxed) < SPARED {
            return;
        }
        self.0.store(0, Ordering::Relaxed);
        trim();
    }
}

/// Give the pages back in which nothing is allocated any more.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it gives back pages without allocated blocks alone, under the locks of the allocator.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_by_a_quarter_and_not_beyond_the_whole() {
        let mut buffer = vec![0; 800];
        grow(&mut buffer, 200, None);
        assert_eq!(buffer.capacity(), 1250);
        grow(&mut buffer, 450, None);
        assert_eq!(buffer.capacity(), 1250, "there is room");
        buffer.resize(1250, 0);
        grow(&mut buffer, 50, Some(1400));
        assert_eq!(buffer.capacity(), 1400);
        buffer.resize(1400, 0);
        grow(&mut buffer, 100, Some(10));
        assert_eq!(buffer.capacity(), 1500, "what was said was wrong");
    }

    #[test]
    fn it_is_time_once_much_was_freed() {
        let freed = Freed::default();
        assert!(!freed.note(LITTLE - 1) && !freed.note(SPARED - 1));
        assert!(freed.note(LITTLE));
        freed.give_back();
        assert!(!freed.note(LITTLE));
    }
}

//! Giving back to the system what the allocator keeps of memory that was freed. After many large bodies that is most of
//! what they took, since small blocks that live on lie between them.
//!
//! Knows glibc, whose allocator is so; that of musl gives large blocks back itself.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests and answers of fewer bytes are not counted.
const LARGE: usize = 16 << 10;
/// So many bytes are left to the allocator, which soon uses them again.
const SPARED: usize = 4 << 20;

/// Let all threads allocate from one heap, unless the environment says from how many: what one thread has freed another
/// one can use then. They seldom wait for each other there, as Python code runs on one thread at a time.
pub fn share() {
    #[cfg(target_env = "gnu")]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        // SAFETY: it sets a number, under the lock of the allocator.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Make room for `more` bytes in a buffer of which thousands may wait at once, where Vec would double it. `whole`: what
/// its length will be in the end, if that is known.
pub fn grow(buffer: &mut Vec<u8>, more: usize, whole: Option<usize>) {
    let needed = buffer.len() + more;
    if needed > buffer.capacity() {
        let size = (needed + needed / 4).min(whole.unwrap_or(usize::MAX)).max(needed);
        buffer.reserve_exact(size - buffer.len());
    }
}

/// What was freed since pages were given back.
#[derive(Debug, Default)]
pub struct Freed(AtomicUsize);

impl Freed {
    /// A request, or an answer, of so many bytes is no longer held. Returns whether that counts.
    pub fn note(&self, bytes: usize) -> bool {
        let counts = bytes >= LARGE;
        if counts {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
        counts
    }

    /// Give the pages back in which nothing is allocated any more, if they may be many. Nobody allocates meanwhile: about
    /// a millisecond for each 20 MB.
    pub fn give_back(&self) {
        if self.0.load(Ordering::Relaxed) < SPARED {
            return;
        }
        self.0.store(0, Ordering::Relaxed);
        #[cfg(target_env = "gnu")]
        // SAFETY: it gives back pages without allocated blocks alone, under the locks of the allocator.
        unsafe {
            libc::malloc_trim(0);
        }
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
    fn little_requests_are_not_counted() {
        let freed = Freed::default();
        assert_eq!((freed.note(LARGE - 1), freed.note(LARGE)), (false, true));
        assert_eq!(freed.0.load(Ordering::Relaxed), LARGE);
    }
}

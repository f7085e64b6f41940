//! What a thread serves, for the watchdog to look at while the call lasts: a call that keeps the interpreter cannot be
//! asked.
//!
//! The thread lays down a reference to what it has anyway, and takes it away when the call is over; the one waits for
//! the other only where the watchdog is looking in that very moment, and copies a line.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use super::peer::Peer;
use crate::http::head::RequestHead;

/// A request in the application.
#[derive(Debug)]
pub struct Served<'a> {
    /// When the call began, as the pulse tells it.
    pub began: u64,
    /// Its head.
    pub head: &'a RequestHead,
    /// What the spans of the head point into.
    pub bytes: &'a [u8],
    /// From whom it comes.
    pub peer: &'a Peer,
    /// It was logged as a slow one.
    pub is_told: &'a AtomicBool,
}

/// What one thread serves.
#[derive(Debug, Default)]
pub struct Slate {
    served: AtomicPtr<Served<'static>>,
    /// How many look at it.
    lookers: AtomicU32,
}

impl Slate {
    /// Do `work` while `served` can be seen.
    #[inline]
    pub fn during<R>(&self, served: &Served<'_>, work: impl FnOnce() -> R) -> R {
        let served = std::ptr::from_ref(served).cast::<Served<'static>>().cast_mut();
        self.served.store(served, Ordering::Release);
        let _gone = AtEnd(|| {
            self.served.store(std::ptr::null_mut(), Ordering::SeqCst);
            while self.lookers.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
        });
        work()
    }

    /// Look at what is served now.
    pub fn look<R>(&self, look: impl FnOnce(&Served<'_>) -> R) -> Option<R> {
        self.lookers.fetch_add(1, Ordering::SeqCst);
        let _seen = AtEnd(|| {
            self.lookers.fetch_sub(1, Ordering::Release);
        });
        let served = self.served.load(Ordering::SeqCst);
        // SAFETY: where it is not null, `during` had not taken it away when it was loaded. In the one order of all that is
        // SeqCst, `lookers` was raised before, so `during` sees that and does not return until it is lowered, which is
        // when this borrow is over. A `Served` may be read by any thread, see below.
        unsafe { served.as_ref() }.map(look)
    }
}

/// Does not compile where that is not so.
const _: for<'a> fn(&'a Served<'a>) -> &'a dyn Sync = |served| served;

struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::net::front::Fronts;

    #[test]
    fn what_is_served_is_seen_until_it_is_over_and_no_longer() {
        let slate = Arc::new(Slate::default());
        let (head, is_told) = (RequestHead::default(), AtomicBool::new(false));
        let peer = Peer::new(None, &Fronts::default());
        let watched = Arc::clone(&slate);
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let watchdog = std::thread::spawn(move || {
            let mut seen = 0;
            while !until.load(Ordering::Relaxed) || seen == 0 {
                let told = watched.look(|served| {
                    let before = served.bytes.to_vec();
                    std::thread::yield_now();
                    (before, served.bytes.to_vec())
                });
                if let Some((before, after)) = told {
                    assert_eq!(before, after);
                    assert!(before.iter().all(|byte| *byte == 7), "not what is gone");
                    seen += 1;
                }
            }
        });
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end {
            let mut bytes = vec![7; 1000];
            let served = Served { began: 1, head: &head, bytes: &bytes, peer: &peer, is_told: &is_told };
            slate.during(&served, std::thread::yield_now);
            bytes.fill(8);
        }
        is_over.store(true, Ordering::Relaxed);
        let bytes = [7];
        let served = Served { began: 1, head: &head, bytes: &bytes, peer: &peer, is_told: &is_told };
        slate.during(&served, || watchdog.join().unwrap());
        assert!(slate.look(|_| ()).is_none());
    }

    #[test]
    fn a_panic_takes_it_away_too() {
        let slate = Slate::default();
        let (head, is_told) = (RequestHead::default(), AtomicBool::new(false));
        let peer = Peer::new(None, &Fronts::default());
        let served = Served { began: 1, head: &head, bytes: b"", peer: &peer, is_told: &is_told };
        let work = std::panic::AssertUnwindSafe(|| slate.during(&served, || panic!("as asked")));
        assert!(std::panic::catch_unwind(work).is_err());
        assert!(slate.look(|_| ()).is_none());
    }
}

//! What a thread serves, for the watchdog to look at while the call lasts: a call that keeps the interpreter cannot be
//! asked.
//!
//! The thread writes down what it serves, with references to the head, and takes it away when the call is over; the one
//! waits for the other only where the watchdog is looking in that very moment, and copies a line.
//! Nothing of it lies on the thread's stack, nor does what it refers to: an application may switch greenlets inside of
//! its call (gevent, eventlet), and the stack of the call is another one's until it is switched back.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::http::head::RequestHead;

/// A request in the application. What it refers to is on the heap.
#[derive(Debug)]
pub struct Served<'a> {
    /// When the call began, as the pulse tells it.
    pub began: u64,
    /// Its head.
    pub head: &'a RequestHead,
    /// What the spans of the head point into.
    pub bytes: &'a [u8],
    /// From whom it comes; none: it has no address.
    pub client: Option<SocketAddr>,
    /// Its id; empty for none.
    pub id: &'a str,
}

/// What one thread serves; itself on the heap.
#[derive(Debug)]
pub struct Slate {
    /// Written by the thread while `is_there` is false and nobody looks.
    served: UnsafeCell<MaybeUninit<Served<'static>>>,
    is_there: AtomicBool,
    /// How many look at it.
    lookers: AtomicU32,
    /// It was logged as a slow one.
    is_told: AtomicBool,
}

// SAFETY: `served` is written by one thread, and only while no other one looks; see `during`. A `Served` may be read by
// any thread, see below.
unsafe impl Sync for Slate {}

// SAFETY: as above; it holds nothing of the thread that made it.
unsafe impl Send for Slate {}

/// Does not compile where that is not so.
const _: for<'a> fn(&'a Served<'a>) -> &'a dyn Sync = |served| served;

impl Default for Slate {
    fn default() -> Self {
        Self {
            served: UnsafeCell::new(MaybeUninit::uninit()),
            is_there: AtomicBool::new(false),
            lookers: AtomicU32::new(0),
            is_told: AtomicBool::new(false),
        }
    }
}

impl Slate {
    /// Do `work` while `served` can be seen. For the one thread whose slate it is. is_told: it was logged as slow before.
    #[inline]
    pub fn during<R>(&self, served: Served<'_>, is_told: bool, work: impl FnOnce() -> R) -> R {
        self.is_told.store(is_told, Ordering::Relaxed);
        // SAFETY: nobody else has access: `is_there` is false since the end of the last call, which waited until nobody
        // looked any more, and whoever has begun to look since has seen that. What `served` refers to outlives this
        // call, at whose end `is_there` is false again and nobody looks.
        unsafe { self.served.get().cast::<Served<'_>>().write(served) };
        self.is_there.store(true, Ordering::Release);
        let _gone = AtEnd(|| {
            self.is_there.store(false, Ordering::SeqCst);
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
        // SAFETY: where it is there, `during` had not taken it away when that was loaded. In the one order of all that is
        // SeqCst, `lookers` was raised before, so `during` sees that and does not return until it is lowered, which is
        // when this borrow is over.
        self.is_there.load(Ordering::SeqCst).then(|| look(unsafe { (*self.served.get()).assume_init_ref() }))
    }

    /// Note that what is served is logged as slow. Returns whether it was before.
    pub fn note_told(&self) -> bool {
        self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Whether what was served last was logged as slow.
    pub fn was_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }
}

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

    fn served<'a>(head: &'a RequestHead, bytes: &'a [u8]) -> Served<'a> {
        Served { began: 1, head, bytes, client: None, id: "" }
    }

    #[test]
    fn what_is_served_is_seen_until_it_is_over_and_no_longer() {
        let slate = Arc::new(Slate::default());
        let head = RequestHead::default();
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
            slate.during(served(&head, &bytes), false, std::thread::yield_now);
            bytes.fill(8);
        }
        is_over.store(true, Ordering::Relaxed);
        let bytes = [7];
        slate.during(served(&head, &bytes), false, || watchdog.join().unwrap());
        assert!(slate.look(|_| ()).is_none());
    }

    #[test]
    fn a_panic_takes_it_away_too() {
        let slate = Slate::default();
        let head = RequestHead::default();
        let work = std::panic::AssertUnwindSafe(|| slate.during(served(&head, b""), false, || panic!("as asked")));
        assert!(std::panic::catch_unwind(work).is_err());
        assert!(slate.look(|_| ()).is_none());
    }
}

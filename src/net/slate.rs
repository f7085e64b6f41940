//! What a thread serves, for the watchdog to look at while the call lasts: a call that keeps the interpreter cannot be
//! asked.
//!
//! The thread writes down what it serves, with references to the head, and takes it away when the call is over; the one
//! waits for the other only where the watchdog is looking in that very moment, and copies a line.
//! Nothing of it lies on the thread's stack, nor does what it refers to: an application may switch greenlets inside of
//! its call (gevent, eventlet), and the stack of the call is another one's until it is switched back.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::team::lock;
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
#[derive(Debug, Default)]
pub struct Slate {
    served: Mutex<Option<Served<'static>>>,
    /// It was logged as a slow one.
    is_told: AtomicBool,
}

impl Slate {
    /// Do `work` while `served` can be seen. For the one thread whose slate it is. is_told: it was logged as slow before.
    #[inline]
    pub fn during<R>(&self, served: Served<'_>, is_told: bool, work: impl FnOnce() -> R) -> R {
        self.is_told.store(is_told, Ordering::Relaxed);
        // SAFETY: what it refers to outlives this call, at whose end it is taken away, however that comes; nobody sees it
        // but with the lock in hand, for a time that ends before that of the lock (`look`).
        let served = unsafe { std::mem::transmute::<Served<'_>, Served<'static>>(served) };
        *lock(&self.served) = Some(served);
        let _gone = AtEnd(|| *lock(&self.served) = None);
        work()
    }

    /// Look at what is served now.
    pub fn look<R>(&self, look: impl FnOnce(&Served<'_>) -> R) -> Option<R> {
        lock(&self.served).as_ref().map(look)
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

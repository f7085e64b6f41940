//! How busy the threads of a server are, for the supervisor, which decides how many workers there are.
//!
//! Knows numbers only. Times are milliseconds of one steady clock.

/// How often a load is told, while there is some.
const TELL: u64 = 1000;
/// How often it is asked at most whether a client waits. A server is overloaded if one does twice in a row.
const ASK: u64 = 50;
/// How often that is told, at most.
const TELL_OVERLOADED: u64 = 400;

/// What there is to tell after a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// How busy all threads together were since this was told last, in percent; none where it is not time yet.
    pub percent: Option<u8>,
    /// All threads have been in the application while a client waited.
    pub is_overloaded: bool,
}

/// The load of so many threads.
#[derive(Debug)]
pub struct Load {
    threads: usize,
    busy: u64,
    looked: u64,
    told: u64,
    next_ask: u64,
    next_overloaded: u64,
    client_waited: bool,
}

impl Load {
    /// For so many threads.
    pub fn new(threads: usize, now: u64) -> Self {
        Self { threads, busy: 0, looked: now, told: now, next_ask: 0, next_overloaded: 0, client_waited: false }
    }

    /// No call ran until now.
    pub fn skip(&mut self, now: u64) {
        self.looked = now;
        self.client_waited = false;
    }

    /// So many threads are in the application now. `is_awaited`: whether a client waits for one.
    pub fn look(&mut self, now: u64, busy: usize, is_awaited: impl FnOnce() -> bool) -> Told {
        self.busy += now.saturating_sub(self.looked) * busy as u64;
        self.looked = now;
        Told { percent: self.percent(now), is_overloaded: self.is_overloaded(now, busy, is_awaited) }
    }

    fn percent(&mut self, now: u64) -> Option<u8> {
        let time = now.saturating_sub(self.told);
        if time < TELL {
            return None;
        }
        let percent = self.busy * 100 / (time * self.threads.max(1) as u64);
        self.told = now;
        self.busy = 0;
        u8::try_from(percent.min(100)).ok().filter(|&percent| percent > 0)
    }

    fn is_overloaded(&mut self, now: u64, busy: usize, is_awaited: impl FnOnce() -> bool) -> bool {
        if now < self.next_ask {
            return false;
        }
        self.next_ask = now + ASK;
        let client_waits = busy == self.threads && is_awaited();
        let is_overloaded = client_waits && self.client_waited && now >= self.next_overloaded;
        self.client_waited = client_waits;
        if is_overloaded {
            self.next_overloaded = now + TELL_OVERLOADED;
        }
        is_overloaded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_told_once_a_second_and_none_is_not() {
        let mut load = Load::new(2, 0);
        let told: Vec<_> = (1..=40).filter_map(|n| load.look(n * 50, usize::from(n <= 20), || false).percent).collect();
        assert_eq!(told, [50], "one of two threads in the first second, none in the second one");
    }

    #[test]
    fn a_server_is_overloaded_where_client_waits_twice_in_a_row() {
        let mut load = Load::new(1, 0);
        assert!(!load.look(100, 1, || true).is_overloaded);
        assert!(!load.look(120, 1, || true).is_overloaded, "too soon to ask");
        assert!(load.look(150, 1, || true).is_overloaded);
        assert!(!load.look(200, 1, || true).is_overloaded, "it was told");
        assert!(load.look(600, 1, || true).is_overloaded);
        assert!(!load.look(1100, 1, || false).is_overloaded);
        assert!(!load.look(1200, 1, || true).is_overloaded);
        assert!(!load.look(1300, 0, || true).is_overloaded, "there is a thread for it");
    }
}

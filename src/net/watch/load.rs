//! How busy the threads of a server are, for whoever decides whether there should be more of them.
//!
//! Knows numbers only. Times are milliseconds of one steady clock.

/// How often a load is told, while there is some.
const TELL: u64 = 1000;
/// How often it is asked whether somebody waits, at most; twice in a row makes a server pressed.
const ASK: u64 = 50;
/// How often that is told, at most.
const TELL_PRESSED: u64 = 400;

/// What a look gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// How busy all threads were together since it was told last, in percent, where it is time to tell it.
    pub percent: Option<u8>,
    /// All threads have been in the application while somebody waited.
    pub is_pressed: bool,
}

/// The load of so many threads.
#[derive(Debug)]
pub struct Load {
    threads: usize,
    busy: u64,
    looked: u64,
    told: u64,
    next_ask: u64,
    next_pressed: u64,
    somebody_waited: bool,
}

impl Load {
    /// For so many threads.
    pub fn new(threads: usize, now: u64) -> Self {
        Self { threads, busy: 0, looked: now, told: now, next_ask: 0, next_pressed: 0, somebody_waited: false }
    }

    /// Nothing ran until now.
    pub fn skip(&mut self, now: u64) {
        self.looked = now;
        self.somebody_waited = false;
    }

    /// So many threads are in the application now; `is_awaited`: whether somebody waits for one.
    pub fn look(&mut self, now: u64, busy: usize, is_awaited: impl FnOnce() -> bool) -> Told {
        self.busy += now.saturating_sub(self.looked) * busy as u64;
        self.looked = now;
        Told { percent: self.percent(now), is_pressed: self.is_pressed(now, busy, is_awaited) }
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

    fn is_pressed(&mut self, now: u64, busy: usize, is_awaited: impl FnOnce() -> bool) -> bool {
        if now < self.next_ask {
            return false;
        }
        self.next_ask = now + ASK;
        let somebody_waits = busy == self.threads && is_awaited();
        let is_pressed = somebody_waits && self.somebody_waited && now >= self.next_pressed;
        self.somebody_waited = somebody_waits;
        if is_pressed {
            self.next_pressed = now + TELL_PRESSED;
        }
        is_pressed
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
    fn a_server_is_pressed_where_somebody_waits_twice_in_a_row() {
        let mut load = Load::new(1, 0);
        assert!(!load.look(100, 1, || true).is_pressed);
        assert!(!load.look(120, 1, || true).is_pressed, "too soon to ask");
        assert!(load.look(150, 1, || true).is_pressed);
        assert!(!load.look(200, 1, || true).is_pressed, "it was told");
        assert!(load.look(600, 1, || true).is_pressed);
        assert!(!load.look(1100, 1, || false).is_pressed);
        assert!(!load.look(1200, 1, || true).is_pressed);
        assert!(!load.look(1300, 0, || true).is_pressed, "there is a thread for him");
    }
}

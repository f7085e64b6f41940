//! The cost of a panic, which is a defect of the engine: a line in the error log, and the thread only where panics do not
//! end.

use std::any::Any;

/// After so many panics with nothing done between them a thread gives up: they would go on for ever.
const MOST: u32 = 16;

/// The line about a panic.
pub fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    format!("panic in the engine, please report it: {text}")
}

/// The panics of one thread.
#[derive(Debug, Default)]
pub struct Panics {
    in_a_row: u32,
    done: u64,
}

impl Panics {
    /// Count one more. Returns whether to go on. `done`: a number that grows as long as the thread gets anything done.
    pub fn go_on(&mut self, done: u64) -> bool {
        self.in_a_row = if std::mem::replace(&mut self.done, done) == done { self.in_a_row + 1 } else { 1 };
        self.in_a_row < MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_with_something_done_between_are_borne_but_not_in_a_row() {
        let mut panics = Panics::default();
        assert!((1..1000).all(|done| panics.go_on(done)));
        assert!((1..1000).all(|number| panics.go_on(1000 + number / 15)));
        assert_eq!((0..100).take_while(|_| panics.go_on(2000)).count(), 15);
    }
}

//! What the watchdog does about a call that is late: raise `RequestTimeout` in it, and answer in its place if that does
//! not help.
//!
//! Runs on the watchdog's thread, which holds the interpreter meanwhile: the serving thread cannot move, so that
//! `is_still_late` stays true until the function returns.

use pyo3::prelude::*;

use super::error_log::ErrorLog;
use super::serving_thread::ServingThread;
use crate::net::report::scoreboard::Shown;

/// The text of a page of 504.
pub const TOO_LONG: &str = "the application took too long";

/// Raise `RequestTimeout` in the call of `request`. `age`: how long it has given no sign of life, in ms; `None` if the
/// time of a stop is over.
pub fn interrupt(
    py: Python<'_>,
    log: &ErrorLog,
    thread: &ServingThread,
    request: &Shown,
    age: Option<u64>,
    is_still_late: &dyn Fn() -> bool,
) {
    let stack = log.stack(py, thread);
    if !is_still_late() {
        return;
    }
    let what = age.map_or_else(
        || "is still at work at the end of graceful_timeout".to_owned(),
        |age| format!("has been at work for {}", seconds(age)),
    );
    // In another greenlet the exception would end a call that is not late.
    let not = if stack.is_none() { " not" } else { "" };
    if stack.is_some() {
        thread.interrupt(py);
    }
    let text = format!("{what}; RequestTimeout is{not} raised in it, here:");
    log.write_trace(py, 'W', request, &text, stack.as_deref());
}

/// Answer 504 in the place of the call of `request`, which was interrupted and does not return. Returns whether that
/// was possible; else the connection is broken off.
pub fn give_up(
    py: Python<'_>,
    log: &ErrorLog,
    thread: &ServingThread,
    request: &Shown,
    age: u64,
    is_still_late: &dyn Fn() -> bool,
) -> bool {
    let stack = log.stack(py, thread);
    let page = log.page(py, 504, "Gateway Timeout", TOO_LONG);
    if !is_still_late() {
        return false;
    }
    let is_answered = thread
        .exchange(py)
        .is_some_and(|exchange| exchange.try_borrow_mut().is_ok_and(|mut exchange| exchange.give_up(&page)));
    let answer = if is_answered { "it is answered 504" } else { "its answer is broken off" };
    let text = format!("has been at work for {} and does not return; {answer}; it is here:", seconds(age));
    log.write_trace(py, 'E', request, &text, stack.as_deref());
    is_answered
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

//! Keeps the server's handlers of its signals, whatever the application sets.
//!
//! A library may ignore such a signal, or set it back to its default, as an asyncio loop does that had a handler for it. A
//! stop would then be lost, or cut off what is in flight. A handler of the application's own does no harm: the interpreter
//! tells the event loop of a signal before it calls any handler.

use libc::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, c_int};

const OURS: [(c_int, &str); 7] = [
    (SIGHUP, "SIGHUP"),
    (SIGINT, "SIGINT"),
    (SIGPIPE, "SIGPIPE"),
    (SIGQUIT, "SIGQUIT"),
    (SIGTERM, "SIGTERM"),
    (SIGUSR1, "SIGUSR1"),
    (SIGUSR2, "SIGUSR2"),
];

/// What happened with these signals at some time.
pub struct Dispositions(Vec<Disposition>);

struct Disposition {
    signal: c_int,
    name: &'static str,
    action: libc::sigaction,
    is_told: bool,
}

impl Dispositions {
    /// What happens with them now.
    pub fn now() -> Self {
        let all = OURS.into_iter();
        let known = all.filter_map(|(signal, name)| Some((signal, name, exchange(signal, None)?)));
        Self(known.map(|(signal, name, action)| Disposition { signal, name, action, is_told: false }).collect())
    }

    /// Set the handlers back of signals that are ignored now, or have their default. Returns the names of those for which
    /// that is done for the first time.
    pub fn keep(&mut self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for each in &mut self.0 {
            let is_lost = exchange(each.signal, None).is_some_and(|now| {
                now.sa_sigaction != each.action.sa_sigaction
                    && [libc::SIG_DFL, libc::SIG_IGN].contains(&now.sa_sigaction)
            });
            if is_lost {
                exchange(each.signal, Some(&each.action));
                names.extend((!std::mem::replace(&mut each.is_told, true)).then_some(each.name));
            }
        }
        names
    }
}

/// Set what happens with a signal, if there is an `action`. Returns what happened with it before.
fn exchange(signal: c_int, action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    // SAFETY: it consists of numbers and pointers, which may be zero.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    let action = action.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both pointers are to structures that live until the call returns, or null; the kernel told this `action`.
    let result = unsafe { libc::sigaction(signal, action, &raw mut before) };
    (result == 0).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_ignored_or_has_its_default_is_set_back_and_told_once() {
        extern "C" fn nothing(_: c_int) {}
        let [was, own] = [SIGUSR1, SIGUSR2].map(|signal| exchange(signal, None).unwrap());
        let address = nothing as extern "C" fn(c_int) as usize;
        let handled = libc::sigaction { sa_sigaction: address, ..own };
        exchange(SIGUSR2, Some(&handled));
        let mut dispositions = Dispositions::now();
        assert!(dispositions.keep().is_empty());
        for (told, lost) in [(1, libc::SIG_IGN), (0, libc::SIG_DFL)] {
            exchange(SIGUSR2, Some(&libc::sigaction { sa_sigaction: lost, ..own }));
            assert_eq!(dispositions.keep().len(), told);
            assert_eq!(exchange(SIGUSR2, None).unwrap().sa_sigaction, address);
        }
        exchange(SIGUSR1, Some(&handled));
        assert!(dispositions.keep().is_empty(), "a handler of its own");
        exchange(SIGUSR1, Some(&was));
        exchange(SIGUSR2, Some(&own));
    }
}

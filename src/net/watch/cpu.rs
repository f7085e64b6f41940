//! What the threads of this process do with the CPU, as the kernel tells it.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

use crate::net::clock::Pulse;

/// After a look at a thread, which takes some 2 µs, there is none for so long.
const PAUSE: Duration = Duration::from_micros(250);

/// Whole microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A thread that waits for the interpreter wakes every 5 ms to ask for it (`sys.getswitchinterval`). One whose CPU time
/// stands still for longer waits for something else.
const STANDS_STILL: Duration = Duration::from_millis(6);

/// CPU time that the calling thread has had.
pub fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// A thread that serves, and what it does in the application.
#[derive(Debug)]
pub struct Thread {
    /// Since when it is in the application.
    pub pulse: Pulse,
    /// Its number in the kernel; 0 for none.
    number: AtomicI32,
    calls: AtomicU64,
    takes_no_room: AtomicBool,
}

impl Thread {
    /// A thread with this pulse, which is still to come.
    pub fn new(pulse: Pulse) -> Self {
        Self { pulse, number: AtomicI32::new(0), calls: AtomicU64::new(0), takes_no_room: AtomicBool::new(false) }
    }

    /// Whether it is in the application.
    pub fn is_inside(&self) -> bool {
        self.pulse.last().is_some()
    }

    /// It is the calling thread.
    pub fn adopt(&self) {
        self.number.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    /// The calling thread, which this is, begins a call.
    pub fn begin(&self) {
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.takes_no_room.store(false, Ordering::Relaxed);
    }

    /// Whether its call is no reason to keep another one outside: it was seen to be long, or to wait for something else
    /// than the interpreter.
    pub fn takes_no_room(&self) -> bool {
        self.takes_no_room.load(Ordering::Relaxed)
    }

    /// The CPU time that it has had; 0 if it is gone.
    fn time(&self) -> Duration {
        // Computed as pthread_getcpuclockid(3) does, which wants a handle, and that of a thread that is gone is not valid.
        let clock = !self.number.load(Ordering::Relaxed) << 3 | 6;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one timespec, or fails.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
    }

    /// Whether it runs, or would if there were a core for it; a thread that waits for the interpreter does not. False where
    /// /proc does not tell.
    fn runs(&self) -> bool {
        let path = format!("/proc/self/task/{}/stat", self.number.load(Ordering::Relaxed));
        let mut line = [0; 64];
        let read = File::open(path).and_then(|mut file| file.read(&mut line));
        let line = line.get(..read.unwrap_or(0)).unwrap_or_default();
        // The state stands behind the name of the thread, which is any 15 bytes at most (proc_pid_stat(5)).
        line.windows(3).rfind(|three| three.starts_with(b") ")).is_some_and(|three| three.ends_with(b"R"))
    }
}

/// What the calls in the application were seen to do at the last look.
#[derive(Debug)]
pub struct Usage {
    /// How many run, or would if there were a core for them.
    pub running: usize,
    /// How many run or wait for the interpreter, and are not long.
    pub short: usize,
    /// How many run or wait for the interpreter, and are long.
    pub long: usize,
    seen: Vec<Seen>,
    next: Instant,
}

/// The call of one thread: the CPU time of the thread when the call was seen first and when it was seen last, and since
/// when it has been the latter.
#[derive(Clone, Copy, Debug)]
struct Seen {
    call: u64,
    first: Duration,
    time: Duration,
    since: Instant,
}

impl Usage {
    /// That of so many threads.
    pub fn new(threads: usize) -> Self {
        let now = Instant::now();
        let none = Seen { call: 0, first: Duration::ZERO, time: Duration::ZERO, since: now };
        Self { running: 0, short: 0, long: 0, seen: vec![none; threads], next: now }
    }

    /// Look, unless that was done just now. `long`: CPU time that makes a call a long one. Returns whether it
    /// looked.
    pub fn look<'a>(&mut self, threads: impl Iterator<Item = &'a Thread> + Clone, long: Duration) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now;
        (self.running, self.short, self.long) = (0, 0, 0);
        for (thread, seen) in threads.clone().zip(&mut self.seen).filter(|(thread, _)| thread.is_inside()) {
            self.next += PAUSE;
            let (call, time) = (thread.calls.load(Ordering::Relaxed), thread.time());
            if seen.call != call {
                *seen = Seen { call, first: time, time, since: now };
            }
            if seen.time != time {
                *seen = Seen { time, since: now, ..*seen };
            }
            let runs = thread.runs();
            let waits = !runs && now >= seen.since + STANDS_STILL;
            let is_long = time.saturating_sub(seen.first) >= long;
            thread.takes_no_room.store(waits || is_long, Ordering::Relaxed);
            self.running += usize::from(runs);
            self.short += usize::from(!waits && !is_long);
            self.long += usize::from(!waits && is_long);
        }
        if self.running == 0 {
            // No thread has the interpreter, so none waits for it.
            (self.short, self.long) = (0, 0);
            let inside = threads.filter(|thread| thread.is_inside());
            inside.for_each(|thread| thread.takes_no_room.store(true, Ordering::Relaxed));
        }
        true
    }
}

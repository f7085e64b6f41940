//! What the threads of this process do with the CPU, as the kernel tells it to others.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

/// How long nobody looks again after a look at one thread, which takes some 2 µs.
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
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap_or(0))
}

/// A thread, and what it does in the application.
#[derive(Debug, Default)]
pub struct Thread {
    /// 0 for none.
    number: AtomicI32,
    calls: AtomicU64,
    takes_no_room: AtomicBool,
}

impl Thread {
    /// It is the calling one.
    pub fn adopt(&self) {
        self.number.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    /// The calling thread, whose it is, begins a call.
    pub fn begin(&self) {
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.takes_no_room.store(false, Ordering::Relaxed);
    }

    /// Whether its call is no reason to keep another one outside: it was seen to be long, or to wait for something else
    /// than the interpreter.
    pub fn takes_no_room(&self) -> bool {
        self.takes_no_room.load(Ordering::Relaxed)
    }

    /// CPU time that it has had; none where it is gone.
    fn time(&self) -> Duration {
        // As pthread_getcpuclockid(3) makes it: that wants a handle, which may be one of a thread that is gone.
        let clock = !self.number.load(Ordering::Relaxed) << 3 | 6;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one timespec, or fails.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap_or(0))
    }

    /// Whether it runs, or would if there were a core for it. One that waits for the interpreter waits. Not where /proc
    /// does not tell.
    fn runs(&self) -> bool {
        let path = format!("/proc/self/task/{}/stat", self.number.load(Ordering::Relaxed));
        let mut line = [0; 64];
        let read = File::open(path).and_then(|mut file| file.read(&mut line));
        let line = line.get(..read.unwrap_or(0)).unwrap_or_default();
        // The state stands behind the name of the thread, of 15 bytes at most, which may be any (proc_pid_stat(5)).
        line.windows(3).rfind(|three| three.starts_with(b") ")).is_some_and(|three| three.ends_with(b"R"))
    }
}

/// The calls in the application, as they were seen last.
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

/// The call of one thread: the CPU time of the thread when the call was first seen, and now, and since when that is so.
#[derive(Clone, Copy, Debug)]
struct Seen {
    call: u64,
    first: Duration,
    time: Duration,
    since: Instant,
}

impl Usage {
    /// Of so many threads.
    pub fn new(threads: usize) -> Self {
        let now = Instant::now();
        let none = Seen { call: 0, first: Duration::ZERO, time: Duration::ZERO, since: now };
        Self { running: 0, short: 0, long: 0, seen: vec![none; threads], next: now }
    }

    /// Look, unless that was done just now. `threads`: each, and whether it is in the application; `long`: CPU time that
    /// makes a call a long one. Returns whether it looked.
    pub fn look<'a>(&mut self, threads: impl Iterator<Item = (&'a Thread, bool)> + Clone, long: Duration) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now;
        (self.running, self.short, self.long) = (0, 0, 0);
        for ((thread, is_inside), seen) in threads.clone().zip(&mut self.seen) {
            if !is_inside {
                continue;
            }
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
            // Nobody has the interpreter, so nobody waits for it.
            (self.short, self.long) = (0, 0);
            let inside = threads.filter(|(_, is_inside)| *is_inside);
            inside.for_each(|(thread, _)| thread.takes_no_room.store(true, Ordering::Relaxed));
        }
        true
    }
}

//! The way into the cache: from a key to its shard, locked; then what is asked is done there.
//!
//! Knows how long a thread may wait for a lock, and takes memory of the file before it is touched: a file that has holes
//! would end the process (SIGBUS) where the file system is full. A process that is stopped while it has a lock costs
//! each other process one long wait. After that they wait only shortly for this shard, until it is free again.

use std::hash::Hasher;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, Stat, fallocate, fstat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::cache::lock::{Failure, Lock};
use crate::cache::mapping::{Held, MOST_SHARDS, Mapping, OVERHEAD};
use crate::cache::record::Damaged;
use crate::cache::shard::{Name, Shard};

/// The form of a file. Programs whose libc has mutexes of other sizes cannot share one.
pub const LAYOUT: u64 = 2 << 16 | (size_of::<libc::pthread_mutex_t>() << 8 | size_of::<usize>()) as u64;
/// How often a lock is tried before the thread sleeps. Locks are mostly held for less than a microsecond.
const TRIES: u32 = 100;
/// Between two attempts of a thread that waits.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));
/// How long a thread waits for a shard that another one has waited for in vain.
const SHORT: Duration = Duration::from_millis(10);
/// How often the kernel is asked for memory, if signals interrupt it.
const ATTEMPTS: u32 = 20;

/// Whether something is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access {
    Read,
    Change,
}

/// What is done in a shard: once, or once more where the first time has found damage.
pub type Run<'a> = &'a mut dyn FnMut(&mut Shard<'_>) -> Result<(), Damaged>;

/// A cache.
pub struct Table {
    mapping: Mapping,
    file: File,
    secret: (u64, u64),
    patience: Duration,
    is_stalled: [AtomicBool; MOST_SHARDS],
}

/// Make a cache of a new file, of which no other process knows yet. Its first 4 KiB are left alone.
pub fn lay_out(file: OwnedFd) -> std::io::Result<()> {
    let file = File::new(file)?;
    let mapping = Mapping::new(file.fd()?, file.length()?)?;
    file.take(0, OVERHEAD)?;
    for index in 0..mapping.shards {
        file.take(mapping.offset(index), Shard::usable_from_start(mapping.shard))?;
        if !mapping.lock(index).is_some_and(Lock::prepare) {
            return Err(std::io::Error::other("this system has no robust mutexes"));
        }
        if let Ok(mut held) = mapping.try_hold(index) {
            Shard::new(held.memory(), &|_, _| false).empty();
        }
    }
    Ok(())
}

impl Table {
    /// The cache in this file. secret: the key of the hash, the same for all that use the file. patience: how long a
    /// thread waits for a lock.
    pub fn new(file: OwnedFd, secret: (u64, u64), patience: Duration) -> std::io::Result<Self> {
        let file = File::new(file)?;
        let mapping = Mapping::new(file.fd()?, file.length()?)?;
        if !mapping.has_locks() {
            return Err(std::io::Error::other("a lock is damaged"));
        }
        Ok(Self { mapping, file, secret, patience, is_stalled: [const { AtomicBool::new(false) }; MOST_SHARDS] })
    }

    /// Bytes that a value may have.
    pub fn largest(&self) -> usize {
        self.mapping.shard / 4
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.mapping.shards
    }

    /// The shard of a key, and its name there.
    pub fn place<'a>(&self, key: &'a [u8]) -> (usize, Name<'a>) {
        let (first, second) = self.secret;
        // The hasher that is not deprecated takes no secret that is shared.
        #[allow(deprecated)]
        let mut hasher = std::hash::SipHasher::new_with_keys(first, second);
        hasher.write(key);
        let [a, b, c, d, .., last] = hasher.finish().to_ne_bytes();
        (usize::from(last) & (self.mapping.shards - 1), Name { key, tag: u32::from_ne_bytes([a, b, c, d]) })
    }

    /// Do something in a shard if its lock is free now, or in a moment; `Busy` if not.
    pub fn at_once(&self, shard: usize, access: Access, run: Run<'_>) -> Result<(), Failure> {
        for _ in 0..TRIES {
            match self.mapping.try_hold(shard) {
                Err(Failure::Busy) => std::hint::spin_loop(),
                held => return self.run(held?, shard, access, run),
            }
        }
        Err(Failure::Busy)
    }

    /// Do something in a shard, for whose lock this thread may wait. Call it detached: nothing else is to wait meanwhile.
    pub fn in_time(&self, shard: usize, access: Access, run: Run<'_>) -> Result<(), Failure> {
        let is_stalled = self.is_stalled.get(shard).ok_or(Failure::Damaged)?;
        let patience = if is_stalled.load(Ordering::Relaxed) { self.patience.min(SHORT) } else { self.patience };
        let (start, (mut pause, longest)) = (Instant::now(), PAUSES);
        yield_now();
        loop {
            match self.mapping.try_hold(shard) {
                Err(Failure::Busy) => {}
                held => return self.run(held?, shard, access, run),
            }
            if start.elapsed() >= patience {
                is_stalled.store(true, Ordering::Relaxed);
                return Err(Failure::Busy);
            }
            sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    fn run(&self, mut held: Held<'_>, index: usize, access: Access, run: Run<'_>) -> Result<(), Failure> {
        if let Some(is_stalled) = self.is_stalled.get(index).filter(|it| it.load(Ordering::Relaxed)) {
            is_stalled.store(false, Ordering::Relaxed);
        }
        let lock = held.lock();
        let offset = self.mapping.offset(index);
        let grow = |from: usize, to: usize| self.file.take(offset + from, to - from).is_ok();
        let mut shard = Shard::new(held.memory(), &grow);
        if lock.is_marked() {
            shard.empty();
            lock.clear_mark();
        }
        if access == Access::Change {
            lock.set_mark();
        }
        let done = run(&mut shard).or_else(|Damaged| {
            lock.set_mark();
            shard.empty();
            run(&mut shard)
        });
        if lock.is_marked() {
            lock.clear_mark();
        }
        done.map_err(|Damaged| Failure::Damaged)
    }
}

/// Nanoseconds since the machine has started, also those that it slept. No change of the time of day changes that.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let [seconds, part] = [time.tv_sec, time.tv_nsec].map(|number| u64::try_from(number).unwrap_or(0));
    seconds * 1_000_000_000 + part
}

/// The open file of a cache. A program may close descriptors that it does not know, and the number may then be that of
/// another file: that one is left alone.
struct File {
    descriptor: Option<OwnedFd>,
    facts: Stat,
}

impl File {
    fn new(descriptor: OwnedFd) -> std::io::Result<Self> {
        Ok(Self { facts: fstat(&descriptor)?, descriptor: Some(descriptor) })
    }

    /// The descriptor, if it is still that of the file.
    fn fd(&self) -> rustix::io::Result<std::os::fd::BorrowedFd<'_>> {
        let fd = self.descriptor.as_ref().ok_or(Errno::BADF)?.as_fd();
        let found = fstat(fd)?;
        if (found.st_dev, found.st_ino) == (self.facts.st_dev, self.facts.st_ino) { Ok(fd) } else { Err(Errno::BADF) }
    }

    fn length(&self) -> std::io::Result<usize> {
        usize::try_from(self.facts.st_size).map_err(std::io::Error::other)
    }

    /// Let the file system give memory for these bytes of the file.
    fn take(&self, offset: usize, length: usize) -> rustix::io::Result<()> {
        let file = self.fd()?;
        let mut done = Err(Errno::INTR);
        for _ in 0..ATTEMPTS {
            done = fallocate(file, FallocateFlags::KEEP_SIZE, offset as u64, length as u64);
            if done != Err(Errno::INTR) {
                break;
            }
        }
        done
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.fd().is_err() {
            let _ = self.descriptor.take().map(IntoRawFd::into_raw_fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::forget;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::thread::{scope, spawn};

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;
    use crate::cache::record::BYTES;
    use crate::cache::shard::{Entry, When};

    const PATIENCE: Duration = Duration::from_millis(300);

    fn file(size: usize) -> OwnedFd {
        let file = memfd_create("cache", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, (size + OVERHEAD) as u64).unwrap();
        lay_out(file.try_clone().unwrap()).unwrap();
        file
    }

    fn table(file: &OwnedFd) -> Table {
        Table::new(file.try_clone().unwrap(), (1, 2), PATIENCE).unwrap()
    }

    fn set(table: &Table, key: &[u8], value: &[u8]) -> Result<bool, Failure> {
        let (shard, name) = table.place(key);
        let entry = Entry { kind: BYTES, value, expires: 0 };
        let mut is_set = false;
        let mut run = |shard: &mut Shard<'_>| {
            is_set = shard.set(name, entry, When::Always, now())?;
            Ok(())
        };
        table.in_time(shard, Access::Change, &mut run).map(|()| is_set)
    }

    fn get(table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let (shard, name) = table.place(key);
        let mut found = None;
        let mut run = |shard: &mut Shard<'_>| {
            found = shard.get(name, &now, |_, bytes| bytes.to_vec())?.map(|(_, value)| value);
            Ok(())
        };
        table.in_time(shard, Access::Read, &mut run).map(|()| found)
    }

    #[test]
    fn two_mappings_of_a_file_are_one_cache() {
        let file = file(16 << 20);
        let (one, other) = (table(&file), table(&file));
        for number in 0..1000_u32 {
            set(&one, &number.to_ne_bytes(), &[1; 100]).unwrap();
            assert_eq!(get(&other, &number.to_ne_bytes()), Ok(Some(vec![1; 100])));
        }
        assert_eq!((one.shards(), one.largest()), (4, 1 << 20));
        let used = (0..4).filter(|shard| one.mapping.try_hold(*shard).unwrap().memory()[20..24] != [0; 4]);
        assert_eq!(used.count(), 4, "each shard has some");
    }

    #[test]
    fn a_file_that_was_not_laid_out_is_refused() {
        let file = memfd_create("cache", MemfdFlags::CLOEXEC).unwrap();
        for size in [0, OVERHEAD + 4096, OVERHEAD + (1 << 20)] {
            ftruncate(&file, size as u64).unwrap();
            assert!(Table::new(file.try_clone().unwrap(), (1, 2), PATIENCE).is_err(), "{size}");
        }
    }

    #[test]
    fn a_change_that_was_never_over_costs_the_values_of_its_shard() {
        let file = file(1 << 20);
        let table = table(&file);
        set(&table, b"key", b"value").unwrap();
        table.mapping.lock(0).unwrap().set_mark();
        assert_eq!(get(&table, b"key"), Ok(None));
        assert!(!table.mapping.lock(0).unwrap().is_marked());
        set(&table, b"key", b"other").unwrap();
        assert_eq!(get(&table, b"key"), Ok(Some(b"other".to_vec())));
    }

    #[test]
    fn a_panic_in_a_change_is_one_that_was_never_over() {
        let file = file(1 << 20);
        let table = table(&file);
        set(&table, b"key", b"value").unwrap();
        let run = || table.at_once(0, Access::Change, &mut |_| panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        assert!(table.mapping.lock(0).unwrap().is_marked());
        assert_eq!(get(&table, b"key"), Ok(None));
    }

    #[test]
    fn a_thread_that_ends_with_a_lock_leaves_none() {
        let file = file(1 << 20);
        let table = table(&file);
        set(&table, b"key", b"value").unwrap();
        scope(|scope| {
            scope.spawn(|| forget(table.mapping.try_hold(0).unwrap()));
        });
        assert_eq!(get(&table, b"key"), Ok(Some(b"value".to_vec())), "nothing was changed");
    }

    #[test]
    fn a_mutex_that_is_damaged_while_it_is_held_leads_libc_nowhere() {
        let file = file(1 << 20);
        let table = table(&file);
        for (start, length) in [(24, 16), (0, 24), (0, size_of::<libc::pthread_mutex_t>())] {
            set(&table, b"key", b"value").unwrap();
            let held = table.mapping.try_hold(0);
            rustix::io::pwrite(&file, &vec![0xa5; length], 4096 + start).unwrap();
            drop(held);
            assert_eq!(get(&table, b"key"), Ok(None), "another thread may have had it as well");
        }
        set(&table, b"key", b"value").unwrap();
        assert_eq!(get(&table, b"key"), Ok(Some(b"value".to_vec())));
    }

    #[test]
    fn a_mutex_of_another_kind_is_damage() {
        let file = file(1 << 20);
        let table = table(&file);
        rustix::io::pwrite(&file, &[0x42; size_of::<libc::pthread_mutex_t>()], 4096).unwrap();
        assert_eq!(get(&table, b"key"), Err(Failure::Damaged));
        assert_eq!(table.at_once(0, Access::Change, &mut |_| Ok(())), Err(Failure::Damaged));
    }

    #[test]
    fn a_lock_that_is_not_given_back_is_waited_for_once() {
        let file = file(1 << 20);
        let held = table(&file);
        let table = table(&file);
        let ((tell, told), (free, freed)) = (channel(), channel::<()>());
        let holder = spawn(move || {
            let lock = held.mapping.try_hold(0);
            tell.send(lock.is_ok()).unwrap();
            freed.recv().unwrap();
        });
        assert!(told.recv().unwrap());
        assert_eq!(table.at_once(0, Access::Read, &mut |_| Ok(())), Err(Failure::Busy));
        let start = Instant::now();
        assert_eq!(get(&table, b"key"), Err(Failure::Busy));
        assert!(start.elapsed() >= PATIENCE);
        let start = Instant::now();
        assert_eq!(get(&table, b"key"), Err(Failure::Busy));
        assert!(start.elapsed() < PATIENCE);
        free.send(()).unwrap();
        holder.join().unwrap();
        assert_eq!(get(&table, b"key"), Ok(None));
        assert!(!table.is_stalled[0].load(Ordering::Relaxed));
    }
}

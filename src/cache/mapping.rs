//! The file of a cache as memory: locks, and shards that only the holder of their lock can reach.
//!
//! Knows where the parts of the file lie, and `mmap`. What stands in the shards is the business of `shard`, what stands in
//! the first 4 KiB that of the program which made the file.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::slice::from_raw_parts_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::cache::lock::{Failure, Guard, Kind, Lock};

/// Bytes before the shards: the head, and the locks.
pub const OVERHEAD: usize = LOCKS + MOST_SHARDS * size_of::<Lock>();
/// Shards at most.
pub const MOST_SHARDS: usize = 256;
/// Where the locks begin.
const LOCKS: usize = 4096;
/// A cache has a shard for so many bytes, if it is not too large for that.
const SHARD: usize = 4 << 20;
/// Bytes of shards at least, and at most. Offsets in a shard have 32 bits.
pub const SIZES: std::ops::RangeInclusive<usize> = 1 << 20..=64 << 30;
/// Shards begin at multiples of this.
const PAGE: usize = 4096;

/// A file that is mapped.
pub struct Mapping {
    start: *mut c_void,
    length: usize,
    /// How many shards there are, a power of two.
    pub shards: usize,
    /// Bytes of a shard.
    pub shard: usize,
    kind: Kind,
}

// SAFETY: the memory belongs to no thread. It is reached by way of `Held`, which one thread of one process has at a time.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Map a file of this length.
    pub fn new(file: BorrowedFd<'_>, length: usize) -> std::io::Result<Self> {
        let size = length.checked_sub(OVERHEAD).filter(|size| SIZES.contains(size));
        let size = size.ok_or_else(|| std::io::Error::other("a file of this length is no cache"))?;
        let shards = 1 << (size / SHARD).clamp(1, MOST_SHARDS).ilog2();
        let shard = size / shards / PAGE * PAGE;
        let kind = Kind::new().ok_or_else(|| std::io::Error::other("this system has no robust mutexes"))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free place, so nothing that is there changes.
        let start = unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)? };
        Ok(Self { start, length, shards, shard, kind })
    }

    /// The lock of a shard.
    pub fn lock(&self, index: usize) -> Option<&Lock> {
        let offset = LOCKS + index * size_of::<Lock>();
        // SAFETY: locks of so many shards lie in the mapping, which begins with a page and so is aligned for them, and which
        // lives as long as `self`. Any bytes are good for a `Lock`, and all that changes in it is in cells.
        (index < self.shards).then(|| unsafe { &*self.start.byte_add(offset).cast::<Lock>() })
    }

    /// Whether each shard has a lock.
    pub fn has_locks(&self) -> bool {
        (0..self.shards).all(|index| self.lock(index).is_some_and(|lock| lock.is_sound(&self.kind)))
    }

    /// Take the lock of a shard, if it is free.
    pub fn try_hold(&self, index: usize) -> Result<Held<'_>, Failure> {
        let guard = self.lock(index).ok_or(Failure::Damaged)?.try_acquire(&self.kind)?;
        Ok(Held { mapping: self, guard, index })
    }

    /// Where a shard begins in the file.
    pub fn offset(&self, index: usize) -> usize {
        OVERHEAD + index * self.shard
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; all references into it have ended with `self`.
        // If the kernel refuses, it stays.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}

/// The lock of a shard, held by this thread until this is dropped.
pub struct Held<'a> {
    mapping: &'a Mapping,
    guard: Guard<'a>,
    index: usize,
}

impl<'a> Held<'a> {
    /// The lock.
    pub fn lock(&self) -> &'a Lock {
        self.guard.lock
    }

    /// The shard. Pages of it that nobody has made usable must not be touched.
    pub fn memory(&mut self) -> &mut [u8] {
        let Mapping { start, shard, .. } = *self.mapping;
        // SAFETY: there is a lock of this index, so the shard lies in the mapping. Its bytes are reached only by way of the
        // holder of the lock, of which this borrows. Another program that writes to the file all the same, as only one
        // of this user can, breaks what is said of a `&mut`; `record` says why what is read is harmless even then.
        unsafe { from_raw_parts_mut(start.byte_add(self.mapping.offset(self.index)).cast(), shard) }
    }
}

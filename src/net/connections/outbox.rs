//! Unsent output for one client, in this order: bytes spooled to a temporary file, bytes in memory, and then bytes borrowed
//! from the application or a part of its file.
//!
//! Sending never blocks and returns no error: if the client is disconnected, the outbox is broken, which ends the connection.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::spool::temporary_file;
use super::transport::{Sent, Transport};
use crate::net::heap;

/// Above this many unsent bytes the application is not asked for more.
pub const HIGH_WATER: usize = 256 * 1024;
/// Longest block that is copied; a longer one is sent from where it is.
const COPY: usize = 16 * 1024;
/// Most bytes of a file that are sent in one turn, so that a fast client does not keep others waiting.
const FILE_BURST: usize = 1024 * 1024;
/// Most bytes of one answer that are spooled, which limits the disk space that a slow client can use.
const MOST_SPOOLED: u64 = 1024 * 1024 * 1024;

/// A part of a file.
#[derive(Debug)]
pub struct FileRange {
    /// The file; where it is the application's, a duplicate of its descriptor.
    pub file: File,
    /// Position of the next byte to send.
    pub offset: u64,
    /// Number of bytes to send.
    pub left: u64,
    /// The file ended before them: it became shorter meanwhile.
    pub is_short: bool,
}

impl FileRange {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let end = self.offset + self.left;
        if end + bytes.len() as u64 > MOST_SPOOLED {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        if let Err(error) = self.file.write_all_at(bytes, end) {
            // Free the disk space of the bytes that were written in vain.
            let _ = self.file.set_len(end);
            return Err(error);
        }
        self.left += bytes.len() as u64;
        Ok(())
    }
}

/// Bytes that are sent from where the application has them, and are kept alive until then.
pub type Borrowed = Box<dyn AsRef<[u8]> + Send + Sync>;

/// The state of an outbox after sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Everything is sent.
    Drained,
    /// The client must first take some bytes.
    Pending,
    /// The client is disconnected, or a file has become shorter.
    Broken,
}

/// Unsent output, in order.
#[derive(Default)]
pub struct Outbox {
    /// See [`Outbox::spool`].
    spooled: Option<FileRange>,
    /// Bytes to send; new ones are appended.
    pub bytes: Vec<u8>,
    /// Number of bytes at the beginning of `bytes` that are sent.
    sent: usize,
    /// Bytes to send after `bytes`, with the range that is unsent.
    borrowed: Option<(Borrowed, Range<usize>)>,
    /// Part of a file to send after everything else.
    pub file: Option<FileRange>,
    broken: bool,
    /// See [`Outbox::mark_incomplete`].
    is_cut: bool,
    /// Something was sent or spooled.
    begun: bool,
}

impl Outbox {
    /// An outbox that writes into `buffer`, which is emptied.
    pub fn with_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { bytes: buffer, ..Self::default() }
    }

    /// An outbox that sends nothing.
    pub fn broken() -> Self {
        Self { broken: true, ..Self::default() }
    }

    /// Whether nothing was ever added.
    pub fn is_untouched(&self) -> bool {
        self.is_empty() && !self.begun && !self.broken
    }

    /// Number of unsent bytes in `bytes`.
    pub fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Number of bytes of memory that it keeps.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.borrowed.as_ref().map_or(0, |(block, _)| block.as_ref().as_ref().len())
    }

    /// Make room for `more` bytes in `bytes`.
    pub fn make_room(&mut self, more: usize) {
        heap::grow(&mut self.bytes, more, None);
    }

    /// Whether everything is sent.
    pub fn is_empty(&self) -> bool {
        self.spooled.is_none() && self.in_memory().is_empty() && self.file.is_none()
    }

    /// Whether nothing more can be sent: the client is disconnected, or the answer was broken off.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// The answer is incomplete and nothing follows: after these bytes the connection is to be reset, since some proxies take
    /// an orderly end for that of the answer.
    pub fn mark_incomplete(&mut self) {
        self.is_cut = true;
    }

    /// Whether the answer would be incomplete if the connection ended now, or once everything is sent.
    pub fn is_incomplete(&self) -> bool {
        self.is_cut || self.broken || !self.is_empty()
    }

    /// Send nothing more.
    pub fn break_off(&mut self) {
        self.broken = true;
    }

    /// Whether the application should wait before it adds more.
    pub fn is_full(&self) -> bool {
        self.unsent() > HIGH_WATER || self.spooled.is_some() || self.borrowed.is_some() || self.file.is_some()
    }

    /// The bytes in memory that are to be sent next.
    fn in_memory(&self) -> &[u8] {
        match &self.borrowed {
            Some((block, rest)) if self.unsent() == 0 => block.as_ref().as_ref().get(rest.clone()).unwrap_or_default(),
            _ => self.bytes.get(self.sent..).unwrap_or_default(),
        }
    }

    /// Append the unsent bytes to a temporary file, which may wait for the disk. On an error (no file or no disk space, or
    /// [`MOST_SPOOLED`]) nothing changes.
    pub fn spool(&mut self) -> std::io::Result<()> {
        let mut spooled = match self.spooled.take() {
            Some(range) => range,
            None => FileRange { file: temporary_file()?, offset: 0, left: 0, is_short: false },
        };
        let written = spooled.append(self.bytes.get(self.sent..).unwrap_or_default());
        self.spooled = Some(spooled).filter(|range| range.left > 0);
        written?;
        self.begun = true;
        self.bytes = Vec::new();
        self.sent = 0;
        Ok(())
    }

    /// Add `data`. A long block is sent from where it is, and only the bytes that the socket does not take are copied. If
    /// these are many, `borrow` may return an owner of bytes that begin with `data`, which is kept instead of a copy.
    pub fn push(&mut self, data: &[u8], transport: &Transport, borrow: impl FnOnce() -> Option<Borrowed>) {
        let mut rest = data;
        if let Some((block, range)) = self.borrowed.take() {
            self.bytes.extend_from_slice(block.as_ref().as_ref().get(range).unwrap_or_default());
        }
        if data.len() > COPY && self.spooled.is_none() && self.file.is_none() && !self.broken {
            match transport.send_both(self.bytes.get(self.sent..).unwrap_or_default(), data) {
                Sent::Bytes(count) => {
                    self.begun = true;
                    let of_bytes = count.min(self.unsent());
                    self.sent += of_bytes;
                    rest = data.get(count - of_bytes..).unwrap_or_default();
                    self.compact();
                }
                Sent::Nothing => {}
                Sent::Broken => self.broken = true,
            }
        }
        if self.broken {
            return;
        }
        match (rest.len() > HIGH_WATER).then(borrow).flatten() {
            Some(block) => self.borrowed = Some((block, data.len() - rest.len()..data.len())),
            None => {
                self.make_room(rest.len());
                self.bytes.extend_from_slice(rest);
            }
        }
    }

    /// Send as much as the socket takes.
    pub fn flush(&mut self, transport: &Transport) -> Flushed {
        if self.file.is_some() { self.flush_last(transport) } else { self.flush_bytes(transport, Transport::send) }
    }

    /// Send as much as the socket takes, when more follows at once, or [`Transport::push`].
    pub fn flush_more(&mut self, transport: &Transport) -> Flushed {
        self.flush_bytes(transport, Transport::send_more)
    }

    /// Send as much as the socket takes, when a file or the end of the connection follows at once: it shares a packet with
    /// these bytes.
    pub fn flush_last(&mut self, transport: &Transport) -> Flushed {
        // A reset would drop bytes that wait for more.
        match self.flush_bytes(transport, if self.is_cut { Transport::send } else { Transport::send_more }) {
            Flushed::Drained => Self::flush_file(&mut self.file, &mut self.broken, transport),
            other => other,
        }
    }

    fn flush_bytes(&mut self, transport: &Transport, send: fn(&Transport, &[u8]) -> Sent) -> Flushed {
        let spooled = Self::flush_file(&mut self.spooled, &mut self.broken, transport);
        if spooled != Flushed::Drained {
            return spooled;
        }
        while !self.broken && !self.in_memory().is_empty() {
            match send(transport, self.in_memory()) {
                Sent::Bytes(count) => {
                    self.begun = true;
                    match &mut self.borrowed {
                        Some((_, rest)) if self.bytes.len() == self.sent => rest.start += count,
                        _ => self.sent += count,
                    }
                }
                Sent::Nothing => return Flushed::Pending,
                Sent::Broken => self.broken = true,
            }
        }
        self.borrowed = None;
        self.compact();
        if self.broken { Flushed::Broken } else { Flushed::Drained }
    }

    fn flush_file(file: &mut Option<FileRange>, broken: &mut bool, transport: &Transport) -> Flushed {
        let Some(range) = file else { return Flushed::Drained };
        let mut burst = FILE_BURST;
        while !*broken && !range.is_short && range.left > 0 && burst > 0 {
            let count = usize::try_from(range.left).unwrap_or(usize::MAX).min(burst);
            match transport.send_file(&range.file, &mut range.offset, count) {
                Sent::Bytes(0) => range.is_short = true,
                Sent::Broken => *broken = true,
                Sent::Bytes(count) => {
                    range.left -= count as u64;
                    burst -= count.min(burst);
                }
                Sent::Nothing => return Flushed::Pending,
            }
        }
        if *broken || range.is_short {
            return Flushed::Broken;
        }
        if range.left > 0 {
            return Flushed::Pending;
        }
        *file = None;
        Flushed::Drained
    }

    fn compact(&mut self) {
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > HIGH_WATER {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect()
    }

    /// Send everything; returns what the client reads.
    fn received(mut client: UnixStream, outbox: &mut Outbox, transport: &Transport) -> Vec<u8> {
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            client.read_to_end(&mut read).unwrap();
            read
        });
        while outbox.flush(transport) == Flushed::Pending {
            std::thread::yield_now();
        }
        assert!(outbox.is_empty() && !outbox.is_full());
        transport.finish();
        reader.join().unwrap()
    }

    #[test]
    fn spooled_bytes_come_first_and_in_order() {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let transport = Transport::new(server.into());
        let all = bytes(4_000_000);
        let mut outbox = Outbox::default();
        for (number, part) in all.chunks(100_000).enumerate() {
            outbox.push(part, &transport, || None);
            if number % 7 == 6 {
                outbox.spool().unwrap();
                assert_eq!((outbox.unsent(), outbox.is_full(), outbox.is_empty()), (0, true, false));
            }
        }
        assert!(received(client, &mut outbox, &transport) == all);
    }

    #[test]
    fn borrowed_bytes_are_sent_in_order() {
        for is_followed in [false, true] {
            let (client, server) = UnixStream::pair().unwrap();
            server.set_nonblocking(true).unwrap();
            let transport = Transport::new(server.into());
            let all = bytes(4_000_000);
            let block: Borrowed = Box::new(all.clone());
            let mut outbox = Outbox { bytes: b"head".to_vec(), ..Outbox::default() };
            outbox.push(&all[..3_000_000], &transport, || Some(block));
            assert_eq!((outbox.unsent(), outbox.is_full(), outbox.is_empty()), (0, true, false));
            let mut expected = [b"head", &all[..3_000_000]].concat();
            if is_followed {
                outbox.push(b"tail", &transport, || None);
                expected.extend_from_slice(b"tail");
            }
            assert!(received(client, &mut outbox, &transport) == expected);
        }
    }

    #[test]
    fn an_outbox_that_has_sent_spooled_bytes_is_not_untouched() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let transport = Transport::new(server.into());
        let mut outbox = Outbox { bytes: bytes(10), ..Outbox::default() };
        outbox.spool().unwrap();
        assert_eq!(outbox.flush(&transport), Flushed::Drained);
        assert_eq!((outbox.is_empty(), outbox.is_untouched()), (true, false), "no other answer may follow");
        let mut read = [0; 10];
        client.read_exact(&mut read).unwrap();
        assert_eq!(read.as_slice(), bytes(10));
    }

    #[test]
    fn where_spooling_reaches_its_limit_nothing_is_lost() {
        let file = temporary_file().unwrap();
        let spooled = Some(FileRange { file, offset: MOST_SPOOLED - 30, left: 10, is_short: false });
        let mut outbox = Outbox { spooled, bytes: bytes(21), ..Outbox::default() };
        assert_eq!(outbox.spool().unwrap_err().kind(), std::io::ErrorKind::FileTooLarge);
        assert_eq!((outbox.unsent(), outbox.spooled.as_ref().map(|range| range.left)), (21, Some(10)));
        outbox.sent = 1;
        outbox.spool().unwrap();
        assert_eq!((outbox.unsent(), outbox.spooled.as_ref().map(|range| range.left)), (0, Some(30)));
    }
}

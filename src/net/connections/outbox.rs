//! What is on its way to one client: what was laid aside in a file, then bytes, then perhaps bytes that stay where their
//! maker has them, or a piece of a file.
//!
//! Sending never blocks and never fails: a client that is gone makes the outbox broken, which ends the connection.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::spool::temporary_file;
use super::transport::{Sent, Transport};
use crate::net::watch::heap;

/// Above this many unsent bytes an answer is not asked for more.
pub const HIGH_WATER: usize = 256 * 1024;
/// Longest body that is copied behind its head rather than sent from where it is.
const COPY: usize = 16 * 1024;
/// Most bytes of a file in one go, so that a fast reader does not keep others waiting.
const FILE_BURST: usize = 1024 * 1024;
/// Most bytes that one answer may lay aside: what a slow client can take of a disk.
const LAID_ASIDE: u64 = 1024 * 1024 * 1024;

/// A piece of a file.
#[derive(Debug)]
pub struct FileRange {
    /// The file, a duplicate of the application's descriptor.
    pub file: File,
    /// The first byte to send.
    pub offset: u64,
    /// How many.
    pub left: u64,
    /// It ended before them: it became shorter meanwhile.
    pub is_short: bool,
}

impl FileRange {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let end = self.offset + self.left;
        if end + bytes.len() as u64 > LAID_ASIDE {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        if let Err(error) = self.file.write_all_at(bytes, end) {
            // Others may need the room of what is no use here.
            let _ = self.file.set_len(end);
            return Err(error);
        }
        self.left += bytes.len() as u64;
        Ok(())
    }
}

/// Bytes that stay where their maker has them until they are sent.
pub type Held = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Where an outbox stands after sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// All is sent.
    Drained,
    /// The client has to take some first.
    Pending,
    /// The client is gone, or a file has become shorter.
    Broken,
}

/// Unsent output, in order.
#[derive(Default)]
pub struct Outbox {
    /// What was in `bytes` before: see [`Outbox::lay_aside`].
    aside: Option<FileRange>,
    /// Bytes to send; append here.
    pub bytes: Vec<u8>,
    /// How many of them are sent.
    sent: usize,
    /// What follows them, from the first unsent byte to the end.
    held: Option<(Held, Range<usize>)>,
    /// What follows that.
    pub file: Option<FileRange>,
    broken: bool,
    /// See [`Outbox::cut_short`].
    is_cut: bool,
    /// Something was sent, or laid aside.
    begun: bool,
}

impl Outbox {
    /// An outbox that writes into `buffer`, which is emptied.
    pub fn with_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { bytes: buffer, ..Self::default() }
    }

    /// An outbox of which nothing can be sent.
    pub fn broken() -> Self {
        Self { broken: true, ..Self::default() }
    }

    /// Whether nothing was ever put into it.
    pub fn is_untouched(&self) -> bool {
        self.is_empty() && !self.begun && !self.broken
    }

    /// Unsent bytes in memory.
    pub fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Bytes of memory that it takes.
    pub fn held(&self) -> usize {
        self.bytes.capacity() + self.held.as_ref().map_or(0, |(held, _)| held.as_ref().as_ref().len())
    }

    /// Make room for so many more bytes.
    pub fn make_room(&mut self, more: usize) {
        heap::grow(&mut self.bytes, more, None);
    }

    /// Whether all is sent.
    pub fn is_empty(&self) -> bool {
        self.aside.is_none() && self.in_memory().is_empty() && self.file.is_none()
    }

    /// Whether the client is gone.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// What is here is not all of an answer, and nothing follows: once it is sent the connection is to be reset, since some
    /// front servers take an orderly end for that of the answer.
    pub fn cut_short(&mut self) {
        self.is_cut = true;
    }

    /// Whether the client does not get all of an answer if the connection ends now, or once this is sent.
    pub fn is_unfinished(&self) -> bool {
        self.is_cut || self.broken || !self.is_empty()
    }

    /// Give up: nothing of this will be sent.
    pub fn break_off(&mut self) {
        self.broken = true;
    }

    /// Whether an answer should wait before it gives more.
    pub fn is_full(&self) -> bool {
        self.unsent() > HIGH_WATER || self.aside.is_some() || self.held.is_some() || self.file.is_some()
    }

    /// What is to be sent next of what is in memory.
    fn in_memory(&self) -> &[u8] {
        match &self.held {
            Some((held, rest)) if self.unsent() == 0 => held.as_ref().as_ref().get(rest.clone()).unwrap_or_default(),
            _ => self.bytes.get(self.sent..).unwrap_or_default(),
        }
    }

    /// Move the unsent bytes into a temporary file without a name, behind those that lie there: may wait for the disk.
    /// Fails, with all as it was, where there is no room or no file to be had.
    pub fn lay_aside(&mut self) -> std::io::Result<()> {
        let mut aside = match self.aside.take() {
            Some(range) => range,
            None => FileRange { file: temporary_file()?, offset: 0, left: 0, is_short: false },
        };
        let written = aside.append(self.bytes.get(self.sent..).unwrap_or_default());
        self.aside = Some(aside).filter(|range| range.left > 0);
        written?;
        self.begun = true;
        self.bytes = Vec::new();
        self.sent = 0;
        Ok(())
    }

    /// Add `data`; a long one is sent from where it is, and only what the socket does not take is copied. Where that is
    /// much, `keep` may give what begins with `data`, to be kept instead.
    pub fn push(&mut self, data: &[u8], transport: &Transport, keep: impl FnOnce() -> Option<Held>) {
        let mut rest = data;
        if let Some((held, range)) = self.held.take() {
            // Only this may follow it.
            self.bytes.extend_from_slice(held.as_ref().as_ref().get(range).unwrap_or_default());
        }
        if data.len() > COPY && self.aside.is_none() && self.file.is_none() && !self.broken {
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
        match (rest.len() > HIGH_WATER).then(keep).flatten() {
            Some(held) => self.held = Some((held, data.len() - rest.len()..data.len())),
            None => {
                self.make_room(rest.len());
                self.bytes.extend_from_slice(rest);
            }
        }
    }

    /// Send what goes now.
    pub fn flush(&mut self, transport: &Transport) -> Flushed {
        if self.file.is_some() { self.flush_last(transport) } else { self.flush_bytes(transport, Transport::send) }
    }

    /// The same where the end of the connection, or a file, follows at once: it shares a packet with these bytes.
    pub fn flush_last(&mut self, transport: &Transport) -> Flushed {
        // Bytes that wait for more would be lost by a reset.
        match self.flush_bytes(transport, if self.is_cut { Transport::send } else { Transport::send_more }) {
            Flushed::Drained => Self::flush_file(&mut self.file, &mut self.broken, transport),
            other => other,
        }
    }

    fn flush_bytes(&mut self, transport: &Transport, send: fn(&Transport, &[u8]) -> Sent) -> Flushed {
        let laid_aside = Self::flush_file(&mut self.aside, &mut self.broken, transport);
        if laid_aside != Flushed::Drained {
            return laid_aside;
        }
        while !self.broken && !self.in_memory().is_empty() {
            match send(transport, self.in_memory()) {
                Sent::Bytes(count) => {
                    self.begun = true;
                    match &mut self.held {
                        Some((_, rest)) if self.bytes.len() == self.sent => rest.start += count,
                        _ => self.sent += count,
                    }
                }
                Sent::Nothing => return Flushed::Pending,
                Sent::Broken => self.broken = true,
            }
        }
        self.held = None;
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

    /// What the client reads until the end, once all is sent.
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
    fn what_is_laid_aside_comes_first_and_all_of_it_in_order() {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let transport = Transport::new(server.into());
        let all = bytes(4_000_000);
        let mut outbox = Outbox::default();
        for (number, part) in all.chunks(100_000).enumerate() {
            outbox.push(part, &transport, || None);
            if number % 7 == 6 {
                outbox.lay_aside().unwrap();
                assert_eq!((outbox.unsent(), outbox.is_full(), outbox.is_empty()), (0, true, false));
            }
        }
        assert!(received(client, &mut outbox, &transport) == all);
    }

    #[test]
    fn what_is_held_is_sent_from_where_it_is_and_in_order() {
        for is_followed in [false, true] {
            let (client, server) = UnixStream::pair().unwrap();
            server.set_nonblocking(true).unwrap();
            let transport = Transport::new(server.into());
            let all = bytes(4_000_000);
            let held: Held = Box::new(all.clone());
            let mut outbox = Outbox { bytes: b"head".to_vec(), ..Outbox::default() };
            outbox.push(&all[..3_000_000], &transport, || Some(held));
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
    fn what_was_laid_aside_and_sent_is_not_forgotten() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let transport = Transport::new(server.into());
        let mut outbox = Outbox { bytes: bytes(10), ..Outbox::default() };
        outbox.lay_aside().unwrap();
        assert_eq!(outbox.flush(&transport), Flushed::Drained);
        assert_eq!((outbox.is_empty(), outbox.is_untouched()), (true, false), "no other answer may follow");
        let mut read = [0; 10];
        client.read_exact(&mut read).unwrap();
        assert_eq!(read.as_slice(), bytes(10));
    }

    #[test]
    fn only_so_much_is_laid_aside_and_nothing_is_lost_then() {
        let file = temporary_file().unwrap();
        let aside = Some(FileRange { file, offset: LAID_ASIDE - 30, left: 10, is_short: false });
        let mut outbox = Outbox { aside, bytes: bytes(21), ..Outbox::default() };
        assert_eq!(outbox.lay_aside().unwrap_err().kind(), std::io::ErrorKind::FileTooLarge);
        assert_eq!((outbox.unsent(), outbox.aside.as_ref().map(|range| range.left)), (21, Some(10)));
        outbox.sent = 1;
        outbox.lay_aside().unwrap();
        assert_eq!((outbox.unsent(), outbox.aside.as_ref().map(|range| range.left)), (0, Some(30)));
    }
}

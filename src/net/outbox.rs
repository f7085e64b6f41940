//! What is on its way to one client: bytes, then perhaps a piece of a file.
//!
//! Writing here never blocks and never fails: a client that is gone makes the outbox broken, which ends the connection.

use std::fs::File;

use super::transport::{Sent, Transport};

/// Above this many unsent bytes an answer is not asked for more.
pub const HIGH_WATER: usize = 256 * 1024;
/// Longest body that is copied behind its head rather than sent from where it is.
const COPY: usize = 16 * 1024;
/// Most bytes of a file in one go, so that a fast reader does not keep others waiting.
const FILE_BURST: usize = 1024 * 1024;

/// A piece of a file.
#[derive(Debug)]
pub struct FileRange {
    /// The file, a duplicate of the application's descriptor.
    pub file: File,
    /// The first byte to send.
    pub offset: u64,
    /// How many.
    pub left: u64,
}

/// Where an outbox stands after sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// All is sent.
    Drained,
    /// The client has to take some first.
    Pending,
    /// The client is gone.
    Broken,
}

/// Unsent output, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Bytes to send; append here.
    pub bytes: Vec<u8>,
    /// How many of them are sent.
    sent: usize,
    /// What follows them.
    pub file: Option<FileRange>,
    broken: bool,
    /// Something was sent.
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

    /// Whether all is sent.
    pub fn is_empty(&self) -> bool {
        self.unsent() == 0 && self.file.is_none()
    }

    /// Whether the client is gone.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Give up: nothing of this will be sent.
    pub fn break_off(&mut self) {
        self.broken = true;
    }

    /// Whether an answer should wait before it gives more.
    pub fn is_full(&self) -> bool {
        self.unsent() > HIGH_WATER || self.file.is_some()
    }

    /// Add `data`; a long one is sent from where it is, and only what the socket does not take is copied.
    pub fn push(&mut self, data: &[u8], transport: &Transport) {
        let mut rest = data;
        if data.len() > COPY && self.file.is_none() && !self.broken {
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
        if !self.broken {
            self.bytes.extend_from_slice(rest);
        }
    }

    /// Send what goes now.
    pub fn flush(&mut self, transport: &Transport) -> Flushed {
        if self.file.is_some() { self.flush_last(transport) } else { self.flush_with(|bytes| transport.send(bytes)) }
    }

    /// The same where the end of the connection, or a file, follows at once: it shares a packet with these bytes.
    pub fn flush_last(&mut self, transport: &Transport) -> Flushed {
        match self.flush_with(|bytes| transport.send_more(bytes)) {
            Flushed::Drained => self.flush_file(transport),
            other => other,
        }
    }

    fn flush_with(&mut self, send: impl Fn(&[u8]) -> Sent) -> Flushed {
        while !self.broken && self.unsent() > 0 {
            let bytes = self.bytes.get(self.sent..).unwrap_or_default();
            match send(bytes) {
                Sent::Bytes(count) => {
                    self.sent += count;
                    self.begun = true;
                }
                Sent::Nothing => return Flushed::Pending,
                Sent::Broken => self.broken = true,
            }
        }
        self.compact();
        if self.broken { Flushed::Broken } else { Flushed::Drained }
    }

    fn flush_file(&mut self, transport: &Transport) -> Flushed {
        let Some(range) = &mut self.file else { return Flushed::Drained };
        let mut burst = FILE_BURST;
        while range.left > 0 && burst > 0 {
            let count = usize::try_from(range.left).unwrap_or(usize::MAX).min(burst);
            match transport.send_file(&range.file, &mut range.offset, count) {
                // The file became shorter than was announced.
                Sent::Bytes(0) | Sent::Broken => {
                    self.broken = true;
                    return Flushed::Broken;
                }
                Sent::Bytes(count) => {
                    range.left -= count as u64;
                    burst -= count.min(burst);
                }
                Sent::Nothing => return Flushed::Pending,
            }
        }
        if range.left > 0 {
            return Flushed::Pending;
        }
        self.file = None;
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

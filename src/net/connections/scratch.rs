//! The buffers of a thread, which it lends to the connection that it works on, so that a waiting connection holds almost no
//! memory. Knows neither sockets nor the event loop.

use super::outbox::Outbox;
use super::spool::Body;
use crate::http::protocol::Inbound;
use crate::net::handler::{Handler, Thread};

/// Bytes that are read at once.
pub const READ: usize = 128 * 1024;
/// Bytes of a large body that are read at once: long writes to its file cost less for each byte.
pub const READ_OF_BODY: usize = 512 * 1024;
/// Largest buffer for received bytes that a thread keeps for its next request.
const KEPT: usize = 2 * READ;
/// Largest buffer for answers that a thread keeps.
const KEPT_OUTBOUND: usize = 64 * 1024;

/// A thread and its buffers.
pub struct Scratch<H: Handler> {
    inbound: Option<Box<Inbound<Body>>>,
    outbound: Vec<u8>,
    /// Room for received bytes; its content is of no use.
    pub spare: Vec<u8>,
    /// The thread.
    pub thread: Thread<H::ThreadState>,
}

impl<H: Handler> Scratch<H> {
    /// Empty buffers for `thread`.
    pub fn new(thread: Thread<H::ThreadState>) -> Self {
        Self { inbound: None, outbound: Vec::new(), spare: Vec::new(), thread }
    }

    /// A receiver for a connection that has none.
    pub fn lend_inbound(&mut self) -> Box<Inbound<Body>> {
        self.inbound.take().unwrap_or_default()
    }

    /// Keep an empty receiver for the next connection.
    pub fn keep_inbound(&mut self, mut inbound: Box<Inbound<Body>>) {
        self.inbound = (inbound.buffer().capacity() <= KEPT).then_some(inbound);
    }

    /// Take as much memory as possible from the receiver of a connection that waits.
    pub fn pack(&mut self, inbound: &mut Inbound<Body>) {
        inbound.pack(&mut self.spare);
        if self.spare.capacity() > KEPT {
            self.spare = Vec::new();
        }
    }

    /// Give a buffer to an outbox that has nothing to send.
    pub fn lend_outbound(&mut self, outbox: &mut Outbox) {
        if outbox.is_empty() && !outbox.is_broken() {
            *outbox = Outbox::with_buffer(std::mem::take(&mut self.outbound));
        }
    }

    /// Take the buffer back from an outbox that has sent everything.
    pub fn take_outbound(&mut self, outbox: &mut Outbox) {
        let capacity = outbox.bytes.capacity();
        if capacity > self.outbound.capacity() && capacity <= KEPT_OUTBOUND {
            self.outbound = std::mem::take(&mut outbox.bytes);
        }
        *outbox = Outbox::default();
    }
}

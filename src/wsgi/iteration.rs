//! Takes the body from what the application returned: one block, a file, or an iterable (PEP 3333, "Buffering and
//! Streaming").
//!
//! Never waits for the client: when the outbox is full the rest is left for later.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyTuple};

use super::exchange::Exchange;
use super::file_wrapper::{FileClasses, FileWrapper};
use super::open_file::FileBody;
use super::start_response::type_name;
use crate::net::connections::outbox::{FileRange, Flushed, Outbox};
use crate::net::connections::pusher::{Pushed, Pusher};
use crate::net::connections::transport::Transport;
use crate::net::handler::Thread;

/// Bytes that one answer takes from the application before other answers have their turn.
const BURST: usize = 1024 * 1024;
/// Longest block that waits for the next one to share a packet with it.
const SHORT: usize = 4096;
/// As many blocks as come in one tick of the clock, of 1 to 10 ms, without one of them waiting.
const ONE_BY_ONE: u32 = 8;

/// How far a body was taken.
pub enum Progress {
    /// To its end.
    Finished,
    /// The client has to take some first, or other answers have their turn, or the time of a stop is over.
    Full,
    /// The client is gone.
    Gone,
}

/// Take what the application returned, as far as that goes without waiting for the client. Returns also the iterator
/// that has the rest. Raises TypeError for what is no body, and whatever the iterable raises.
pub fn take_body<'py, S>(
    exchange: &Bound<'py, Exchange>,
    returned: &Bound<'py, PyAny>,
    classes: &FileClasses,
    transport: &Transport,
    thread: &Thread<S>,
) -> PyResult<(Progress, Option<Bound<'py, PyIterator>>)> {
    if let Some(block) = only_block(returned) {
        take_whole(exchange, &block, transport)?;
        return Ok((Progress::Finished, None));
    }
    let taken = if let Ok(wrapper) = returned.cast_exact::<FileWrapper>() {
        take_file(exchange, || wrapper.try_borrow()?.range(wrapper.py(), classes), transport)?
    } else if let Ok(body) = returned.cast_exact::<FileBody>() {
        take_file(exchange, || Ok(body.try_borrow_mut()?.take_range()), transport)?
    } else {
        None
    };
    if let Some(progress) = taken {
        return Ok((progress, None));
    }
    // An empty one is an iterable that gives nothing, as `[]` is.
    if (returned.is_instance_of::<PyBytes>() || returned.is_instance_of::<PyString>()) && !returned.is_empty()? {
        let text = format!("the application returned {}; return a list of bytes: [b\"...\"]", type_name(returned));
        return Err(PyTypeError::new_err(text));
    }
    let iterator = returned.try_iter().map_err(|error| {
        if returned.hasattr(intern!(returned.py(), "__iter__")).unwrap_or(true) {
            return error;
        }
        let returned = named(returned);
        PyTypeError::new_err(format!("the application returned {returned}, which is no iterable of bytes"))
    })?;
    let progress = iterate(exchange, &iterator, total(returned), transport, thread)?;
    Ok((progress, Some(iterator)))
}

/// The usual case: one block is the whole body.
fn take_whole(exchange: &Bound<'_, Exchange>, block: &Bound<'_, PyBytes>, transport: &Transport) -> PyResult<()> {
    let mut exchange = exchange.try_borrow_mut()?;
    exchange.commit(Some(block.as_bytes().len() as u64))?;
    exchange.block(block.as_bytes(), transport, Some(block));
    Ok(())
}

/// Let the kernel send a file. Returns `None` if it must be read instead.
fn take_file(
    exchange: &Bound<'_, Exchange>,
    range: impl FnOnce() -> PyResult<Option<FileRange>>,
    transport: &Transport,
) -> PyResult<Option<Progress>> {
    if exchange.try_borrow()?.is_committed() {
        return Ok(None);
    }
    let Some(range) = range()? else { return Ok(None) };
    let mut exchange = exchange.try_borrow_mut()?;
    if exchange.delegate(&range)? {
        return Ok(Some(Progress::Finished));
    }
    exchange.commit(Some(range.left))?;
    exchange.file(range);
    Ok(Some(match exchange.outbox.flush(transport) {
        Flushed::Pending => Progress::Full,
        Flushed::Broken if exchange.outbox.is_broken() => Progress::Gone,
        Flushed::Drained | Flushed::Broken => Progress::Finished,
    }))
}

/// Take blocks. Each is sent before the next is asked for, or within a millisecond where many follow each other quickly
/// (PEP 3333, "Buffering and Streaming"). `total`: the length of the body, if all of it is here.
pub fn iterate<'py, S>(
    exchange: &Bound<'py, Exchange>,
    iterator: &Bound<'py, PyIterator>,
    total: Option<u64>,
    transport: &Transport,
    thread: &Thread<S>,
) -> PyResult<Progress> {
    let (mut taken, mut blocks) = (0, Blocks::new(transport, &thread.pusher));
    for block in iterator {
        let block = block?;
        let block = block.cast::<PyBytes>().map_err(|_| {
            PyTypeError::new_err(format!("the application gave {} as a block of the body, not bytes", named(&block)))
        })?;
        if block.as_bytes().is_empty() {
            // No sign of life: an application that gives nothing but empty blocks must be late some time.
            continue;
        }
        let now = thread.pulse.beat();
        let mut exchange = exchange.try_borrow_mut()?;
        if !exchange.is_committed() {
            exchange.commit(total)?;
        }
        exchange.block(block.as_bytes(), transport, Some(block));
        if exchange.is_bodiless() || exchange.overrun {
            return Ok(Progress::Finished);
        }
        let outbox = &mut exchange.outbox;
        if outbox.is_broken() || total.is_none() && blocks.send(outbox, now) == Flushed::Broken {
            return Ok(Progress::Gone);
        }
        // The first block is perhaps the only one, and what is here as a whole needs nothing more of the application.
        let is_endless = taken > 0 && total.is_none();
        taken += block.as_bytes().len();
        if exchange.outbox.is_full() || taken >= BURST || (is_endless && thread.is_finished()) {
            return Ok(Progress::Full);
        }
    }
    let mut exchange = exchange.try_borrow_mut()?;
    if !exchange.is_committed() {
        exchange.commit(Some(0))?;
    }
    Ok(Progress::Finished)
}

/// The blocks of one turn, on their way to the client.
struct Blocks<'a> {
    transport: &'a Transport,
    pusher: &'a Pusher,
    /// The tick of the clock in which the last block came.
    tick: u64,
    /// How many came in it.
    count: u32,
    pushed: Option<Pushed>,
}

impl<'a> Blocks<'a> {
    fn new(transport: &'a Transport, pusher: &'a Pusher) -> Self {
        Self { transport, pusher, tick: 0, count: 0, pushed: None }
    }

    /// Send the block that came `now` and is in the outbox. Most of what a short block costs is its packet, here and at
    /// the client.
    fn send(&mut self, outbox: &mut Outbox, now: u64) -> Flushed {
        self.count = if now == self.tick { self.count + 1 } else { 1 };
        self.tick = now;
        if self.count <= ONE_BY_ONE || !(1..=SHORT).contains(&outbox.unsent()) {
            return outbox.flush(self.transport);
        }
        let flushed = outbox.flush_more(self.transport);
        self.pushed.get_or_insert_with(|| self.pusher.watch(self.transport)).push_soon();
        flushed
    }
}

/// A wrong value, for a message. Not `repr()`: it is code of the application, and may be of any length.
fn named(value: &Bound<'_, PyAny>) -> String {
    if value.is_none() { "None".to_owned() } else { format!("a value of type {}", type_name(value)) }
}

/// The block of a list or tuple that has just one.
fn only_block<'a, 'py>(returned: &'a Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>>
where
    'py: 'a,
{
    let item = if let Ok(list) = returned.cast_exact::<PyList>() {
        (list.len() == 1).then(|| list.get_item(0).ok()).flatten()
    } else if let Ok(tuple) = returned.cast_exact::<PyTuple>() {
        (tuple.len() == 1).then(|| tuple.get_item(0).ok()).flatten()
    } else {
        None
    }?;
    item.cast_into_exact::<PyBytes>().ok().filter(|block| !block.as_bytes().is_empty())
}

/// The length of a body that is a list or tuple.
fn total(returned: &Bound<'_, PyAny>) -> Option<u64> {
    let length =
        |block: Bound<'_, PyAny>| block.cast_exact::<PyBytes>().ok().map(|block| block.as_bytes().len() as u64);
    if let Ok(list) = returned.cast_exact::<PyList>() {
        list.iter().map(length).sum()
    } else if let Ok(tuple) = returned.cast_exact::<PyTuple>() {
        tuple.iter().map(length).sum()
    } else {
        None
    }
}

/// Call `close()`, if there is one. PEP 3333: once, however the request ended.
pub fn close(iterable: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = iterable.py();
    if iterable.is_exact_instance_of::<PyList>() || iterable.is_exact_instance_of::<PyTuple>() {
        return Ok(());
    }
    match iterable.getattr_opt(intern!(py, "close"))? {
        Some(close) => close.call0().map(|_| ()),
        None => Ok(()),
    }
}

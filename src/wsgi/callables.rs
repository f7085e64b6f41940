//! The functions that the application calls while it answers: `start_response()`, and the `write()` that this returns (PEP 3333).
//!
//! `write()` returns before the client has taken the data, so that a slow client occupies no thread: what is too much
//! for memory goes to a temporary file. Only if no file takes it does `write()` wait for the client. The exchange is
//! not borrowed while code of the application runs or a thread waits: another thread may end the request meanwhile.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyConnectionAbortedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::exchange::{Exchange, GONE};
use crate::net::connections::outbox::{Flushed, HIGH_WATER, Outbox};
use crate::net::connections::transport::Transport;

/// Most unsent bytes that `write()` leaves in memory.
const WRITE_AHEAD: usize = 4 * HIGH_WATER;

/// How often a thread that waits for its client shows that the application is not the one that takes so long.
const BEAT: Duration = Duration::from_millis(100);

#[pymethods]
impl Exchange {
    /// `start_response(status, headers, exc_info=None)`. Raises `exc_info` again once the head is final.
    #[pyo3(signature = (status, headers, exc_info = None, /))]
    fn start_response<'py>(
        slf: &Bound<'py, Self>,
        status: &Bound<'py, PyAny>,
        headers: &Bound<'py, PyAny>,
        exc_info: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let exc_info = exc_info.filter(|exc_info| !exc_info.is_none());
        if let Some(exc_info) = exc_info {
            if slf.try_borrow()?.must_raise() {
                return Err(PyErr::from_value(exc_info.get_item(1)?));
            }
        }
        let mut exchange = slf.try_borrow_mut()?;
        exchange.begin(status, headers, exc_info.is_some())?;
        let write = match exchange.bound_write.take() {
            Some(write) => write,
            None => slf.getattr(intern!(slf.py(), "write"))?.unbind(),
        };
        let returned = write.bind(slf.py()).clone();
        exchange.bound_write = Some(write);
        Ok(returned)
    }

    /// `write(data)`. Raises RuntimeError after the end of the request, ConnectionAbortedError if the client is gone.
    #[pyo3(signature = (data, /))]
    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        write(slf, data.as_bytes())
    }
}

fn write(exchange: &Bound<'_, Exchange>, data: &[u8]) -> PyResult<()> {
    let (turn, transport) = exchange.try_borrow_mut()?.take_written(data)?;
    // How many bytes no file took, and when: the file is not tried again for each bit that the client takes.
    let mut refused: Option<(usize, Instant)> = None;
    while let Some((mut outbox, timeout)) = borrow_full_outbox(exchange, turn, &transport)? {
        let unsent = outbox.unsent();
        let tries_file = refused.is_none_or(|(most, when)| unsent <= most / 2 || when.elapsed() >= timeout);
        let is_in_file = tries_file && exchange.py().detach(|| outbox.spool().is_ok());
        {
            let mut exchange = exchange.try_borrow_mut()?;
            exchange.check_lasts(turn)?;
            exchange.outbox = outbox;
        }
        if is_in_file {
            return Ok(());
        }
        if tries_file {
            refused = Some((unsent, Instant::now()));
        }
        let unacknowledged = transport.unacknowledged();
        let has_room = wait_for_room(exchange, turn, &transport, timeout)?;
        // The kernel sees room only once a third of its buffer is free: a slow client is not a dead one.
        if !has_room && transport.unacknowledged() >= unacknowledged {
            exchange.try_borrow_mut()?.outbox.break_off();
        }
    }
    Ok(())
}

/// Send what the client takes at once. If too much is left, return the outbox, which leaves a broken one in the
/// exchange: another thread that ends the request meanwhile, or writes too, finds that the client is gone. Also return
/// how long the client may take no byte.
fn borrow_full_outbox(
    exchange: &Bound<'_, Exchange>,
    turn: u64,
    transport: &Transport,
) -> PyResult<Option<(Outbox, Duration)>> {
    let mut exchange = exchange.try_borrow_mut()?;
    exchange.check_lasts(turn)?;
    exchange.beat();
    if !exchange.is_committed() {
        // Only empty data was written: another head may still replace this one.
        return Ok(None);
    }
    if exchange.outbox.flush(transport) == Flushed::Broken {
        return Err(PyConnectionAbortedError::new_err(GONE));
    }
    if exchange.outbox.unsent() <= WRITE_AHEAD {
        return Ok(None);
    }
    Ok(Some((std::mem::replace(&mut exchange.outbox, Outbox::broken()), exchange.write_timeout())))
}

/// Wait until the socket has room. Returns false after `timeout`. Signals and the end of the request interrupt it.
fn wait_for_room(
    exchange: &Bound<'_, Exchange>,
    turn: u64,
    transport: &Transport,
    timeout: Duration,
) -> PyResult<bool> {
    let py = exchange.py();
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let wait = Timespec { tv_sec: 0, tv_nsec: left.min(BEAT).subsec_nanos().into() };
        match py.detach(|| poll(&mut [PollFd::new(transport, PollFlags::OUT)], Some(&wait))) {
            Ok(0) if left <= BEAT => return Ok(false),
            Ok(0) => {
                let exchange = exchange.try_borrow()?;
                // The serving thread, whose pulse this is, may have gone on to another request.
                exchange.check_lasts(turn)?;
                exchange.beat();
            }
            Ok(_) => return Ok(true),
            Err(_) => return py.check_signals().map(|()| true),
        }
    }
}

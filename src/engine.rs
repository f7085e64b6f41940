//! The boundary: the class `Engine` and the functions that Python sees; `_engine.pyi` is their manual.
//!
//! Turns settings and descriptors into a running server. Knows how the parts are put together, not what they do.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::config::{self, setting};
use crate::http::head_parser::HeadParser;
use crate::http::own_fields::OwnFields;
use crate::net::connections::spool::temporary_file;
use crate::net::events::listener::{Listener, duplicate};
use crate::net::heap;
use crate::net::report::access_log::{AccessLog, Entry};
use crate::net::report::report_pipe::ReportPipe;
use crate::net::report::scoreboard::Row;
use crate::net::threads::server::{Channels, Server};
use crate::wsgi::application::{AnswerSettings, Application};
use crate::wsgi::environ::EnvironBuilder;
use crate::wsgi::error_log::{ErrorLog, utc_offset};
use crate::wsgi::sendfile_header::SendfileHeader;

/// Close a listening socket for all processes, and accept the clients that wait; see `_engine.pyi`.
#[pyfunction]
pub fn take_waiting(listener: RawFd) -> PyResult<Vec<RawFd>> {
    let listener = Listener::adopt(listener).map_err(os_error)?;
    Ok(listener.take_waiting().into_iter().map(IntoRawFd::into_raw_fd).collect())
}

/// Add the line of a request whose process is gone to the access log; see `_engine.pyi`.
#[pyfunction]
pub fn log_lost(
    config: &Bound<'_, PyAny>,
    access_log: RawFd,
    client: Option<IpAddr>,
    head: &[u8],
    request_id: &str,
    status: u16,
) -> PyResult<()> {
    let mut parser = HeadParser::default();
    // The scoreboard may hold only the beginning of a head. There is a line whatever it holds.
    let _ = parser.parse(head, &config::limits(config)?);
    let peer = client.map(|client| SocketAddr::new(client, 0));
    let id = Some(request_id).filter(|id| !id.is_empty());
    let log = access_log_at(access_log, config)?;
    log.record(&Entry { peer, head: &parser.head, bytes: head, id, status, length: 0 }, utc_offset);
    // A log that takes nothing loses the line: the supervisor does not wait for its reader.
    let _ = log.flush(|| false);
    Ok(())
}

/// Make a temporary file as for a request body, and let go of it; see `_engine.pyi`.
#[pyfunction]
pub fn try_temporary_file() -> PyResult<()> {
    temporary_file().map(|_| ()).map_err(os_error)
}

/// Give the system back what is free of the heap; see `_engine.pyi`.
#[pyfunction]
pub fn give_back_memory() {
    heap::trim();
}

/// Let the kernel kill, or continue, this process when its parent ends; see `_engine.pyi`.
#[pyfunction]
pub fn on_parent_death(kills: bool) {
    // A sandbox may refuse it. Then only the pipe from the parent shows its end.
    let _ = set_parent_process_death_signal(Some(if kills { Signal::KILL } else { Signal::CONT }));
}

/// The server of one process; see `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", frozen, immutable_type)]
pub struct Engine {
    server: Arc<Server<Application>>,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (app, listeners, control, access_log, error_log, config, report = None, row = None, countdown = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        app: Py<PyAny>,
        listeners: Vec<RawFd>,
        control: Vec<RawFd>,
        access_log: RawFd,
        error_log: &Bound<'_, PyAny>,
        config: &Bound<'_, PyAny>,
        report: Option<Bound<'_, PyAny>>,
        row: Option<&Bound<'_, PyAny>>,
        countdown: Option<RawFd>,
    ) -> PyResult<Self> {
        let py = config.py();
        let limits = config::limits(config)?;
        let listeners =
            listeners.into_iter().map(Listener::adopt).collect::<std::io::Result<Vec<_>>>().map_err(os_error)?;
        let addresses: Vec<_> = listeners.iter().map(|listener| listener.address).collect();
        let threads: usize = setting(config, "threads")?;
        let (report, callback) = match report.map(|report| report.extract::<RawFd>().map_err(|_| report.unbind())) {
            Some(Ok(descriptor)) => (Some(duplicate(descriptor).map_err(os_error)?), None),
            Some(Err(callback)) => (None, Some(callback)),
            None => (None, None),
        };
        let status = row.map(|row| row.getattr("answer")).transpose()?.map(Bound::unbind);
        let proxies = config::proxies(config, listeners.len())?;
        let row = map_row(row, threads, threads + usize::from(proxies.has_health_thread))?;
        let application = Application::new(
            (app, status),
            ErrorLog::new(error_log, config::takes_warnings(config)?),
            callback,
            EnvironBuilder::new(py, &addresses, &config::common_environ(config, error_log)?)?,
            AnswerSettings {
                own: OwnFields::new(setting::<String>(config, "server_header")?.as_bytes()),
                write_timeout: Duration::from_millis(limits.write_timeout),
                sendfile_header: SendfileHeader::new(&setting::<String>(config, "sendfile_header")?).map(Arc::new),
            },
            threads,
        );
        let access_log = access_log_at(access_log, config)?;
        let channels = Channels {
            listeners,
            controls: duplicates(control)?,
            report_pipe: ReportPipe::new(report),
            accept_pauses: duplicates(config::accept_pauses(config)?)?,
            countdown: countdown.map(duplicate).transpose().map_err(os_error)?,
            row,
        };
        let server = Server::new(application, limits, proxies, access_log, channels, threads).map_err(os_error)?;
        Ok(Self { server: Arc::new(server) })
    }

    fn watch(&self) -> PyResult<()> {
        self.server.watch().map_err(os_error)
    }

    fn run(&self, slot: usize) -> PyResult<()> {
        self.server.run(slot).map_err(PyRuntimeError::new_err)
    }

    fn note_fork(&self) {
        self.server.note_fork();
    }

    fn abandon(&self, py: Python<'_>) {
        self.server.handler().abandon(py);
        self.server.abandon();
    }

    fn stop(&self) {
        self.server.stop();
    }

    fn listeners(&self) -> Vec<RawFd> {
        self.server.listeners()
    }

    fn take_unread(&self) -> Vec<(RawFd, usize)> {
        let unread = self.server.take_unread().into_iter();
        unread.map(|(socket, listener)| (socket.into_raw_fd(), listener)).collect()
    }

    fn adopt(&self, connection: RawFd, listener: usize) -> PyResult<()> {
        self.server.adopt(duplicate(connection).map_err(os_error)?, listener);
        Ok(())
    }

    fn makes_way(&self) -> bool {
        self.server.makes_way()
    }

    fn stopped_at_once_by(&self) -> i32 {
        self.server.stopped_at_once_by()
    }

    fn has_failed(&self) -> bool {
        self.server.has_failed()
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.server.counts();
        let stats = PyDict::new(py);
        for (name, count) in [
            ("connections", counts.connections),
            ("accepted", counts.accepted),
            ("requests", counts.requests),
            ("refused", counts.refused),
            ("cut", counts.cut),
        ] {
            stats.set_item(name, count.load(Ordering::Relaxed))?;
        }
        Ok(stats)
    }
}

/// An OSError with the number of the error, by which Python tells some errors apart.
pub(crate) fn os_error(error: impl Into<std::io::Error>) -> PyErr {
    let error = error.into();
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, text)),
        None => PyOSError::new_err(text),
    }
}

/// Duplicates of descriptors, which stay the caller's.
fn duplicates(descriptors: Vec<RawFd>) -> PyResult<Vec<OwnedFd>> {
    descriptors.into_iter().map(duplicate).collect::<std::io::Result<_>>().map_err(os_error)
}

/// The access log on this descriptor; -1 for none.
fn access_log_at(descriptor: RawFd, config: &Bound<'_, PyAny>) -> PyResult<AccessLog> {
    Ok(AccessLog::new(Some(descriptor).filter(|&number| number >= 0), config::access_log_format(config)?))
}

/// The row of this process in the scoreboard; a private one if there is no scoreboard.
fn map_row(row: Option<&Bound<'_, PyAny>>, threads: usize, cells: usize) -> PyResult<Row> {
    let Some(row) = row else {
        return Row::private(threads, cells).ok_or_else(|| {
            PyValueError::new_err(format!("a row of {threads} threads and {cells} cells cannot be made"))
        });
    };
    let descriptor = duplicate(row.getattr("descriptor")?.extract()?).map_err(os_error)?;
    Row::map(descriptor.as_fd(), row.getattr("offset")?.extract()?, threads, cells).map_err(os_error)
}

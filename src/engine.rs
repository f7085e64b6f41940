//! The one class that Python sees: settings and descriptors in, a running server out.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::http::forwarded::Fields;
use crate::http::head::HeadParser;
use crate::http::own_fields::OwnFields;
use crate::limits::Limits;
use crate::net::connections::spool::temporary_file;
use crate::net::events::listener::{Listener, duplicate};
use crate::net::handler::Done;
use crate::net::proxies::front::{Fronts, Networks};
use crate::net::proxies::peer::RequestIds;
use crate::net::report::access_log::{AccessLog, Entry, Format};
use crate::net::report::board::Row;
use crate::net::threads::server::{Ends, Server};
use crate::net::watch::watchdog;
use crate::wsgi::application::{Application, Manner, utc_offset};
use crate::wsgi::environ::Environs;
use crate::wsgi::handover::Handover;

/// Let nobody in any more, in no process, and take who waits; see `_engine.pyi`.
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
    // What stands there is a thing to look at, and may be cut: of what is no head there is a line all the same.
    let _ = parser.parse(head, &limits(config)?);
    let peer = client.map(|client| SocketAddr::new(client, 0));
    let id = Some(request_id).filter(|id| !id.is_empty());
    let done = Done { status, length: 0, persistent: false };
    let log = AccessLog::new(Some(access_log).filter(|&number| number >= 0), format(config)?);
    log.record(&Entry { peer, head: &parser.head, bytes: head, id, done }, utc_offset);
    // A log that takes nothing loses the line: the supervisor waits for nobody.
    let _ = log.flush(|| false);
    Ok(())
}

/// Make a temporary file as the server does, and let go of it; see `_engine.pyi`.
#[pyfunction]
pub fn try_temporary_file() -> PyResult<()> {
    temporary_file().map(|_| ()).map_err(os_error)
}

/// Let the kernel kill, or continue, this process when its parent ends; see `_engine.pyi`.
#[pyfunction]
pub fn on_parent_death(kills: bool) {
    // A sandbox may refuse it; then the end of the parent is only seen where somebody looks at a pipe from it.
    let _ = set_parent_process_death_signal(Some(if kills { Signal::KILL } else { Signal::CONT }));
}

/// One process's server; see `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", frozen, immutable_type)]
pub struct Engine {
    server: Arc<Server<Application>>,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (app, listeners, control, access_log, error_log, config, report = None, board = None, countdown = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        app: Py<PyAny>,
        listeners: Vec<RawFd>,
        control: Vec<RawFd>,
        access_log: RawFd,
        error_log: Py<PyAny>,
        config: &Bound<'_, PyAny>,
        report: Option<Bound<'_, PyAny>>,
        board: Option<&Bound<'_, PyAny>>,
        countdown: Option<RawFd>,
    ) -> PyResult<Self> {
        let py = config.py();
        let limits = limits(config)?;
        let listeners =
            listeners.into_iter().map(Listener::adopt).collect::<std::io::Result<Vec<_>>>().map_err(os_error)?;
        let controls = control.into_iter().map(duplicate).collect::<std::io::Result<Vec<_>>>().map_err(os_error)?;
        let addresses: Vec<_> = listeners.iter().map(|listener| listener.address).collect();
        let threads: usize = setting(config, "threads")?;
        let common = common_environ(config, error_log.bind(py))?;
        let (report, told) = match report.map(|report| report.extract::<RawFd>().map_err(|_| report.unbind())) {
            Some(Ok(descriptor)) => (Some(duplicate(descriptor).map_err(os_error)?), None),
            Some(Err(told)) => (None, Some(told)),
            None => (None, None),
        };
        let status = board.map(|board| board.getattr("answer")).transpose()?.map(Bound::unbind);
        let fronts = fronts(config, listeners.len())?;
        let row = row(board, threads, threads + usize::from(fronts.has_caretaker))?;
        let application = Application::new(
            (app, status),
            error_log,
            told,
            Environs::new(py, &addresses, &common)?,
            Manner {
                own: OwnFields::new(setting::<String>(config, "server_header")?.as_bytes()),
                write_timeout: Duration::from_millis(limits.write_timeout),
                handover: Handover::new(&setting::<String>(config, "sendfile_header")?).map(Arc::new),
                warns: warns(&setting::<String>(config, "log_level")?),
            },
            threads,
        );
        let access_log = AccessLog::new(Some(access_log).filter(|&number| number >= 0), format(config)?);
        let countdown = countdown.map(duplicate).transpose().map_err(os_error)?;
        let ends = Ends { listeners, controls, report, row, gates: gates(config)?, countdown };
        let server = Server::new(application, limits, fronts, access_log, ends, threads).map_err(os_error)?;
        Ok(Self { server: Arc::new(server) })
    }

    fn watch(&self) -> PyResult<()> {
        watchdog::start(&self.server).map_err(os_error)
    }

    fn run(&self, slot: usize) -> PyResult<()> {
        self.server.run(slot).map_err(PyRuntimeError::new_err)
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

/// With its number, where it has one: some are told in words of their own.
fn os_error(error: impl Into<std::io::Error>) -> PyErr {
    let error = error.into();
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, text)),
        None => PyOSError::new_err(text),
    }
}

/// A setting, by its one name.
fn setting<T>(config: &Bound<'_, PyAny>, name: &str) -> PyResult<T>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    config.getattr(name)?.extract().map_err(|error: PyErr| PyValueError::new_err(format!("setting {name}: {error}")))
}

/// The gates of a process under development, whose configuration has them.
fn gates(config: &Bound<'_, PyAny>) -> PyResult<Vec<OwnedFd>> {
    let descriptors: Vec<RawFd> =
        config.getattr_opt("gates")?.map_or_else(|| Ok(Vec::new()), |gates| gates.extract())?;
    descriptors.into_iter().map(duplicate).collect::<std::io::Result<_>>().map_err(os_error)
}

/// `processes` is the least number of them, and has the most as an attribute.
fn most_processes(config: &Bound<'_, PyAny>) -> PyResult<usize> {
    config.getattr("processes")?.getattr("most")?.extract()
}

/// Whether there are other processes; a number may be raised by a signal.
fn has_neighbours(config: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(most_processes(config)? > 1 || setting::<String>(config, "type")? == "forking")
}

/// A time in seconds, as milliseconds.
fn milliseconds(config: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    let seconds: f64 = setting(config, name)?;
    let time = Duration::try_from_secs_f64(seconds);
    let time = time.map_err(|error| PyValueError::new_err(format!("setting {name}: {error}")))?;
    u64::try_from(time.as_millis()).map_err(|_| PyValueError::new_err(format!("setting {name}: too long")))
}

fn limits(config: &Bound<'_, PyAny>) -> PyResult<Limits> {
    Ok(Limits {
        keepalive_timeout: milliseconds(config, "keepalive_timeout")?,
        head_timeout: milliseconds(config, "head_timeout")?,
        body_timeout: milliseconds(config, "body_timeout")?,
        body_rate: setting(config, "body_rate")?,
        request_timeout: milliseconds(config, "request_timeout")?,
        slow_request: milliseconds(config, "slow_request")?,
        write_timeout: milliseconds(config, "write_timeout")?,
        linger_timeout: milliseconds(config, "linger_timeout")?,
        graceful_timeout: milliseconds(config, "graceful_timeout")?,
        max_request_line: setting(config, "max_request_line")?,
        max_head: setting(config, "max_head")?,
        max_fields: setting(config, "max_fields")?,
        max_body: setting(config, "max_body")?,
        body_memory: setting(config, "body_memory")?,
        max_connections: setting(config, "max_connections")?,
        max_connections_per_address: setting(config, "max_connections_per_address")?,
        tells_load: most_processes(config)? > setting(config, "processes")?,
        has_neighbours: has_neighbours(config)?,
        max_requests: spread(setting(config, "max_requests")?, setting(config, "max_requests_jitter")?),
    })
}

/// The row of the board that is this process's; one that nobody sees where there is no board.
fn row(board: Option<&Bound<'_, PyAny>>, threads: usize, cells: usize) -> PyResult<Row> {
    let Some(board) = board else {
        return Row::private(threads, cells).ok_or_else(|| PyValueError::new_err("no row"));
    };
    let descriptor = duplicate(board.getattr("descriptor")?.extract()?).map_err(os_error)?;
    Row::map(descriptor.as_fd(), board.getattr("offset")?.extract()?, threads, cells).map_err(os_error)
}

/// Whether warnings are logged at this level.
fn warns(level: &str) -> bool {
    !matches!(level, "emerg" | "alert" | "crit" | "error")
}

/// `listeners`: how many there are; that of `control_socket` is the last one.
fn fronts(config: &Bound<'_, PyAny>, listeners: usize) -> PyResult<Fronts> {
    let trusted: Vec<String> = setting(config, "trusted_proxies")?;
    let forwarded: Vec<String> = setting(config, "forwarded")?;
    let has_control_socket = !setting::<String>(config, "control_socket")?.is_empty();
    Ok(Fronts {
        trusted: Networks::parse(trusted.iter().map(String::as_str))
            .ok_or_else(|| PyValueError::new_err(format!("setting trusted_proxies: {trusted:?}")))?,
        forwarded: Fields::named(forwarded.iter().map(String::as_str))
            .ok_or_else(|| PyValueError::new_err(format!("setting forwarded: {forwarded:?}")))?,
        proxy_protocol: setting(config, "proxy_protocol")?,
        has_caretaker: most_processes(config)? == 1 && !setting::<String>(config, "health")?.is_empty(),
        status_path: setting::<String>(config, "status_path")?.into_bytes(),
        names: config
            .getattr("addresses")?
            .try_iter()?
            .map(|address| address?.getattr("host")?.extract())
            .collect::<PyResult<_>>()?,
        status_listener: listeners.checked_sub(1).filter(|_| has_control_socket),
        health: setting::<String>(config, "health")?.into_bytes(),
        answers_id: setting::<String>(config, "request_id")? == "answer",
        request_ids: (setting::<String>(config, "request_id")? != "no").then(RequestIds::default),
    })
}

/// `count`, 0 for no limit, and at random up to `jitter` more, so that not all workers are replaced at once.
fn spread(count: u64, jitter: u64) -> u64 {
    if count == 0 {
        return u64::MAX;
    }
    let mut random = RandomState::new().build_hasher();
    // Workers have the state of their supervisor.
    random.write_u32(std::process::id());
    count + random.finish() % (jitter + 1)
}

fn format(config: &Bound<'_, PyAny>) -> PyResult<Format> {
    match setting::<String>(config, "accesslog_format")?.as_str() {
        "poor" => Ok(Format::Poor),
        "combined" => Ok(Format::Combined),
        "json" => Ok(Format::Json),
        other => {
            Err(PyValueError::new_err(format!("setting accesslog_format: {other:?} is not poor, combined or json")))
        }
    }
}

/// A text as WSGI has it: its bytes, each as a character (PEP 3333, "Unicode Issues").
fn native<'py>(text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    text.call_method1("encode", ("utf-8", "surrogateescape"))?.call_method1("decode", ("latin-1",))
}

/// What the configuration puts into each environ.
fn common_environ<'py>(config: &Bound<'py, PyAny>, error_log: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = config.py();
    let environ = PyDict::new(py);
    for (name, value) in config.getattr("environ")?.cast::<PyDict>()? {
        environ.set_item(native(&name)?, native(&value)?)?;
    }
    environ.set_item("SERVER_ADMIN", native(&config.getattr("webmaster")?)?)?;
    let version: String = py.import("poorhttp")?.getattr("__version__")?.extract()?;
    environ.set_item("SERVER_SOFTWARE", format!("poorhttp/{version}"))?;
    environ.set_item("poorhttp.debug", config.getattr("debug")?)?;
    environ.set_item("poorhttp.options", config.getattr("options")?)?;
    environ.set_item("poorhttp.log_level", config.getattr("log_level")?)?;
    environ.set_item("wsgi.errors", error_log.getattr("stream")?)?;
    environ.set_item("wsgi.multithread", setting::<usize>(config, "threads")? > 1)?;
    environ.set_item("wsgi.multiprocess", has_neighbours(config)?)?;
    Ok(environ)
}

//! Reads what the engine obeys from the `Config` of Python: each setting by its one name, once, when an `Engine` is
//! made.
//!
//! Knows names and types of settings. Has no defaults: Python declares every setting.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::RawFd;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::http::forwarded::Fields;
use crate::limits::Limits;
use crate::net::proxies::policy::{Networks, ProxyPolicy};
use crate::net::proxies::request_id::RequestIds;
use crate::net::report::access_log::Format;

/// Read the setting of this name. Raises ValueError if it has another type.
pub fn setting<T>(config: &Bound<'_, PyAny>, name: &str) -> PyResult<T>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    config.getattr(name)?.extract().map_err(|error: PyErr| PyValueError::new_err(format!("setting {name}: {error}")))
}

/// The accept pauses of a process under development (descriptors); only its configuration has them.
pub fn accept_pauses(config: &Bound<'_, PyAny>) -> PyResult<Vec<RawFd>> {
    config.getattr_opt("accept_pauses")?.map_or_else(|| Ok(Vec::new()), |found| found.extract())
}

/// The largest number of processes; `processes` is the least number, and has the largest as an attribute.
fn most_processes(config: &Bound<'_, PyAny>) -> PyResult<usize> {
    config.getattr("processes")?.getattr("most")?.extract()
}

/// Whether other processes serve too, or may come: a signal can start more under `forking`.
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

/// All limits.
pub fn limits(config: &Bound<'_, PyAny>) -> PyResult<Limits> {
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

/// Whether the error log takes warnings.
pub fn takes_warnings(config: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(!matches!(setting::<String>(config, "log_level")?.as_str(), "emerg" | "alert" | "crit" | "error"))
}

/// Which proxies are trusted, and what is answered to whom. `listeners`: how many there are; the last one is that of
/// `control_socket`, if there is one.
pub fn proxies(config: &Bound<'_, PyAny>, listeners: usize) -> PyResult<ProxyPolicy> {
    let trusted: Vec<String> = setting(config, "trusted_proxies")?;
    let forwarded: Vec<String> = setting(config, "forwarded")?;
    let has_control_socket = !setting::<String>(config, "control_socket")?.is_empty();
    Ok(ProxyPolicy {
        trusted: Networks::parse(trusted.iter().map(String::as_str))
            .ok_or_else(|| PyValueError::new_err(format!("setting trusted_proxies: {trusted:?}")))?,
        forwarded: Fields::named(forwarded.iter().map(String::as_str))
            .ok_or_else(|| PyValueError::new_err(format!("setting forwarded: {forwarded:?}")))?,
        proxy_protocol: setting(config, "proxy_protocol")?,
        has_health_thread: most_processes(config)? == 1 && !setting::<String>(config, "health")?.is_empty(),
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

/// `count` and at random up to `jitter` more, so that not all workers are replaced at once. A count of 0 is no limit.
fn spread(count: u64, jitter: u64) -> u64 {
    if count == 0 {
        return u64::MAX;
    }
    let mut random = RandomState::new().build_hasher();
    // Workers have inherited the random state of their supervisor.
    random.write_u32(std::process::id());
    count + random.finish() % (jitter + 1)
}

/// The format of the access log.
pub fn access_log_format(config: &Bound<'_, PyAny>) -> PyResult<Format> {
    match setting::<String>(config, "accesslog_format")?.as_str() {
        "poor" => Ok(Format::Poor),
        "combined" => Ok(Format::Combined),
        "json" => Ok(Format::Json),
        other => {
            Err(PyValueError::new_err(format!("setting accesslog_format: {other:?} is not poor, combined or json")))
        }
    }
}

/// A native string of `text`: each byte of its UTF-8 is a character (PEP 3333, "Unicode Issues").
fn native<'py>(text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    text.call_method1("encode", ("utf-8", "surrogateescape"))?.call_method1("decode", ("latin-1",))
}

/// What the configuration adds to each environ.
pub fn common_environ<'py>(config: &Bound<'py, PyAny>, error_log: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = config.py();
    let environ = PyDict::new(py);
    for (name, value) in config.getattr("environ")?.cast::<PyDict>()? {
        environ.set_item(native(&name)?, native(&value)?)?;
    }
    let document = config.getattr("document")?;
    if !document.is_empty()? {
        environ.set_item("DOCUMENT_ROOT", native(&document)?)?; // as under CGI
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

//! Builds the environ of a request (PEP 3333, "environ Variables"): that of the thread's last request, brought up to
//! date, or a copy of a template.
//!
//! Knows the order of the steps. The steps are `last_environ`, `fields`, `url` and `input`.

use std::net::SocketAddr;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::fields::FieldVariables;
use super::file_wrapper::FileWrapper;
use super::input::{Inputs, MemoryInput};
use super::last_environ::{LastEnviron, changes, is_short};
use super::url;
use crate::net::connections::spool::Body;
use crate::net::handler::Request;

/// What every request sets. A template has these variables already, so that a copy of it need not grow.
const OF_REQUEST: [&str; 7] =
    ["REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "REQUEST_URI", "SERVER_PROTOCOL", "REMOTE_ADDR", "REMOTE_PORT"];

/// Builds environs.
pub struct EnvironBuilder {
    /// For each listener what all its requests have in common.
    templates: Vec<Py<PyDict>>,
    fields: FieldVariables,
    inputs: Inputs,
}

/// The environ of a request.
pub struct Environ<'py> {
    /// The dictionary that the application gets.
    pub dict: Bound<'py, PyDict>,
    /// `wsgi.input`, if it is a file, which must be closed.
    pub input_file: Option<Py<PyAny>>,
    /// See [`changes`], as the application gets it. `None` if it may not serve the next request.
    changes: Option<u64>,
}

impl<'py> Environ<'py> {
    /// The dict, if it may serve the next request and the application has not altered it.
    pub fn if_unaltered(self) -> Option<Bound<'py, PyDict>> {
        let is_unaltered = self.changes.is_some() && self.changes == changes(&self.dict);
        is_unaltered.then_some(self.dict)
    }
}

impl EnvironBuilder {
    /// For listeners at `addresses`. `common` holds what the configuration adds.
    pub fn new(py: Python<'_>, addresses: &[Option<SocketAddr>], common: &Bound<'_, PyDict>) -> PyResult<Self> {
        let inputs = Inputs::new(py)?;
        let empty = inputs.empty(py);
        let templates = addresses.iter().map(|address| template(*address, common, empty)).collect::<PyResult<_>>()?;
        // Pages for the author are for this machine alone, and not for what came through a proxy.
        let notes_proxies = common.get_item("poorhttp.debug")?.map_or(Ok(false), |debug| debug.is_truthy())?;
        Ok(Self { templates, fields: FieldVariables::new(py, notes_proxies), inputs })
    }

    /// Build the environ of `request`, whose body moves into `wsgi.input`. `last`: what the thread kept.
    pub fn build<'py, S>(
        &self,
        py: Python<'py>,
        last: &mut LastEnviron,
        request: &mut Request<'_, S>,
    ) -> PyResult<Environ<'py>> {
        let lines = request.head.lines(request.bytes);
        let reused = last.take(request, lines);
        let is_new = reused.is_none();
        let dict = match reused {
            Some(dict) => dict.into_bound(py),
            None => {
                self.templates.get(request.listener).map_or_else(|| Ok(PyDict::new(py)), |it| it.bind(py).copy())?
            }
        };
        last.fill(&dict, is_new, request)?;
        if is_new {
            last.note(request, lines);
            self.fields.add(&dict, request.head, request.bytes, request.peer.passing)?;
        }
        let has_proxy_info = add_proxy_info(&dict, request)?;
        let is_noted = self.note_proxy(&dict, request)?;
        let has_body = !request.body.is_empty();
        let input_file = if has_body { self.add_body(&dict, std::mem::take(request.body))? } else { None };
        let changes = if has_proxy_info || is_noted || has_body || !is_short(lines) { None } else { changes(&dict) };
        Ok(Environ { dict, input_file, changes })
    }

    /// Note, under `debug`, that the client is not the peer: the PROXY protocol leaves no field. Returns whether it is not.
    fn note_proxy<S>(&self, environ: &Bound<'_, PyDict>, request: &Request<'_, S>) -> PyResult<bool> {
        let is_another = self.fields.notes_proxies && request.peer.client() != request.peer.address;
        if is_another {
            environ.set_item(intern!(environ.py(), "poorhttp.forwarded"), true)?;
        }
        Ok(is_another)
    }

    /// Add the body of a request. Returns `wsgi.input`, if it is a file.
    fn add_body(&self, environ: &Bound<'_, PyDict>, body: Body) -> PyResult<Option<Py<PyAny>>> {
        let py = environ.py();
        // A chunked body is complete by now, so the application may see its end and its length (amendments to PEP
        // 3333).
        environ.set_item(intern!(py, "CONTENT_LENGTH"), itoa::Buffer::new().format(body.len()))?;
        let is_file = matches!(body, Body::File(..));
        let input = self.inputs.of(py, body)?;
        environ.set_item(intern!(py, "wsgi.input"), &input)?;
        Ok(is_file.then(|| input.unbind()))
    }
}

/// The keys that every request through one listener shares.
fn template(
    address: Option<SocketAddr>,
    common: &Bound<'_, PyDict>,
    input: &Bound<'_, MemoryInput>,
) -> PyResult<Py<PyDict>> {
    let py = common.py();
    let environ = common.copy()?;
    for name in OF_REQUEST {
        environ.set_item(PyString::intern(py, name), "")?;
    }
    let (name, port) = match address {
        Some(SocketAddr::V4(address)) => (address.ip().to_string(), address.port()),
        Some(SocketAddr::V6(address)) => (format!("[{}]", address.ip()), address.port()), // RFC 3875 4.1.14
        // A unix socket has neither, and PEP 3333 wants both.
        None => ("localhost".to_owned(), 80),
    };
    environ.set_item("SCRIPT_NAME", "")?;
    environ.set_item("SERVER_NAME", name)?;
    environ.set_item("SERVER_PORT", port.to_string())?;
    environ.set_item("wsgi.version", (1, 0))?;
    environ.set_item("wsgi.url_scheme", "http")?;
    environ.set_item("wsgi.run_once", false)?;
    environ.set_item("wsgi.input_terminated", true)?;
    environ.set_item("wsgi.input", input)?;
    environ.set_item("wsgi.file_wrapper", py.get_type::<FileWrapper>())?;
    Ok(environ.unbind())
}

/// Add what a proxy told about this request. Returns whether there was anything.
fn add_proxy_info<S>(environ: &Bound<'_, PyDict>, request: &Request<'_, S>) -> PyResult<bool> {
    let Some(info) = request.peer.proxy_info() else { return Ok(false) };
    if info.origin.has_url() {
        url::rewrite(environ, &info.origin, request.head.host.map(|host| host.of(request.bytes)))?;
    }
    if !info.id.is_empty() {
        let py = environ.py();
        let id = PyString::new(py, &info.id);
        environ.set_item(intern!(py, "HTTP_X_REQUEST_ID"), &id)?;
        environ.set_item(intern!(py, "poorhttp.request_id"), id)?;
    }
    Ok(info.origin.has_url() || !info.id.is_empty())
}

//! The environ of a request (PEP 3333, "environ Variables"): a copy of what is the same for all requests of a listener,
//! then what is this request's.

use std::net::SocketAddr;
use std::os::fd::IntoRawFd;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::file_wrapper::FileWrapper;
use super::text::native;
use crate::http::head::{RequestHead, Version};
use crate::net::handler::Request;
use crate::net::spool::Body;

/// Fields that most requests have; their variables are made once.
const USUAL: [&str; 28] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "cache-control",
    "connection",
    "cookie",
    "dnt",
    "expect",
    "forwarded",
    "host",
    "if-modified-since",
    "if-none-match",
    "origin",
    "pragma",
    "range",
    "referer",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "upgrade-insecure-requests",
    "user-agent",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-requested-with",
];

/// Makes environs.
pub struct Environs {
    /// One for each listener.
    templates: Vec<Py<PyDict>>,
    /// The usual variables, by length of the field name.
    names: Vec<Vec<(&'static str, Py<PyString>)>>,
    bytes_io: Py<PyAny>,
    open: Py<PyAny>,
}

/// Text that is the same for all, or most, requests of a connection.
#[derive(Default)]
pub struct Session {
    /// Address and port of the client.
    peer: Option<(Py<PyString>, Py<PyString>)>,
    /// The last Host.
    host: Option<(Box<[u8]>, Py<PyString>)>,
}

/// What every request sets. The template has them already, so that a copy of it need not grow.
const OF_REQUEST: [&str; 8] = [
    "REQUEST_METHOD",
    "PATH_INFO",
    "QUERY_STRING",
    "REQUEST_URI",
    "SERVER_PROTOCOL",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "wsgi.input",
];

impl Environs {
    /// For listeners at `addresses`; `common` holds what the configuration adds.
    pub fn new(py: Python<'_>, addresses: &[Option<SocketAddr>], common: &Bound<'_, PyDict>) -> PyResult<Self> {
        let io = py.import("io")?;
        let templates = addresses.iter().map(|address| template(*address, common)).collect::<PyResult<_>>()?;
        let longest = USUAL.iter().map(|name| name.len()).max().unwrap_or(0);
        let names = (0..=longest)
            .map(|length| USUAL.iter().filter(move |name| name.len() == length))
            .map(|names| names.map(|name| (*name, variable(py, name.as_bytes()).unbind())).collect())
            .collect();
        Ok(Self { templates, names, bytes_io: io.getattr("BytesIO")?.unbind(), open: io.getattr("open")?.unbind() })
    }

    /// The environ of `request`, whose body moves into `wsgi.input`; and that again where it is a file, to be closed.
    pub fn build<'py>(
        &self,
        py: Python<'py>,
        request: &mut Request<'_, Session>,
    ) -> PyResult<(Bound<'py, PyDict>, Option<Py<PyAny>>)> {
        let template = self.templates.get(request.listener).or(self.templates.first());
        let environ = match template {
            Some(template) => template.bind(py).copy()?,
            None => PyDict::new(py),
        };
        let (head, bytes) = (request.head, request.bytes);
        environ.set_item(intern!(py, "REQUEST_METHOD"), method(py, head.method.of(bytes)))?;
        target(&environ, head, bytes)?;
        let protocol = match head.version {
            Version::Http11 => intern!(py, "HTTP/1.1"),
            Version::Http10 => intern!(py, "HTTP/1.0"),
        };
        environ.set_item(intern!(py, "SERVER_PROTOCOL"), protocol)?;
        request.session.set_peer(&environ, request.peer)?;
        self.fields(&environ, head, bytes)?;
        if let Some(host) = head.host {
            request.session.set_host(&environ, host.of(bytes))?;
        }
        if !request.body.is_empty() {
            // A chunked body has an end and a length by now, so the application may see both (amendments to PEP 3333).
            environ.set_item(intern!(py, "CONTENT_LENGTH"), PyString::new(py, &request.body.len().to_string()))?;
        }
        let body = std::mem::take(request.body);
        let is_file = matches!(body, Body::File(..));
        let input = self.input(py, body)?;
        environ.set_item(intern!(py, "wsgi.input"), &input)?;
        Ok((environ, is_file.then(|| input.unbind())))
    }

    fn fields(&self, environ: &Bound<'_, PyDict>, head: &RequestHead, bytes: &[u8]) -> PyResult<()> {
        let py = environ.py();
        for field in &head.fields {
            let (name, value) = (field.name.of(bytes), field.value.of(bytes));
            match name.len() {
                // The body is decoded: CONTENT_LENGTH tells its length.
                17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {}
                12 if name.eq_ignore_ascii_case(b"content-type") => {
                    add(environ, intern!(py, "CONTENT_TYPE"), value, ",")?;
                }
                14 if name.eq_ignore_ascii_case(b"content-length") => {
                    environ.set_item(intern!(py, "CONTENT_LENGTH"), native(py, value))?;
                }
                // Set from the head: an absolute target replaces it (RFC 9112 3.2.2).
                4 if name.eq_ignore_ascii_case(b"host") => {}
                6 if name.eq_ignore_ascii_case(b"cookie") => add(environ, &self.name(py, name), value, "; ")?,
                _ => add(environ, &self.name(py, name), value, ",")?,
            }
        }
        Ok(())
    }

    fn name<'py>(&self, py: Python<'py>, name: &[u8]) -> Bound<'py, PyString> {
        let usual = self.names.get(name.len()).into_iter().flatten();
        let known = usual.into_iter().find(|(usual, _)| name.eq_ignore_ascii_case(usual.as_bytes()));
        known.map_or_else(|| variable(py, name), |(_, variable)| variable.bind(py).clone())
    }

    /// `wsgi.input`: a BytesIO, or a buffered reader of the temporary file. Both end where the body ends.
    fn input<'py>(&self, py: Python<'py>, mut body: Body) -> PyResult<Bound<'py, PyAny>> {
        body.rewind()?;
        match body {
            Body::Memory(bytes) if bytes.is_empty() => self.bytes_io.bind(py).call0(),
            Body::Memory(bytes) => self.bytes_io.bind(py).call1((PyBytes::new(py, &bytes),)),
            Body::File(file, _) => self.open.bind(py).call1((file.into_raw_fd(), "rb")),
        }
    }
}

impl Session {
    fn set_peer(&mut self, environ: &Bound<'_, PyDict>, peer: Option<SocketAddr>) -> PyResult<()> {
        let py = environ.py();
        let (address, port) = self.peer.get_or_insert_with(|| {
            // RFC 3875 4.1.8 has no value for a client without an address.
            let address = peer.map(|peer| peer.ip().to_string()).unwrap_or_default();
            let port = peer.map(|peer| peer.port().to_string()).unwrap_or_default();
            (PyString::new(py, &address).unbind(), PyString::new(py, &port).unbind())
        });
        environ.set_item(intern!(py, "REMOTE_ADDR"), address.bind(py))?;
        environ.set_item(intern!(py, "REMOTE_PORT"), port.bind(py))
    }

    fn set_host(&mut self, environ: &Bound<'_, PyDict>, host: &[u8]) -> PyResult<()> {
        let py = environ.py();
        let name = intern!(py, "HTTP_HOST");
        match &self.host {
            Some((last, text)) if **last == *host => environ.set_item(name, text.bind(py)),
            _ => {
                let text = native(py, host);
                environ.set_item(name, &text)?;
                self.host = Some((host.into(), text.unbind()));
                Ok(())
            }
        }
    }
}

/// What is the same for every request that comes through one listener.
fn template(address: Option<SocketAddr>, common: &Bound<'_, PyDict>) -> PyResult<Py<PyDict>> {
    let py = common.py();
    let environ = common.copy()?;
    for name in OF_REQUEST {
        environ.set_item(PyString::intern(py, name), "")?;
    }
    let (name, port) = match address {
        Some(address) => (address.ip().to_string(), address.port()),
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
    environ.set_item("wsgi.file_wrapper", py.get_type::<FileWrapper>())?;
    Ok(environ.unbind())
}

/// The HTTP_ variable of a field.
fn variable<'py>(py: Python<'py>, name: &[u8]) -> Bound<'py, PyString> {
    let upper = name.iter().map(|&byte| if byte == b'-' { '_' } else { char::from(byte.to_ascii_uppercase()) });
    PyString::new(py, &"HTTP_".chars().chain(upper).collect::<String>())
}

/// Set a variable, or join it to what an equal field before it said (RFC 9110 5.3).
fn add(environ: &Bound<'_, PyDict>, name: &Bound<'_, PyString>, value: &[u8], joint: &str) -> PyResult<()> {
    let py = environ.py();
    let value = native(py, value);
    match environ.get_item(name)? {
        None => environ.set_item(name, value),
        Some(before) => environ.set_item(name, format!("{before}{joint}{value}")),
    }
}

fn method<'py>(py: Python<'py>, method: &[u8]) -> Bound<'py, PyString> {
    match method {
        b"GET" => intern!(py, "GET").clone(),
        b"POST" => intern!(py, "POST").clone(),
        b"HEAD" => intern!(py, "HEAD").clone(),
        other => native(py, other),
    }
}

fn target(environ: &Bound<'_, PyDict>, head: &RequestHead, bytes: &[u8]) -> PyResult<()> {
    let py = environ.py();
    let (target, path, query) = (head.target.of(bytes), head.path.of(bytes), head.query.of(bytes));
    let path_info = match path {
        b"" | b"/" => intern!(py, "/").clone(),
        _ if path.contains(&b'%') => native(py, &percent_decoded(path)),
        _ => native(py, path),
    };
    let query = if query.is_empty() { intern!(py, "").clone() } else { native(py, query) };
    let uri = if target == path && !path.contains(&b'%') { path_info.clone() } else { native(py, target) };
    environ.set_item(intern!(py, "PATH_INFO"), path_info)?;
    environ.set_item(intern!(py, "QUERY_STRING"), query)?;
    environ.set_item(intern!(py, "REQUEST_URI"), uri)
}

/// RFC 3986 2.1. A `%` that begins no escape stands for itself, as in Python's `urllib.parse.unquote_to_bytes`.
fn percent_decoded(path: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        if let (b'%', [high, low, after @ ..]) = (byte, after)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            decoded.push(high << 4 | low);
            rest = after;
        } else {
            decoded.push(*byte);
            rest = after;
        }
    }
    decoded
}

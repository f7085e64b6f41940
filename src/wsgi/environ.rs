//! The environ of a request (PEP 3333, "environ Variables"): a copy of the thread's [`Draft`], which is brought up to
//! date for each request, then the fields and the body of this request.

use std::net::{IpAddr, SocketAddr};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::application::Seat;
use super::file_wrapper::FileWrapper;
use super::input::{EmptyInput, Inputs};
use super::text::native;
use crate::http::forwarded::{Origin, Passing, Scheme};
use crate::http::head::Version;
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
    /// What is the same for every request, for each listener.
    templates: Vec<Py<PyDict>>,
    /// The usual variables, by length of the field name.
    names: Vec<Vec<(&'static str, Py<PyString>)>>,
    inputs: Inputs,
    /// The application is told that fields were left out: what is for this machine's eyes is not for a front server's.
    tells_dropped: bool,
}

/// What one thread's last request put into its template. A request has much in common with the one before it, and what
/// need not be made and set again costs only a comparison.
pub struct Draft {
    environ: Py<PyDict>,
    listener: usize,
    /// The bytes of which the variables were made that are there now; empty where none was.
    method: Vec<u8>,
    target: Vec<u8>,
    host: Vec<u8>,
    version: Option<Version>,
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl Draft {
    fn new(py: Python<'_>, listener: usize, template: Option<&Py<PyDict>>) -> PyResult<Box<Self>> {
        let environ = match template {
            Some(template) => template.bind(py).copy()?,
            None => PyDict::new(py),
        };
        Ok(Box::new(Self {
            environ: environ.unbind(),
            listener,
            method: Vec::new(),
            target: Vec::new(),
            host: Vec::new(),
            version: None,
            address: None,
            port: None,
        }))
    }

    /// Whether it says nothing that would have to be taken back.
    fn suits(&self, request: &Request<'_, Seat>) -> bool {
        self.listener == request.listener
            && (self.host.is_empty() || request.head.host.is_some())
            && (self.port.is_none() || request.peer.client().is_some())
    }

    fn fill(&mut self, py: Python<'_>, request: &Request<'_, Seat>) -> PyResult<()> {
        let environ = self.environ.bind(py);
        let (head, bytes) = (request.head, request.bytes);
        let (method, target) = (head.method.of(bytes), head.target.of(bytes));
        if is_news(&mut self.method, method) {
            environ.set_item(intern!(py, "REQUEST_METHOD"), native(py, method))?;
        }
        if is_news(&mut self.target, target) {
            environ.set_item(intern!(py, "PATH_INFO"), path_info(py, head.path.of(bytes)))?;
            environ.set_item(intern!(py, "QUERY_STRING"), native(py, head.query.of(bytes)))?;
            environ.set_item(intern!(py, "REQUEST_URI"), native(py, target))?;
        }
        let host = head.host.map(|host| host.of(bytes));
        if let Some(host) = host.filter(|host| is_news(&mut self.host, host)) {
            environ.set_item(intern!(py, "HTTP_HOST"), native(py, host))?;
        }
        if self.version != Some(head.version) {
            let protocol = match head.version {
                Version::Http11 => intern!(py, "HTTP/1.1"),
                Version::Http10 => intern!(py, "HTTP/1.0"),
            };
            environ.set_item(intern!(py, "SERVER_PROTOCOL"), protocol)?;
            self.version = Some(head.version);
        }
        // A client without an address leaves the empty text of the template: RFC 3875 4.1.8 has no value for it.
        let Some(peer) = request.peer.client() else { return Ok(()) };
        if self.address != Some(peer.ip()) {
            environ.set_item(intern!(py, "REMOTE_ADDR"), peer.ip().to_string())?;
            self.address = Some(peer.ip());
        }
        if self.port != Some(peer.port()) {
            // That of a client behind a front server is seldom told.
            let mut digits = itoa::Buffer::new();
            let port = if peer.port() == 0 { "" } else { digits.format(peer.port()) };
            environ.set_item(intern!(py, "REMOTE_PORT"), port)?;
            self.port = Some(peer.port());
        }
        Ok(())
    }
}

/// Whether `bytes` differ from the last ones, which they replace. An empty method, target or Host is refused long before,
/// so that nothing is the same as no last ones.
fn is_news(last: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let is_news = last != bytes;
    if is_news {
        last.clear();
        last.extend_from_slice(bytes);
    }
    is_news
}

/// What every request sets. The template has them already, so that a copy of it need not grow.
const OF_REQUEST: [&str; 7] =
    ["REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "REQUEST_URI", "SERVER_PROTOCOL", "REMOTE_ADDR", "REMOTE_PORT"];

impl Environs {
    /// For listeners at `addresses`; `common` holds what the configuration adds.
    pub fn new(py: Python<'_>, addresses: &[Option<SocketAddr>], common: &Bound<'_, PyDict>) -> PyResult<Self> {
        let inputs = Inputs::new(py)?;
        let empty = inputs.empty(py);
        let templates = addresses.iter().map(|address| template(*address, common, empty)).collect::<PyResult<_>>()?;
        let longest = USUAL.iter().map(|name| name.len()).max().unwrap_or(0);
        let names = (0..=longest)
            .map(|length| USUAL.iter().filter(move |name| name.len() == length))
            .map(|names| names.map(|name| (*name, variable(py, name.as_bytes()).unbind())).collect())
            .collect();
        let tells_dropped = common.get_item("poorhttp.debug")?.map_or(Ok(false), |debug| debug.is_truthy())?;
        Ok(Self { templates, names, inputs, tells_dropped })
    }

    /// The environ of `request`, whose body moves into `wsgi.input`; and that again where it is a file, to be closed.
    pub fn build<'py>(
        &self,
        py: Python<'py>,
        request: &mut Request<'_, Seat>,
    ) -> PyResult<(Bound<'py, PyDict>, Option<Py<PyAny>>)> {
        let environ = self.drafted(py, request)?;
        self.fields(&environ, request)?;
        if let Some(told) = request.peer.told() {
            if told.origin.has_url() {
                rewrite_url(&environ, &told.origin, request.head.host.map(|host| host.of(request.bytes)))?;
            }
            if !told.id.is_empty() {
                let id = PyString::new(py, &told.id);
                environ.set_item(intern!(py, "HTTP_X_REQUEST_ID"), &id)?;
                environ.set_item(intern!(py, "poorhttp.request_id"), id)?;
            }
        }
        if request.body.is_empty() {
            return Ok((environ, None));
        }
        // A chunked body has an end and a length by now, so the application may see both (amendments to PEP 3333).
        environ.set_item(intern!(py, "CONTENT_LENGTH"), itoa::Buffer::new().format(request.body.len()))?;
        let body = std::mem::take(request.body);
        let is_file = matches!(body, Body::File(..));
        let input = self.inputs.of(py, body)?;
        environ.set_item(intern!(py, "wsgi.input"), &input)?;
        Ok((environ, is_file.then(|| input.unbind())))
    }

    /// A copy of the thread's draft, brought up to date. Where that fails there is no draft any more.
    fn drafted<'py>(&self, py: Python<'py>, request: &mut Request<'_, Seat>) -> PyResult<Bound<'py, PyDict>> {
        let mut draft = match request.thread.seat.draft.take().filter(|draft| draft.suits(request)) {
            Some(draft) => draft,
            None => {
                let draft = Draft::new(py, request.listener, self.templates.get(request.listener))?;
                request.thread.seat.known.drafts(draft.environ.clone_ref(py));
                draft
            }
        };
        draft.fill(py, request)?;
        let environ = draft.environ.bind(py).copy()?;
        request.thread.seat.draft = Some(draft);
        Ok(environ)
    }

    fn fields(&self, environ: &Bound<'_, PyDict>, request: &Request<'_, Seat>) -> PyResult<()> {
        let py = environ.py();
        let all_pass = request.peer.passing == Passing::All;
        for field in &request.head.fields {
            let (name, value) = (field.name.of(request.bytes), field.value.of(request.bytes));
            match name.len() {
                // The body is decoded: CONTENT_LENGTH tells its length.
                17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {}
                12 if name.eq_ignore_ascii_case(b"content-type") => {
                    add(environ, intern!(py, "CONTENT_TYPE"), value, ",")?;
                }
                // That of a body which is there is set with it; of none, however many zeros told so, it is this.
                14 if name.eq_ignore_ascii_case(b"content-length") => {
                    environ.set_item(intern!(py, "CONTENT_LENGTH"), intern!(py, "0"))?;
                }
                // Set from the head: an absolute target replaces it (RFC 9112 3.2.2).
                4 if name.eq_ignore_ascii_case(b"host") => {}
                6 if name.eq_ignore_ascii_case(b"cookie") => add(environ, &self.name(py, name), value, "; ")?,
                _ if all_pass || request.peer.passing.lets(name) => add(environ, &self.name(py, name), value, ",")?,
                // Who asks, and how, is told by front servers only.
                _ if self.tells_dropped => environ.set_item(intern!(py, "poorhttp.forwarded"), true)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn name<'py>(&self, py: Python<'py>, name: &[u8]) -> Bound<'py, PyString> {
        let usual = self.names.get(name.len()).into_iter().flatten();
        let known = usual.into_iter().find(|(usual, _)| name.eq_ignore_ascii_case(usual.as_bytes()));
        known.map_or_else(|| variable(py, name), |(_, variable)| variable.bind(py).clone())
    }
}

/// What is the same for every request that comes through one listener.
fn template(
    address: Option<SocketAddr>,
    common: &Bound<'_, PyDict>,
    input: &Bound<'_, EmptyInput>,
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

/// Let the URL be that which the client asked for (PEP 3333, "URL Reconstruction"). `host` is that of the request.
fn rewrite_url(environ: &Bound<'_, PyDict>, origin: &Origin, host: Option<&[u8]>) -> PyResult<()> {
    let py = environ.py();
    if let Some(prefix) = &origin.prefix {
        environ.set_item(intern!(py, "SCRIPT_NAME"), native(py, &percent_decoded(prefix)))?;
    }
    if let Some(scheme) = origin.scheme {
        environ.set_item(intern!(py, "wsgi.url_scheme"), scheme.name())?;
    }
    if let Some(host) = &origin.host {
        environ.set_item(intern!(py, "HTTP_HOST"), native(py, host))?;
    }
    if origin.scheme.is_none() && origin.host.is_none() {
        return Ok(());
    }
    let Some(host) = origin.host.as_deref().or(host) else { return Ok(()) };
    // The colons of an IPv6 address stand before its bracket (RFC 3875 4.1.14).
    let end = host.iter().rposition(|&byte| byte == b':' || byte == b']').filter(|&at| host.get(at) == Some(&b':'));
    let (name, port) = host.split_at(end.unwrap_or(host.len()));
    environ.set_item(intern!(py, "SERVER_NAME"), native(py, name))?;
    let port = port.get(1..).unwrap_or_default();
    let port = if port.is_empty() { origin.scheme.unwrap_or(Scheme::Http).port().as_bytes() } else { port };
    environ.set_item(intern!(py, "SERVER_PORT"), native(py, port))
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

/// The path with its escapes decoded; `/` where an absolute target has none (RFC 9110 4.2.3).
fn path_info<'py>(py: Python<'py>, path: &[u8]) -> Bound<'py, PyString> {
    match path {
        b"" => native(py, b"/"),
        _ if path.contains(&b'%') => native(py, &percent_decoded(path)),
        _ => native(py, path),
    }
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

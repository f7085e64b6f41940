//! The environ of a request (PEP 3333, "environ Variables"): that of the last request on the same thread, brought up to
//! date, or a copy of a template, where the application altered or kept it or the fields are others.

use std::borrow::Borrow;
use std::net::{IpAddr, SocketAddr};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::application::Seat;
use super::exchange::references;
use super::file_wrapper::FileWrapper;
use super::input::{EmptyInput, Inputs};
use super::text::native;
use crate::http::forwarded::{Origin, Passing, Scheme};
use crate::http::head::Version;
use crate::net::connections::spool::Body;
use crate::net::handler::Request;

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

/// Field lines of more bytes are not kept.
const LONG: usize = 8 * 1024;

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

/// What a thread keeps of its last request: its environ, unless the application has altered or kept it, and the values that
/// were made for it. A client asks for much again: what is still right costs a comparison.
#[derive(Default)]
pub struct Draft {
    dict: Option<Py<PyDict>>,
    listener: usize,
    passing: Option<Passing>,
    lines: Vec<u8>,
    has_host: bool,
    has_client: bool,
    method: Values<[u8], 1>,
    target: Values<[u8], 3>,
    host: Values<[u8], 1>,
    protocol: Values<Version, 1>,
    address: Values<IpAddr, 1>,
    port: Values<u16, 1>,
}

/// Values of variables, and that of which they were made.
struct Values<B: ToOwned + ?Sized, const N: usize>(Option<(B::Owned, [Py<PyString>; N])>);

impl<B: ToOwned + ?Sized, const N: usize> Default for Values<B, N> {
    fn default() -> Self {
        Self(None)
    }
}

impl<B: ToOwned + PartialEq + ?Sized, const N: usize> Values<B, N> {
    /// Let the variables be what `make` makes of `of`.
    fn set<'py>(
        &mut self,
        environ: &Environ<'py>,
        names: [&Bound<'py, PyString>; N],
        of: &B,
        make: impl FnOnce() -> [Bound<'py, PyString>; N],
    ) -> PyResult<()> {
        let values = match &mut self.0 {
            Some((before, values)) if (*before).borrow() == of => {
                if !environ.is_new {
                    return Ok(()); // it has them from the last request
                }
                values
            }
            Some((before, values)) => {
                of.clone_into(before);
                *values = make().map(Bound::unbind);
                values
            }
            none => &mut none.insert((of.to_owned(), make().map(Bound::unbind))).1,
        };
        names.into_iter().zip(values).try_for_each(|(name, value)| environ.dict.set_item(name, &*value))
    }
}

impl Draft {
    /// Whether the environ of the last request says nothing that would have to be taken back for this one.
    fn suits(&self, request: &Request<'_, Seat>) -> bool {
        self.listener == request.listener
            && self.passing == Some(request.peer.passing)
            && self.has_host == request.head.host.is_some()
            && self.has_client == request.peer.client().is_some()
            && self.lines == request.head.lines(request.bytes)
    }

    /// A new environ is made for this request.
    fn begin(&mut self, request: &Request<'_, Seat>) {
        self.listener = request.listener;
        self.passing = Some(request.peer.passing);
        self.has_host = request.head.host.is_some();
        self.has_client = request.peer.client().is_some();
        match request.head.lines(request.bytes) {
            lines if lines.len() <= LONG => lines.clone_into(&mut self.lines),
            _ => self.lines = Vec::new(),
        }
    }

    fn fill(&mut self, environ: &Environ<'_>, request: &Request<'_, Seat>) -> PyResult<()> {
        let py = environ.dict.py();
        let (head, bytes) = (request.head, request.bytes);
        let (method, target) = (head.method.of(bytes), head.target.of(bytes));
        self.method.set(environ, [intern!(py, "REQUEST_METHOD")], method, || [native(py, method)])?;
        let of_target = [intern!(py, "PATH_INFO"), intern!(py, "QUERY_STRING"), intern!(py, "REQUEST_URI")];
        self.target.set(environ, of_target, target, || {
            [path_info(py, head.path.of(bytes)), native(py, head.query.of(bytes)), native(py, target)]
        })?;
        if let Some(host) = head.host.map(|host| host.of(bytes)) {
            self.host.set(environ, [intern!(py, "HTTP_HOST")], host, || [native(py, host)])?;
        }
        let protocol = match head.version {
            Version::Http11 => intern!(py, "HTTP/1.1"),
            Version::Http10 => intern!(py, "HTTP/1.0"),
        };
        self.protocol.set(environ, [intern!(py, "SERVER_PROTOCOL")], &head.version, || [protocol.clone()])?;
        // A client without an address leaves the empty text of the template: RFC 3875 4.1.8 has no value for it.
        let Some(client) = request.peer.client() else { return Ok(()) };
        let address = || [PyString::new(py, &client.ip().to_string())];
        self.address.set(environ, [intern!(py, "REMOTE_ADDR")], &client.ip(), address)?;
        self.port.set(environ, [intern!(py, "REMOTE_PORT")], &client.port(), || {
            // That of a client behind a front server is seldom told.
            let mut digits = itoa::Buffer::new();
            [PyString::new(py, if client.port() == 0 { "" } else { digits.format(client.port()) })]
        })
    }

    /// Keep an environ that was served for the next request, if nobody else has it.
    pub fn keep(&mut self, environ: Environ<'_>) {
        let dict = environ.is_unaltered().then(|| environ.dict.unbind());
        self.dict = dict.filter(|dict| references(dict) == 1);
    }
}

/// The environ of a request.
pub struct Environ<'py> {
    /// What the application gets.
    pub dict: Bound<'py, PyDict>,
    /// `wsgi.input` where it is a file, to be closed.
    pub file: Option<Py<PyAny>>,
    /// It is a copy of a template, and not that of the last request.
    is_new: bool,
    /// See [`changes`], as the application gets it; none where it has more than a draft keeps.
    changes: Option<u64>,
}

impl Environ<'_> {
    /// Whether it has what any request like it has, as the application got it.
    pub fn is_unaltered(&self) -> bool {
        self.changes.is_some() && self.changes == changes(&self.dict)
    }
}

/// A number that is another one after each change of a dict (PEP 509). None where Python has none: from 3.14 on, and
/// without its lock.
#[allow(clippy::unnecessary_wraps)] // of each Python one of the two ways is compiled
fn changes(dict: &Bound<'_, PyDict>) -> Option<u64> {
    #[cfg(not(any(Py_3_14, Py_GIL_DISABLED)))]
    {
        // SAFETY: a dict, which is alive, begins with this structure.
        let dict = unsafe { &*dict.as_ptr().cast::<pyo3::ffi::PyDictObject>() };
        // Python 3.12 and 3.13 advise against it, and keep it right all the same.
        #[allow(deprecated)]
        Some(dict.ma_version_tag)
    }
    #[cfg(any(Py_3_14, Py_GIL_DISABLED))]
    {
        let _ = dict;
        None
    }
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

    /// The environ of `request`, whose body moves into `wsgi.input`.
    pub fn build<'py>(&self, py: Python<'py>, request: &mut Request<'_, Seat>) -> PyResult<Environ<'py>> {
        let mut draft = request.thread.seat.draft.take().unwrap_or_default();
        let environ = self.build_by(py, &mut draft, request);
        request.thread.seat.draft = Some(draft);
        environ
    }

    fn build_by<'py>(
        &self,
        py: Python<'py>,
        draft: &mut Draft,
        request: &mut Request<'_, Seat>,
    ) -> PyResult<Environ<'py>> {
        let last = draft.dict.take().filter(|_| draft.suits(request)).map(|dict| dict.into_bound(py));
        let is_new = last.is_none();
        let dict = match last {
            Some(dict) => dict,
            None => {
                self.templates.get(request.listener).map_or_else(|| Ok(PyDict::new(py)), |it| it.bind(py).copy())?
            }
        };
        let mut environ = Environ { dict, file: None, is_new, changes: None };
        draft.fill(&environ, request)?;
        if is_new {
            draft.begin(request);
            self.fields(&environ.dict, request)?;
        }
        let has_told = add_told(&environ.dict, request)?;
        let has_body = self.add_body(&mut environ, request)?;
        let is_usual = !has_told && !has_body && request.head.lines(request.bytes).len() <= LONG;
        environ.changes = changes(&environ.dict).filter(|_| is_usual);
        Ok(environ)
    }

    /// Move the body of this request there. Returns whether there is one.
    fn add_body(&self, environ: &mut Environ<'_>, request: &mut Request<'_, Seat>) -> PyResult<bool> {
        if request.body.is_empty() {
            return Ok(false);
        }
        let py = environ.dict.py();
        // A chunked body has an end and a length by now, so the application may see both (amendments to PEP 3333).
        environ.dict.set_item(intern!(py, "CONTENT_LENGTH"), itoa::Buffer::new().format(request.body.len()))?;
        let body = std::mem::take(request.body);
        let is_file = matches!(body, Body::File(..));
        let input = self.inputs.of(py, body)?;
        environ.dict.set_item(intern!(py, "wsgi.input"), &input)?;
        environ.file = is_file.then(|| input.unbind());
        Ok(true)
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

/// Add what a front server told of this request. Returns whether there was anything.
fn add_told(environ: &Bound<'_, PyDict>, request: &Request<'_, Seat>) -> PyResult<bool> {
    let Some(told) = request.peer.told() else { return Ok(false) };
    if told.origin.has_url() {
        rewrite_url(environ, &told.origin, request.head.host.map(|host| host.of(request.bytes)))?;
    }
    if !told.id.is_empty() {
        let py = environ.py();
        let id = PyString::new(py, &told.id);
        environ.set_item(intern!(py, "HTTP_X_REQUEST_ID"), &id)?;
        environ.set_item(intern!(py, "poorhttp.request_id"), id)?;
    }
    Ok(told.origin.has_url() || !told.id.is_empty())
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

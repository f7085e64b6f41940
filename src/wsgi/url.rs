//! The parts of a URL as variables of the environ (PEP 3333, "URL Reconstruction"): decoded, and as a proxy told them.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::text::native;
use crate::http::forwarded::{Origin, Scheme};

/// The path with its escapes decoded; `/` if an absolute target has no path (RFC 9110 4.2.3).
pub fn path_info<'py>(py: Python<'py>, path: &[u8]) -> Bound<'py, PyString> {
    match path {
        b"" => native(py, b"/"),
        _ if path.contains(&b'%') => native(py, &percent_decoded(path)),
        _ => native(py, path),
    }
}

/// Set the variables to the URL that the client asked the proxy for. `host` is that of the proxy's request.
pub fn rewrite(environ: &Bound<'_, PyDict>, origin: &Origin, host: Option<&[u8]>) -> PyResult<()> {
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

/// RFC 3986 2.1. A `%` that begins no escape stands for itself, as in Python's `urllib.parse.unquote_to_bytes`.
fn percent_decoded(path: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        let escaped = match (byte, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        decoded.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    decoded
}

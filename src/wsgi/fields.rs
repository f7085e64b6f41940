//! The fields of a request as variables of the environ: `HTTP_...`, CONTENT_TYPE and CONTENT_LENGTH (RFC 3875 4.1).

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::text::native;
use crate::http::forwarded::Passing;
use crate::http::head::RequestHead;

/// Fields that most requests have; the names of their variables are made once.
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

/// Turns fields into variables.
pub struct FieldVariables {
    /// The usual fields and their variables, by the length of the field's name.
    usual: Vec<Vec<(&'static str, Py<PyString>)>>,
    /// Whether `poorhttp.forwarded` is set if a proxy was between.
    pub notes_proxies: bool,
}

impl FieldVariables {
    /// `notes_proxies`: whether `poorhttp.forwarded` is set if a field was left out.
    pub fn new(py: Python<'_>, notes_proxies: bool) -> Self {
        let longest = USUAL.iter().map(|name| name.len()).max().unwrap_or(0);
        let usual = (0..=longest)
            .map(|length| USUAL.iter().filter(move |name| name.len() == length))
            .map(|names| names.map(|name| (*name, variable(py, name.as_bytes()).unbind())).collect())
            .collect();
        Self { usual, notes_proxies }
    }

    /// Add the fields of a head, except those about the client that `passing` holds back.
    pub fn add(&self, environ: &Bound<'_, PyDict>, head: &RequestHead, bytes: &[u8], passing: Passing) -> PyResult<()> {
        let py = environ.py();
        let all_pass = passing == Passing::All;
        for field in &head.fields {
            let (name, value) = (field.name.of(bytes), field.value.of(bytes));
            match name.len() {
                // The body is decoded, and CONTENT_LENGTH is its length.
                17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {}
                12 if name.eq_ignore_ascii_case(b"content-type") => {
                    add(environ, intern!(py, "CONTENT_TYPE"), value, ",")?;
                }
                // The length of a body is set with the body. Of no body it is this, however many zeros the client sent.
                14 if name.eq_ignore_ascii_case(b"content-length") => {
                    environ.set_item(intern!(py, "CONTENT_LENGTH"), intern!(py, "0"))?;
                }
                // Set from the head: an absolute target replaces it (RFC 9112 3.2.2).
                4 if name.eq_ignore_ascii_case(b"host") => {}
                6 if name.eq_ignore_ascii_case(b"cookie") => add(environ, &self.name(py, name), value, "; ")?,
                _ if all_pass || passing.lets(name) => add(environ, &self.name(py, name), value, ",")?,
                _ if self.notes_proxies => environ.set_item(intern!(py, "poorhttp.forwarded"), true)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn name<'py>(&self, py: Python<'py>, name: &[u8]) -> Bound<'py, PyString> {
        let mut usual = self.usual.get(name.len()).into_iter().flatten();
        let known = usual.find(|(usual, _)| name.eq_ignore_ascii_case(usual.as_bytes()));
        known.map_or_else(|| variable(py, name), |(_, variable)| variable.bind(py).clone())
    }
}

/// The `HTTP_` variable of a field.
fn variable<'py>(py: Python<'py>, name: &[u8]) -> Bound<'py, PyString> {
    let upper = name.iter().map(|&byte| if byte == b'-' { '_' } else { char::from(byte.to_ascii_uppercase()) });
    PyString::new(py, &"HTTP_".chars().chain(upper).collect::<String>())
}

/// Set a variable, or join the value to that of an equal field before it (RFC 9110 5.3).
fn add(environ: &Bound<'_, PyDict>, name: &Bound<'_, PyString>, value: &[u8], joint: &str) -> PyResult<()> {
    let value = native(environ.py(), value);
    match environ.get_item(name)? {
        None => environ.set_item(name, value),
        Some(before) => environ.set_item(name, format!("{before}{joint}{value}")),
    }
}

//! The environ of a thread's last request, which serves the next one too: a client asks for much again, and a
//! comparison costs less than making a value anew.
//!
//! Knows which variables differ from request to request. An environ that the application altered or kept is not used
//! again.

use std::borrow::Borrow;
use std::net::IpAddr;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::reuse::references;
use super::text::native;
use super::url::path_info;
use crate::http::forwarded::Passing;
use crate::http::head::Version;
use crate::net::handler::Request;

/// Field lines of more bytes are not kept for the comparison.
const LONG: usize = 8 * 1024;

/// The parts of its last request that a thread keeps.
#[derive(Default)]
pub struct LastEnviron {
    /// `None` if the application altered or kept it.
    dict: Option<Py<PyDict>>,
    listener: usize,
    passing: Option<Passing>,
    /// Version and field lines.
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

impl LastEnviron {
    /// The environ, if it needs nothing but [`LastEnviron::fill`] for this request. `lines`: those of the request's
    /// head.
    pub fn take<S>(&mut self, request: &Request<'_, S>, lines: &[u8]) -> Option<Py<PyDict>> {
        let is_alike = self.listener == request.listener
            && self.passing == Some(request.peer.passing)
            && self.has_host == request.head.host.is_some()
            && self.has_client == request.peer.client().is_some()
            && self.lines == lines;
        self.dict.take().filter(|_| is_alike)
    }

    /// Note what is in the new environ that is made for this request.
    pub fn note<S>(&mut self, request: &Request<'_, S>, lines: &[u8]) {
        self.listener = request.listener;
        self.passing = Some(request.peer.passing);
        self.has_host = request.head.host.is_some();
        self.has_client = request.peer.client().is_some();
        // No head has empty lines: the version is one of them.
        if is_short(lines) { lines.clone_into(&mut self.lines) } else { self.lines = Vec::new() }
    }

    /// Set the variables that differ from request to request. `is_new`: `environ` has none of them yet.
    pub fn fill<S>(&mut self, environ: &Bound<'_, PyDict>, is_new: bool, request: &Request<'_, S>) -> PyResult<()> {
        let py = environ.py();
        let to = To { environ, is_new };
        let (head, bytes) = (request.head, request.bytes);
        let (method, target) = (head.method.of(bytes), head.target.of(bytes));
        self.method.set(&to, [intern!(py, "REQUEST_METHOD")], method, || [native(py, method)])?;
        let of_target = [intern!(py, "PATH_INFO"), intern!(py, "QUERY_STRING"), intern!(py, "REQUEST_URI")];
        self.target.set(&to, of_target, target, || {
            [path_info(py, head.path.of(bytes)), native(py, head.query.of(bytes)), native(py, target)]
        })?;
        if let Some(host) = head.host.map(|host| host.of(bytes)) {
            self.host.set(&to, [intern!(py, "HTTP_HOST")], host, || [native(py, host)])?;
        }
        let protocol = match head.version {
            Version::Http11 => intern!(py, "HTTP/1.1"),
            Version::Http10 => intern!(py, "HTTP/1.0"),
        };
        self.protocol.set(&to, [intern!(py, "SERVER_PROTOCOL")], &head.version, || [protocol.clone()])?;
        // A client without an address leaves the empty text of the template: RFC 3875 4.1.8 has no value for it.
        let Some(client) = request.peer.client() else { return Ok(()) };
        let address = || [PyString::new(py, &client.ip().to_string())];
        self.address.set(&to, [intern!(py, "REMOTE_ADDR")], &client.ip(), address)?;
        self.port.set(&to, [intern!(py, "REMOTE_PORT")], &client.port(), || {
            // A proxy seldom tells the port of its client.
            let mut digits = itoa::Buffer::new();
            [PyString::new(py, if client.port() == 0 { "" } else { digits.format(client.port()) })]
        })
    }

    /// Keep an environ that was served for the next request, unless somebody else has it too.
    pub fn keep(&mut self, environ: Bound<'_, PyDict>) {
        self.dict = Some(environ.unbind()).filter(|dict| references(dict) == 1);
    }
}

/// Whether field lines are kept for the comparison.
pub fn is_short(lines: &[u8]) -> bool {
    lines.len() <= LONG
}

/// Where values go.
struct To<'a, 'py> {
    environ: &'a Bound<'py, PyDict>,
    is_new: bool,
}

/// The values of some variables, and the `B` from which they were made.
struct Values<B: ToOwned + ?Sized, const N: usize>(Option<(B::Owned, [Py<PyString>; N])>);

impl<B: ToOwned + ?Sized, const N: usize> Default for Values<B, N> {
    fn default() -> Self {
        Self(None)
    }
}

impl<B: ToOwned + PartialEq + ?Sized, const N: usize> Values<B, N> {
    /// Set the variables of these names to what `make` makes of `from`.
    fn set<'py>(
        &mut self,
        to: &To<'_, 'py>,
        names: [&Bound<'py, PyString>; N],
        from: &B,
        make: impl FnOnce() -> [Bound<'py, PyString>; N],
    ) -> PyResult<()> {
        let values = match &mut self.0 {
            Some((before, values)) if (*before).borrow() == from => {
                if !to.is_new {
                    return Ok(()); // they are set since the last request
                }
                values
            }
            Some((before, values)) => {
                from.clone_into(before);
                *values = make().map(Bound::unbind);
                values
            }
            none => &mut none.insert((from.to_owned(), make().map(Bound::unbind))).1,
        };
        names.into_iter().zip(values).try_for_each(|(name, value)| to.environ.set_item(name, &*value))
    }
}

/// A number that changes with each change of a dict (PEP 509). `None` if Python has none: from 3.14 on, and without its
/// lock.
#[allow(clippy::unnecessary_wraps)] // each Python compiles one of the two ways
pub fn changes(dict: &Bound<'_, PyDict>) -> Option<u64> {
    #[cfg(not(any(Py_3_14, Py_GIL_DISABLED)))]
    {
        // SAFETY: a dict, which is alive, begins with this structure.
        let dict = unsafe { &*dict.as_ptr().cast::<pyo3::ffi::PyDictObject>() };
        // Python 3.12 and 3.13 call it deprecated, and keep it right all the same.
        #[allow(deprecated)]
        Some(dict.ma_version_tag)
    }
    #[cfg(any(Py_3_14, Py_GIL_DISABLED))]
    {
        let _ = dict;
        None
    }
}

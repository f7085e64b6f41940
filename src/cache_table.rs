//! The cache as Python sees it: values of Python in the table of `cache`; `_engine.pyi` is its manual.
//!
//! Knows what is asked and how it fails; `cache_values` knows the form of keys and values. No code of Python runs while a
//! lock is held, and no thread waits for the interpreter meanwhile: what is asked is done at once, or by a thread that has
//! let go of the interpreter.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::{PyKeyError, PyOverflowError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cache::mapping::{OVERHEAD, SIZES};
use crate::cache::record::Damaged;
use crate::cache::shard::{Counted, Entry, Name, Shard, Stats, When};
use crate::cache::table::{Access, Failure, LAYOUT, Table, lay_out, now};
use crate::cache_values::{Form, Found, end_of, key_of};
use crate::engine::os_error;
use crate::net::events::listener::duplicate;

/// The base of `poorhttp.cache.Cache`; see `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", subclass, frozen, immutable_type)]
pub struct CacheTable {
    table: Table,
    is_closed: AtomicBool,
}

#[pymethods]
impl CacheTable {
    #[classattr]
    const LAYOUT: u64 = LAYOUT;
    #[classattr]
    const OVERHEAD: usize = OVERHEAD;
    #[classattr]
    const SIZES: (usize, usize) = (*SIZES.start(), *SIZES.end());

    #[staticmethod]
    fn lay_out(descriptor: RawFd) -> PyResult<()> {
        duplicate(descriptor).and_then(lay_out).map_err(os_error)
    }

    #[new]
    fn new(descriptor: RawFd, secret: (u64, u64), patience: f64) -> PyResult<Self> {
        let patience =
            Duration::try_from_secs_f64(patience).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let file = duplicate(descriptor).map_err(os_error)?;
        let table = Table::new(file, secret, patience).map_err(os_error)?;
        Ok(Self { table, is_closed: AtomicBool::new(false) })
    }

    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = Self::find(cache, key)?.ok().flatten();
        Self::given(cache, found, default)
    }

    #[pyo3(signature = (key, default = None))]
    fn load<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = Self::find(cache, key)?.map_err(|failure| cache.get().told(failure))?;
        Self::given(cache, found, default)
    }

    #[pyo3(signature = (key, value, timeout = None))]
    fn set<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        Self::put(cache, key, value, timeout, When::Always).map(drop)
    }

    #[pyo3(signature = (key, value, timeout = None))]
    fn add<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        Self::put(cache, key, value, timeout, When::Missing)
    }

    #[pyo3(signature = (key, begin, value, timeout = None))]
    fn replace<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        begin: &[u8],
        value: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        Self::put(cache, key, value, timeout, When::Begins(begin))
    }

    #[pyo3(signature = (key, delta = 1, default = None, timeout = None))]
    fn incr<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        delta: i64,
        default: Option<i64>,
        timeout: Option<f64>,
    ) -> PyResult<i64> {
        let this = cache.get();
        let moment = now();
        let end = end_of(timeout, moment)?;
        let start = default.map(|number| (number, end));
        let counted =
            this.change(cache.py(), key_of(key)?, |shard, name| shard.count_up(name, delta, start, moment))?;
        match counted {
            Counted::To(number) => Ok(number),
            Counted::Missing => Err(PyKeyError::new_err(key.clone().unbind())),
            Counted::NoInteger => {
                Err(PyTypeError::new_err(format!("the value of {} is no int; only an int can be counted", key.repr()?)))
            }
            Counted::Overflow => {
                Err(PyOverflowError::new_err(format!("the number of {} would need more than 64 bits", key.repr()?)))
            }
        }
    }

    #[pyo3(signature = (key, delta = 1, default = None, timeout = None))]
    fn decr<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        delta: i64,
        default: Option<i64>,
        timeout: Option<f64>,
    ) -> PyResult<i64> {
        let delta = delta.checked_neg().ok_or_else(|| PyOverflowError::new_err("delta needs more than 64 bits"))?;
        Self::incr(cache, key, delta, default, timeout)
    }

    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let moment = now();
        self.change(py, key_of(key)?, |shard, name| shard.delete(name, moment))
    }

    #[pyo3(signature = (key, timeout = None))]
    fn touch(&self, py: Python<'_>, key: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<bool> {
        let moment = now();
        let end = end_of(timeout, moment)?;
        self.change(py, key_of(key)?, |shard, name| shard.touch(name, end, moment))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let moment = now();
        let (shard, name) = self.open()?.place(key_of(key)?);
        let done = self.ask(py, shard, Access::Read, |shard| shard.has(name, moment));
        Ok(done.unwrap_or(false))
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let shards = self.open()?.shards();
        let empty = |shard: &mut Shard<'_>| {
            shard.empty();
            Ok(())
        };
        // Those that are free are emptied also where one is not.
        let done = (0..shards).map(|shard| self.ask(py, shard, Access::Change, empty)).fold(Ok(()), Result::and);
        done.map_err(|failure| self.told(failure))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut total = Stats::default();
        for shard in 0..self.open()?.shards() {
            let part =
                self.ask(py, shard, Access::Read, |shard| shard.stats()).map_err(|failure| self.told(failure))?;
            total.hits += part.hits;
            total.misses += part.misses;
            total.evictions += part.evictions;
            total.items += part.items;
            total.bytes += part.bytes;
            total.memory += part.memory;
        }
        let stats = PyDict::new(py);
        for (name, count) in [
            ("hits", total.hits),
            ("misses", total.misses),
            ("items", total.items),
            ("bytes", total.bytes),
            ("evictions", total.evictions),
            ("memory", total.memory),
        ] {
            stats.set_item(name, count)?;
        }
        Ok(stats)
    }

    #[getter]
    fn largest(&self) -> usize {
        self.table.largest()
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

impl CacheTable {
    /// The table, unless it is closed.
    fn open(&self) -> PyResult<&Table> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(PyValueError::new_err("the cache is closed"));
        }
        Ok(&self.table)
    }

    /// Find a value.
    fn find<'py>(cache: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Result<Option<Found<'py>>, Failure>> {
        let py = cache.py();
        let table = cache.get().open()?;
        let (shard, name) = table.place(key_of(key)?);
        let found =
            table.at_once(shard, Access::Read, |shard| shard.get(name, now, |kind, bytes| Found::new(py, kind, bytes)));
        let found = match found {
            Some(found) => found,
            None => {
                let copied = py.detach(|| {
                    table.in_time(shard, Access::Read, |shard| {
                        shard.get(name, now, |kind, bytes| (kind, bytes.to_vec()))
                    })
                });
                copied.map(|copied| copied.map(|(kind, bytes)| Found::new(py, kind, &bytes)))
            }
        };
        Ok(match found {
            Ok(found) => Ok(found.transpose()?),
            Err(failure) => Err(failure),
        })
    }

    /// What the caller gets.
    fn given<'py>(
        cache: &Bound<'py, Self>,
        found: Option<Found<'py>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match found {
            Some(Found::Plain(value)) => Ok(value),
            Some(Found::Packed(kind, bytes)) => cache.call_method1(intern!(cache.py(), "_unpack"), (kind, bytes)),
            None => Ok(default.unwrap_or_else(|| cache.py().None().into_bound(cache.py()))),
        }
    }

    /// Put a value under a key, if `when` is so.
    fn put<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        timeout: Option<f64>,
        when: When<'_>,
    ) -> PyResult<bool> {
        let this = cache.get();
        let form = Form::new(cache.as_any(), value)?;
        let (kind, value) = form.parts()?;
        let largest = this.open()?.largest();
        if value.len() > largest {
            let told = format!("a value has {} bytes; this cache takes at most {largest}", value.len());
            return Err(PyValueError::new_err(format!(
                "{told}: make it larger (size), or keep large things elsewhere"
            )));
        }
        let moment = now();
        let entry = Entry { kind, value, expires: end_of(timeout, moment)? };
        this.change(cache.py(), key_of(key)?, |shard, name| shard.set(name, entry, when, moment))
    }

    /// Change something in the shard of a key.
    fn change<R: Send>(
        &self,
        py: Python<'_>,
        key: &[u8],
        run: impl Fn(&mut Shard<'_>, Name<'_>) -> Result<R, Damaged> + Sync,
    ) -> PyResult<R> {
        let (shard, name) = self.open()?.place(key);
        self.ask(py, shard, Access::Change, |shard| run(shard, name)).map_err(|failure| self.told(failure))
    }

    /// Do something in a shard: at once, or detached when its lock is free.
    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        shard: usize,
        access: Access,
        run: impl Fn(&mut Shard<'_>) -> Result<R, Damaged> + Sync,
    ) -> Result<R, Failure> {
        let table = &self.table;
        match table.at_once(shard, access, &run) {
            Some(done) => done,
            None => py.detach(|| table.in_time(shard, access, &run)),
        }
    }

    /// The exception for a failure.
    fn told(&self, failure: Failure) -> PyErr {
        match failure {
            Failure::Busy => PyTimeoutError::new_err(format!(
                "another process has kept a part of the cache locked for {:?}: is one stopped, or in a debugger?",
                self.table.patience()
            )),
            Failure::Damaged => PyRuntimeError::new_err("the cache is damaged: remove its file"),
        }
    }
}

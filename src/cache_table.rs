//! The cache as Python sees it: values of Python in the table of `cache`; `_engine.pyi` is its manual.
//!
//! Knows what is asked and how it fails; `cache_values` knows the form of keys and values. No code of Python runs while a
//! lock is held, and no thread waits for the interpreter meanwhile: what is asked is done at once, or by a thread that has
//! let go of the interpreter.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::{
    PyKeyError, PyOSError, PyOverflowError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::intern;
use pyo3::prelude::*;

use crate::cache::lock::Failure;
use crate::cache::mapping::{OVERHEAD, SIZES};
use crate::cache::record::Damaged;
use crate::cache::shard::{Counted, Entry, Name, Shard, When};
use crate::cache::table::{Access, LAYOUT, Table, lay_out, now};
use crate::cache_values::{Copied, Form, Found, end_of, key_of};
use crate::engine::os_error;
use crate::net::events::listener::duplicate;

/// The base of `poorhttp.cache.Cache`; see `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", subclass, frozen, immutable_type)]
pub struct CacheTable {
    table: Table,
    /// For messages: the path of its file.
    name: String,
    /// Milliseconds.
    patience: u64,
    is_closed: AtomicBool,
}

/// What is done in a shard, also while other threads have the interpreter.
type Task<'a> = &'a mut (dyn FnMut(&mut Shard<'_>) -> Result<(), Damaged> + Send);

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
    fn new(name: String, descriptor: RawFd, secret: u64, second: u64, patience: u64) -> PyResult<Self> {
        let file = duplicate(descriptor).map_err(os_error)?;
        let table = Table::new(file, (secret, second), Duration::from_millis(patience));
        let table = table.map_err(|error| match error.raw_os_error() {
            Some(_) => os_error(error),
            None => PyOSError::new_err(damaged(&name)),
        })?;
        Ok(Self { table, name, patience, is_closed: AtomicBool::new(false) })
    }

    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::value(cache, key, default, |_| Ok(()))
    }

    #[pyo3(signature = (key, default = None))]
    fn load<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::value(cache, key, default, |failure| Err(cache.get().exception(failure)))
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

    #[pyo3(signature = (key, prefix, value, timeout = None))]
    fn replace<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        prefix: &[u8],
        value: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        Self::put(cache, key, value, timeout, When::StartsWith(prefix))
    }

    #[pyo3(signature = (key, delta = 1, default = None, timeout = None))]
    fn incr(&self, key: &Bound<'_, PyAny>, delta: i64, default: Option<i64>, timeout: Option<f64>) -> PyResult<i64> {
        let moment = now();
        let end = end_of(timeout, moment)?;
        let start = default.map(|number| (number, end));
        let counted = self.change(key, |shard, name| shard.count_up(name, delta, start, moment))?;
        match counted {
            Counted::To(number) => Ok(number),
            Counted::Missing => Err(PyKeyError::new_err(key.clone().unbind())),
            Counted::NoInteger => Err(PyTypeError::new_err("the value is no int of 64 bits; only such can be counted")),
            Counted::Overflow => Err(PyOverflowError::new_err("the number would need more than 64 bits")),
        }
    }

    fn delete(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let moment = now();
        self.change(key, |shard, name| shard.delete(name, moment))
    }

    #[pyo3(signature = (key, timeout = None))]
    fn touch(&self, key: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<bool> {
        let moment = now();
        let end = end_of(timeout, moment)?;
        self.change(key, |shard, name| shard.touch(name, end, moment))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (shard, name) = self.place(key)?;
        let mut is_there = false;
        let mut look = |shard: &mut Shard<'_>| {
            is_there = shard.has(name, now())?;
            Ok(())
        };
        // Where the lock is not free in time, it is as if there were none.
        let _ = self.ask(key.py(), shard, Access::Read, &mut look);
        Ok(is_there)
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let mut empty = |shard: &mut Shard<'_>| {
            shard.empty();
            Ok(())
        };
        let mut done = Ok(());
        // Those that are free are emptied also where one is not.
        for shard in 0..self.open()?.shards() {
            done = done.and(self.ask(py, shard, Access::Change, &mut empty));
        }
        done.map_err(|failure| self.exception(failure))
    }

    fn _stats(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let mut total = [0; 6];
        for shard in 0..self.open()?.shards() {
            let mut part = total;
            let mut add = |shard: &mut Shard<'_>| {
                for (sum, count) in part.iter_mut().zip(shard.stats()?) {
                    *sum += count;
                }
                Ok(())
            };
            self.ask(py, shard, Access::Read, &mut add).map_err(|failure| self.exception(failure))?;
            total = part;
        }
        Ok(total.to_vec())
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

    /// The shard of a key, and its name there.
    fn place<'a>(&self, key: &'a Bound<'_, PyAny>) -> PyResult<(usize, Name<'a>)> {
        Ok(self.open()?.place(key_of(key)?))
    }

    /// The value of a key, or the default. on_failure: whether a failure is as if there were no value.
    fn value<'py>(
        cache: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        on_failure: impl FnOnce(Failure) -> PyResult<()>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (found, done) = cache.get().find(key)?;
        done.or_else(on_failure)?;
        match found {
            Some(Found::Plain(value)) => Ok(value),
            Some(Found::Packed(kind, bytes)) => cache.call_method1(intern!(cache.py(), "_unpack"), (kind, bytes)),
            None => Ok(default.unwrap_or_else(|| cache.py().None().into_bound(cache.py()))),
        }
    }

    /// Find a value. It is copied only once if no other thread has the lock.
    fn find<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<(Option<Found<'py>>, Result<(), Failure>)> {
        let py = key.py();
        let (shard, name) = self.place(key)?;
        let mut found = None;
        let mut done = self.table.at_once(shard, Access::Read, &mut |shard| {
            found = shard.get(name, &now, |kind, bytes| Copied::new(py, kind, bytes))?;
            Ok(())
        });
        if done == Err(Failure::Busy) {
            let mut copied = None;
            done = py.detach(|| {
                self.table.in_time(shard, Access::Read, &mut |shard| {
                    copied = shard.get(name, &now, |_, bytes| bytes.to_vec())?;
                    Ok(())
                })
            });
            found = copied.map(|(kind, bytes)| (kind, Copied::new(py, kind, &bytes)));
        }
        let found = found.map(|(kind, bytes)| Found::new(kind, bytes)).transpose()?;
        Ok((found, done))
    }

    /// Put a value under a key, if `when` is so.
    fn put(
        cache: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        when: When<'_>,
    ) -> PyResult<bool> {
        let this = cache.get();
        let form = Form::new(cache.as_any(), value)?;
        let (kind, value) = form.parts()?;
        let largest = this.open()?.largest();
        if value.len() > largest {
            let told = format!("a value has {} bytes; this cache takes at most {largest}", value.len());
            return Err(PyValueError::new_err(told + ": make it larger (size), or keep large things elsewhere"));
        }
        let moment = now();
        let entry = Entry { kind, value, expires: end_of(timeout, moment)? };
        this.change(key, |shard, name| shard.set(name, entry, when, moment))
    }

    /// Change something in the shard of a key, and return what came of it.
    fn change<T: Default + Send>(
        &self,
        key: &Bound<'_, PyAny>,
        mut run: impl FnMut(&mut Shard<'_>, Name<'_>) -> Result<T, Damaged> + Send,
    ) -> PyResult<T> {
        let (shard, name) = self.place(key)?;
        let mut result = T::default();
        let done = self.ask(key.py(), shard, Access::Change, &mut |shard| {
            result = run(shard, name)?;
            Ok(())
        });
        done.map_err(|failure| self.exception(failure))?;
        Ok(result)
    }

    /// Do something in a shard: at once, or detached when its lock is free.
    fn ask(&self, py: Python<'_>, shard: usize, access: Access, run: Task<'_>) -> Result<(), Failure> {
        match self.table.at_once(shard, access, run) {
            Err(Failure::Busy) => py.detach(|| self.table.in_time(shard, access, run)),
            done => done,
        }
    }

    /// The exception for a failure.
    fn exception(&self, failure: Failure) -> PyErr {
        match failure {
            Failure::Busy => PyTimeoutError::new_err(format!(
                "another process has kept a part of the cache {} locked for {} ms: is one stopped, or in a debugger? If none \
                 is, the file is damaged: remove it, and restart what uses it",
                self.name, self.patience
            )),
            Failure::Damaged => PyRuntimeError::new_err(damaged(&self.name)),
        }
    }
}

fn damaged(name: &str) -> String {
    format!("the cache {name} is damaged: remove its file, and restart what uses it")
}

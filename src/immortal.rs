//! Objects made immortal (PEP 683): the interpreter counts no references to them and never frees them, so that processes
//! which are forked later share their memory for as long as nothing else in it changes.
//!
//! Knows how CPython 3.12 and 3.13 mark such an object, and what each object refers to. Does not know which types may be
//! immortal, nor when: `poorhttp.process.workers.immortal` does.

use std::collections::HashMap;

use pyo3::ffi::PyTypeObject;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyString, PyTuple, PyType};

use crate::wsgi::reuse::references;

/// The count of references of an immortal object: all of the lower 32 bits are set.
const IMMORTAL: isize = 0xFFFF_FFFF;
/// The bit by which the interpreter knows it.
const IS_IMMORTAL: isize = 0x8000_0000;
/// So many objects are asked at a time what they refer to.
const CHUNK: usize = 4096;

/// Whether this module knows the interpreter: its structures, and that it asserts nothing about them.
const IS_KNOWN: bool = cfg!(all(
    Py_3_12,
    target_pointer_width = "64",
    not(any(Py_3_14, Py_GIL_DISABLED, PyPy, GraalPy, py_sys_config = "Py_REF_DEBUG", py_sys_config = "Py_TRACE_REFS"))
));

/// Make objects immortal: those that the collector tracks, and what they refer to; see `_engine.pyi`.
#[pyfunction]
pub fn make_immortal<'py>(
    kinds: Vec<Bound<'py, PyType>>,
    python_class: &Bound<'py, PyType>,
) -> PyResult<Option<usize>> {
    if !IS_KNOWN {
        return Ok(None);
    }
    let py = python_class.py();
    let gc = py.import("gc")?;
    let get_referents = gc.getattr("get_referents")?;
    let mut kinds = Kinds::new(kinds, python_class);
    let mut count = 0;
    let mut pending = Vec::new();
    for object in gc.call_method0("get_objects")?.cast_into::<PyList>()? {
        // C code may still be filling a tuple or a frozenset to which nothing refers.
        let may_grow = object.is_exact_instance_of::<PyTuple>() || object.is_exact_instance_of::<PyFrozenSet>();
        if !may_grow && kinds.may_be_immortal(&object) {
            count += usize::from(is_mortal(&object));
            mark(&object);
            pending.push(object);
        }
    }
    while !pending.is_empty() {
        let chunk = pending.split_off(pending.len().saturating_sub(CHUNK));
        let mut found = get_referents.call1(PyTuple::new(py, &chunk)?)?.cast_into::<PyList>()?.into_iter().collect();
        for object in &chunk {
            add_untold(object, &mut found)?;
        }
        for object in found {
            if is_mortal(&object) && kinds.may_be_immortal(&object) {
                count += 1;
                mark(&object);
                if !is_leaf(&object) {
                    pending.push(object);
                }
            }
        }
    }
    Ok(Some(count))
}

/// Add what the collector is not told of: the parts of code that are used as it runs, and the keys of a dict.
fn add_untold<'py>(object: &Bound<'py, PyAny>, found: &mut Vec<Bound<'py, PyAny>>) -> PyResult<()> {
    let py = object.py();
    if let Ok(dict) = object.cast_exact::<PyDict>() {
        found.extend(dict.iter().map(|(key, _)| key));
    } else if object.is_exact_instance_of::<PyCode>() {
        for part in
            [intern!(py, "co_consts"), intern!(py, "co_names"), intern!(py, "co_name"), intern!(py, "co_qualname")]
        {
            found.push(object.getattr(part)?);
        }
    }
    Ok(())
}

/// Whether an object refers to no other one.
fn is_leaf(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBytes>()
        || object.is_exact_instance_of::<PyFloat>()
}

/// Whether references to an object are counted.
fn is_mortal(object: &Bound<'_, PyAny>) -> bool {
    references(object.as_unbound()) & IS_IMMORTAL == 0
}

/// Make one object immortal.
fn mark(object: &Bound<'_, PyAny>) {
    // SAFETY: the object is alive, for this is a reference to it, and begins with its count in each interpreter that
    // `IS_KNOWN`. The count is used under the lock of the interpreter alone, which this thread holds.
    unsafe { *object.as_ptr().cast::<isize>() = IMMORTAL };
}

/// Which types may have immortal instances.
struct Kinds {
    known: HashMap<*mut PyTypeObject, bool>,
    /// What frees an instance of a class that was written in Python.
    python_dealloc: usize,
}

impl Kinds {
    fn new(kinds: Vec<Bound<'_, PyType>>, python_class: &Bound<'_, PyType>) -> Self {
        let known = kinds.into_iter().map(|kind| (kind.as_type_ptr(), true)).collect();
        Self { known, python_dealloc: Slots::of(python_class.as_type_ptr()).dealloc }
    }

    fn may_be_immortal(&mut self, object: &Bound<'_, PyAny>) -> bool {
        self.is_allowed(object.get_type_ptr())
    }

    /// A class in Python may be if it has no finalizer and its base may be.
    fn is_allowed(&mut self, kind: *mut PyTypeObject) -> bool {
        if let Some(known) = self.known.get(&kind) {
            return *known;
        }
        let slots = Slots::of(kind);
        let is_plain = slots.dealloc == self.python_dealloc && !slots.has_finalizer && !slots.base.is_null();
        let allowed = is_plain && self.is_allowed(slots.base);
        self.known.insert(kind, allowed);
        allowed
    }
}

/// What a type tells of its instances.
struct Slots {
    base: *mut PyTypeObject,
    dealloc: usize,
    has_finalizer: bool,
}

impl Slots {
    fn of(kind: *mut PyTypeObject) -> Self {
        // SAFETY: it is the type of an object that is alive, or a base of such a type, and so is alive and ready. These
        // fields change under the lock of the interpreter alone, which this thread holds.
        let kind = unsafe { &*kind };
        Self {
            base: kind.tp_base,
            dealloc: kind.tp_dealloc.map_or(0, |dealloc| dealloc as usize),
            has_finalizer: kind.tp_finalize.is_some(),
        }
    }
}

//! A handler of signals that runs to its end although a `RequestTimeout` is raised in it.

use pyo3::prelude::*;

use super::serving_thread::RequestTimeout;

/// Calls a Python handler; see `_engine.pyi`. A `RequestTimeout` for the late call of the main thread is raised in the
/// first Python code that runs there, which may be the handler's. Then the handler is called again before the late call
/// ends. Python cannot do this: the exception is raised before the first instruction of a handler.
#[pyclass(module = "poorhttp._engine", frozen, immutable_type)]
pub struct SignalHandler {
    handler: Py<PyAny>,
}

#[pymethods]
impl SignalHandler {
    #[new]
    fn new(handler: Py<PyAny>) -> Self {
        Self { handler }
    }

    fn __call__(&self, py: Python<'_>, signal: i32, frame: Py<PyAny>) -> PyResult<()> {
        let first = self.handler.call1(py, (signal, &frame)).map(drop);
        if first.as_ref().is_err_and(|error| error.is_instance_of::<RequestTimeout>(py)) {
            self.handler.call1(py, (signal, frame))?;
        }
        first
    }
}

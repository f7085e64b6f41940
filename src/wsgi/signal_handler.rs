//! A signal handler that is heard whatever the interpreter raises meanwhile.

use pyo3::prelude::*;

use super::application::RequestTimeout;

/// Calls a Python handler. A `RequestTimeout` that was to be raised in the late call of the main thread is raised in the
/// first Python code that runs there, which may be the handler's: then it is called again, and the late call is ended
/// afterwards. In Python this cannot be written, for the exception comes before its first instruction.
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

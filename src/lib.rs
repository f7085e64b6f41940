//! The engine of poorhttp: a WSGI server's bytes, its connections, and one class for Python.
//!
//! Imports point one way: `engine -> wsgi -> net -> http`. `http` and `net` build and are tested without Python.

#[cfg(feature = "python")]
pub mod engine;
pub mod http;
pub mod limits;
pub mod net;
pub mod timing;
#[cfg(feature = "python")]
pub mod wsgi;

/// `poorhttp._engine`. The lock of the interpreter orders some of its state, so it asks for it.
#[cfg(feature = "python")]
#[pyo3::pymodule(gil_used = true)]
mod _engine {
    use pyo3::prelude::*;
    use pyo3::types::{IntoPyDict, PyModule};

    #[pymodule_export]
    use crate::engine::{Engine, log_lost, on_parent_death, take_waiting, try_temporary_file};
    #[pymodule_export]
    use crate::wsgi::application::RequestTimeout;
    #[pymodule_export]
    use crate::wsgi::exchange::check_head;
    #[pymodule_export]
    use crate::wsgi::held_body::HeldBody;
    #[pymodule_export]
    use crate::wsgi::signal_handler::SignalHandler;

    /// Add what Python declares too, so that a test can compare the two.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("TIMING", crate::timing::ALL.into_py_dict(module.py())?)?;
        module.add("WORDS", crate::net::lifecycle::process::WORDS.into_py_dict(module.py())?)?;
        module.add("REPORTS", crate::net::report::supervisor::REPORTS.into_py_dict(module.py())?)
    }
}

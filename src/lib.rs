//! The engine of poorhttp: HTTP (`http`), connections (`net`), calls of the application (`wsgi`), and one class for
//! Python (`engine`). Beside it a cache that processes share (`cache`), and its class for Python (`cache_table`).
//!
//! Imports point one way: `engine -> wsgi -> net -> http`. `http`, `net` and `cache` build and are tested without Python.

pub mod cache;
#[cfg(feature = "python")]
mod cache_table;
#[cfg(feature = "python")]
mod cache_values;
#[cfg(feature = "python")]
mod config;
#[cfg(feature = "python")]
pub mod engine;
pub mod http;
#[cfg(feature = "python")]
mod immortal;
pub mod limits;
pub mod net;
pub mod timing;
mod words;
#[cfg(feature = "python")]
pub mod wsgi;

/// `poorhttp._engine`. It needs the lock of the interpreter, which protects some of its state.
#[cfg(feature = "python")]
#[pyo3::pymodule(gil_used = true)]
mod _engine {
    use pyo3::prelude::*;
    use pyo3::types::{IntoPyDict, PyModule};

    #[pymodule_export]
    use crate::cache_table::CacheTable;
    #[pymodule_export]
    use crate::engine::{Engine, give_back_memory, log_lost, on_parent_death, take_waiting, try_temporary_file};
    #[pymodule_export]
    use crate::immortal::make_immortal;
    #[pymodule_export]
    use crate::wsgi::held_body::HeldBody;
    #[pymodule_export]
    use crate::wsgi::open_file::{FileBody, OpenFile};
    #[pymodule_export]
    use crate::wsgi::serving_thread::RequestTimeout;
    #[pymodule_export]
    use crate::wsgi::signal_handler::SignalHandler;
    #[pymodule_export]
    use crate::wsgi::start_response::check_head;

    /// Add what Python declares too, so that a test can compare the two.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("TIMING", crate::timing::ALL.into_py_dict(module.py())?)?;
        module.add("WORDS", crate::net::lifecycle::process::WORDS.into_py_dict(module.py())?)?;
        module.add("REPORTS", crate::net::report::report_pipe::REPORTS.into_py_dict(module.py())?)
    }
}

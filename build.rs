//! Tells the compiler for which Python the engine is built: `cfg(Py_3_14)` and the like.

fn main() {
    #[cfg(feature = "python")]
    pyo3_build_config::use_pyo3_cfgs();
}

//! Lets the engine know for which Python it is built: `cfg(Py_3_14)` and the like.

fn main() {
    #[cfg(feature = "python")]
    pyo3_build_config::use_pyo3_cfgs();
}

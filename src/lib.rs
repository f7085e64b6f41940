//! The engine of poorhttp.

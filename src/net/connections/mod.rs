//! One connection: its bytes in and out, the body that it spools, its last moments.

pub mod connection;
pub mod lingering;
pub mod outbox;
pub mod spool;
pub mod transport;

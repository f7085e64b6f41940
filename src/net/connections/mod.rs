//! One connection: its bytes in and out, the body that it spools, its last moments.
//!
//! May know `shared` and what lies below it: `handler`, `lifecycle`, `report`, `proxies`. Knows no event loop and no thread.

pub mod connection;
pub mod lingering;
pub mod outbox;
pub mod own_answers;
pub mod spool;
pub mod transport;

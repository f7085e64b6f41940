//! One connection: its bytes in and out, the body that it spools, its last moments.
//!
//! May know `shared` and what lies below it: `handler`, `lifecycle`, `report`, `proxies`. Knows no event loop and no thread.

mod closing;
pub mod connection;
pub mod lingering;
pub mod outbox;
pub mod own_answers;
pub mod pusher;
mod reading;
pub mod scratch;
mod serving;
pub mod spool;
pub mod transport;

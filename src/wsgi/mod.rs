//! PEP 3333 in Rust: how a whole request becomes a call of the application, and its iterable an answer.
//!
//! One request in a straight line:
//!
//! 1. The network calls `Application::call` (`application`) with the request and the outbox of its connection.
//! 2. The exchange of the thread (`reuse`, `exchange`) takes the outbox.
//! 3. `environ` builds the environ from that of the thread's last request (`last_environ`) or anew (`fields`, `url`,
//!    `input`).
//! 4. The application is called. It calls `start_response()` (`callables`), which checks status and headers
//!    (`start_response`) and writes the head into the outbox.
//! 5. `iteration` takes the body from what the application returned; `exchange` frames each block. A full outbox
//!    suspends the answer until the client has read; then `Application::resume` goes on.
//! 6. `turn` calls `close()`, or answers 500 after an exception, and logs what was wrong (`error_log`).
//! 7. `Application::end_turn` gives the outbox back to the connection; the thread keeps exchange and environ.
//!
//! What other threads do to a call (`late_call`) they do by its `serving_thread`. Knows no socket but to hand bytes to
//! it.

pub mod application;
mod callables;
pub mod environ;
pub mod error_log;
pub mod exchange;
mod fields;
pub mod file_wrapper;
pub mod held_body;
pub mod input;
mod iteration;
mod last_environ;
mod late_call;
pub mod open_file;
pub mod reuse;
pub mod sendfile_header;
pub mod serving_thread;
pub mod signal_handler;
pub mod start_response;
mod text;
mod turn;
mod url;

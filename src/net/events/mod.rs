//! The event loop: which descriptors are ready, which deadlines have passed, which connections wait.
//!
//! May know `connections` and what lies below it. Knows no thread, nor which of them does what an event asks for.
//!
//! One request in a straight line:
//! 1. event: `EventLoop::next_event` says that a connection is ready, and `EventLoop::take` takes it from the table;
//! 2. the connection advances: `Connection::advance` receives and parses bytes;
//! 3. verdict: `Serve` if the request is whole, else `Park` or `Close`;
//! 4. serve: the thread lays the baton down, and `Connection::serve` calls the application, which fills the outbox;
//! 5. flush: at the end of `Connection::serve` the outbox is sent;
//! 6. wait: with the baton in hand again, the thread calls `EventLoop::settle`. The connection waits in the table, and if no
//!    event is left, the thread sleeps in `EventLoop::wait`.

mod accepting;
mod acceptor;
mod deadlines;
pub mod event_loop;
mod eviction;
pub mod listener;
pub mod poller;
mod stopping;
pub mod table;

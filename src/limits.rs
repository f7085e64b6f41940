//! The settings that the engine obeys, each named as in the configuration.
//!
//! Knows no default: policy (Python) declares every setting once, the engine only reads it.

/// Times in milliseconds, sizes in bytes; 0 means what a comment says.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
pub struct Limits {
    /// Longest wait of a connection between two requests.
    pub keepalive_timeout: u64,
    /// From the first byte of a head to its blank line.
    pub head_timeout: u64,
    /// Longest silence inside a request body.
    pub body_timeout: u64,
    /// Slowest average of a request body, bytes per second; 0: no limit.
    pub body_rate: u64,
    /// Longest time that a call may last without giving a byte; 0: no limit.
    pub request_timeout: u64,
    /// A call that gives nothing for so long is logged while it lasts; 0: none is.
    pub slow_request: u64,
    /// Longest wait for a client to take a byte of its answer.
    pub write_timeout: u64,
    /// How long a refused client may still send before the connection is cut.
    pub linger_timeout: u64,
    /// How long a stop waits for requests in flight.
    pub graceful_timeout: u64,
    /// Longest request line, without its CRLF.
    pub max_request_line: usize,
    /// Longest head: request line, fields and blank line.
    pub max_head: usize,
    /// Most fields in a head, and in the trailers of a chunked body.
    pub max_fields: usize,
    /// Largest request body, decoded.
    pub max_body: u64,
    /// Above this a request body is kept in a temporary file.
    pub body_memory: usize,
    /// Most connections of one process; fewer where descriptors are scarce.
    pub max_connections: usize,
    /// Most connections of one client address; 0: no limit.
    pub max_connections_per_address: usize,
    /// After so many answers the supervisor replaces this worker.
    pub max_requests: u64,
    /// The supervisor decides by the load how many workers there are.
    pub tells_load: bool,
    /// Other processes accept at the same listeners.
    pub has_neighbours: bool,
}

impl Limits {
    /// Whether a body of which so many bytes came in so many milliseconds is slower than `body_rate`. A body that has had no
    /// more than `body_timeout` is not.
    pub const fn is_too_slow(&self, received: u64, elapsed: u64) -> bool {
        elapsed > self.body_timeout && received.saturating_mul(1000) < self.body_rate.saturating_mul(elapsed)
    }
}

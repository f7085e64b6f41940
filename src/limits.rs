//! The settings that limit connections, requests and calls, each named as in the configuration.
//!
//! Has no defaults: Python declares every setting.

/// Times are milliseconds, sizes are bytes. 0 means "no limit" if the comment says so.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
pub struct Limits {
    /// Longest wait of a connection between two requests.
    pub keepalive_timeout: u64,
    /// From the first byte of a head to its blank line.
    pub head_timeout: u64,
    /// Longest silence inside a request body.
    pub body_timeout: u64,
    /// Slowest average rate of a request body, in bytes per second; 0: no limit.
    pub body_rate: u64,
    /// Longest time that the application may work without giving a byte; 0: no limit.
    pub request_timeout: u64,
    /// After this time without a byte of the application its request is logged, while it still runs; 0: never.
    pub slow_request: u64,
    /// Longest wait for a client to take a byte of its answer.
    pub write_timeout: u64,
    /// How long a refused client may still send before the connection is cut.
    pub linger_timeout: u64,
    /// How long a stop waits for the requests in flight.
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
    /// Most connections of one process; fewer if the process may not open that many descriptors.
    pub max_connections: usize,
    /// Most connections of one client address; 0: no limit.
    pub max_connections_per_address: usize,
    /// Number of answers after which this worker asks the supervisor to replace it.
    pub max_requests: u64,
    /// The supervisor wants to know the load, by which it starts and ends workers.
    pub tells_load: bool,
    /// Other processes accept from the same listeners.
    pub has_neighbours: bool,
}

impl Limits {
    /// Whether a body is slower than `body_rate`: `received` bytes have come in `elapsed` ms. A body has `body_timeout`
    /// to get going.
    pub const fn is_too_slow(&self, received: u64, elapsed: u64) -> bool {
        elapsed > self.body_timeout && received.saturating_mul(1000) < self.body_rate.saturating_mul(elapsed)
    }
}

//! What a server would see of bytes: the requests, and the refusal that ends them.

#![allow(missing_docs)]

use std::collections::BTreeSet;

use _engine::http::head::Version;
use _engine::http::protocol::{Inbound, Step};
use _engine::limits::Limits;
use serde_json::{Value, json};

/// The defaults; nothing here knows a clock.
pub fn limits() -> Limits {
    Limits {
        keepalive_timeout: 0,
        head_timeout: 0,
        body_timeout: 0,
        body_rate: 0,
        request_timeout: 0,
        slow_request: 0,
        write_timeout: 0,
        linger_timeout: 0,
        graceful_timeout: 0,
        max_request_line: 8 * 1024,
        max_head: 128 * 1024,
        max_fields: 200,
        max_body: 64 * 1024 * 1024,
        body_memory: 256 * 1024,
        max_connections: 100,
        max_connections_per_address: 100,
        max_requests: u64::MAX,
        tells_load: false,
        has_neighbours: false,
    }
}

/// What a server would see: the requests until one ends the connection, and the status of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub requests: Vec<Value>,
    pub refused: Option<u16>,
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn facts(inbound: &mut Inbound<Vec<u8>>) -> Value {
    let (head, bytes, body) = inbound.request();
    let fields: Vec<_> =
        head.fields.iter().map(|field| json!([latin1(field.name.of(bytes)), latin1(field.value.of(bytes))])).collect();
    json!({
        "method": latin1(head.method.of(bytes)),
        "target": latin1(head.target.of(bytes)),
        "query": latin1(head.query.of(bytes)),
        "version": if head.version == Version::Http11 { "1.1" } else { "1.0" },
        "fields": fields,
        "body": latin1(body),
        "persistent": head.persistent,
        "host": head.host.map(|host| latin1(host.of(bytes))),
        "answered_by_server": head.asterisk,
    })
}

/// Feed `pieces`, one read each, to a connection with the default limits.
pub fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let limits = limits();
    let mut inbound = Inbound::<Vec<u8>>::default();
    let mut seen = Seen { requests: Vec::new(), refused: None };
    for piece in pieces {
        inbound.buffer().extend_from_slice(piece);
        loop {
            match inbound.advance(&limits) {
                Ok(Step::More) => break,
                Ok(Step::Continue) => {}
                Ok(Step::Whole) => {
                    let persistent = inbound.head().persistent;
                    seen.requests.push(facts(&mut inbound));
                    if !persistent {
                        return seen;
                    }
                    inbound.next_request();
                }
                Err(reject) => {
                    seen.refused = Some(reject.status);
                    return seen;
                }
            }
        }
    }
    seen
}

/// Where limits end: of a chunk line, a request line, all extensions or trailers of a body, a head.
const ENDS: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 128 << 10];
const NEAR: usize = 1;

/// Where bytes are cut in two: everywhere, where that takes no more than `budget` bytes to be read in all. Longer ones
/// are cut near each CR and LF, near each limit counted from their start and from that of a line, and evenly between.
pub fn cuts(bytes: &[u8], budget: usize) -> BTreeSet<usize> {
    let stride = bytes.len().pow(2) / budget + 1;
    let mut cuts: BTreeSet<_> = (1..bytes.len()).step_by(stride).collect();
    if stride > 1 {
        let mut near = |place: usize| cuts.extend(place.saturating_sub(NEAR)..=place + NEAR + 1);
        let mut start = 0;
        for (place, byte) in bytes.iter().enumerate() {
            if matches!(byte, b'\r' | b'\n') || ENDS.contains(&place) || ENDS.contains(&(place - start)) {
                near(place);
            }
            if *byte == b'\n' {
                start = place + 1;
            }
        }
        cuts.retain(|cut| (1..bytes.len()).contains(cut));
    }
    cuts
}

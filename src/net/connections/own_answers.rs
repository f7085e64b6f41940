//! The answers that the server gives itself: refusals, failures, its health, `OPTIONS *`.
//!
//! They are counted and logged here. The connection sends them; only those that end a connection are sent from here.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::outbox::Outbox;
use super::transport::Transport;
use crate::http::own_fields::OwnFields;
use crate::http::reject::Reject;
use crate::http::response::{Asked, ResponseHead};
use crate::net::clock;
use crate::net::handler::{Done, Handler};
use crate::net::proxies::peer::Peer;
use crate::net::shared::Shared;

/// Refuse a request; `line` is its method and target, if they are known.
pub fn refuse<H: Handler>(
    shared: &Shared<H>,
    reject: Reject,
    is_head: bool,
    peer: &Peer,
    line: Option<String>,
    outbox: &mut Outbox,
) -> Done {
    count_refusal(shared, reject.status);
    let line = line.map_or_else(String::new, |line| format!(" ({line})"));
    let (level, cause) = match reject.errno {
        0 => ('I', String::new()),
        errno => ('E', format!(": {}", std::io::Error::from_raw_os_error(errno))),
    };
    let text = format!("{} {}: {}{cause}{line}", reject.status, reject.reason(), reject.why);
    shared.handler.report(level, peer.client(), &text);
    page(shared, reject, is_head, peer.answered_id(&shared.proxies), outbox)
}

/// Answer 503 to a connection that gets no place, and close it without lingering, which would need a place.
pub fn refuse_connection<H: Handler>(
    shared: &Shared<H>,
    transport: &Transport,
    peer: Option<SocketAddr>,
    is_logged: bool,
) {
    count_refusal(shared, 503);
    if is_logged {
        let text = "more connections of this address than max_connections_per_address; they are answered 503";
        shared.handler.report('W', peer, text);
    }
    let mut outbox = Outbox::default();
    page(shared, Reject::TOO_MANY_CONNECTIONS, false, "", &mut outbox);
    send_last(&mut outbox, transport);
}

/// Answer 503 to a request that no thread will serve, without the interpreter, which a thread may keep for ever.
pub fn unserved<H: Handler>(shared: &Shared<H>, transport: &Transport, is_head: bool) {
    count_refusal(shared, 503);
    let mut outbox = Outbox::default();
    let asked = Asked { is_head, ..Asked::default() };
    text(shared, (503, b"503 Service Unavailable", b"not served\n"), asked, "", &mut outbox);
    send_last(&mut outbox, transport);
}

/// Log why a connection is closed that does not begin with a header of the PROXY protocol.
pub fn lacks_proxy_header<H: Handler>(shared: &Shared<H>, fault: &str, peer: Option<SocketAddr>) {
    shared.row.counts.cut.fetch_add(1, Ordering::Relaxed);
    let text = format!("connection closed before the header of the PROXY protocol: {fault}");
    shared.handler.report('I', peer, &text);
}

/// Answer 500 if the application gave no answer at all.
pub fn fail<H: Handler>(shared: &Shared<H>, peer: &Peer, outbox: &mut Outbox) {
    page(shared, Reject::UNANSWERED, false, peer.answered_id(&shared.proxies), outbox);
}

/// `OPTIONS *` asks the server, not the application (RFC 9110 9.3.7).
pub fn asterisk<H: Handler>(shared: &Shared<H>, asked: Asked, peer: &Peer, outbox: &mut Outbox) -> Done {
    let persistent = match ResponseHead::begin(&mut outbox.bytes, b"204 No Content") {
        Ok(mut head) => {
            head.id(&mut outbox.bytes, peer.answered_id(&shared.proxies));
            finish_head(shared, &head, asked, 0, outbox)
        }
        Err(_) => false,
    };
    Done { status: 204, length: 0, persistent }
}

/// Answer a health check: 503 while the server stops, makes way for a successor, or has no thread left.
pub fn health<H: Handler>(shared: &Shared<H>, asked: Asked, peer: &Peer, outbox: &mut Outbox) -> Done {
    let answer: (u16, &[u8], &[u8]) = if shared.process.is_leaving() {
        (503, b"503 Service Unavailable", b"leaving\n")
    } else if shared.row.is_stuck() {
        (503, b"503 Service Unavailable", b"stuck\n")
    } else {
        (200, b"200 OK", b"serving\n")
    };
    text(shared, answer, asked, peer.answered_id(&shared.proxies), outbox)
}

fn count_refusal<H: Handler>(shared: &Shared<H>, status: u16) {
    shared.row.counts.note_status(status);
    shared.row.counts.refused.fetch_add(1, Ordering::Relaxed);
}

/// Send an answer and the end of a connection; a client that takes only a part of it loses the rest.
fn send_last(outbox: &mut Outbox, transport: &Transport) {
    let _ = outbox.flush(transport);
    transport.finish();
}

fn text<H: Handler>(
    shared: &Shared<H>,
    (status, line, body): (u16, &[u8], &[u8]),
    asked: Asked,
    id: &str,
    outbox: &mut Outbox,
) -> Done {
    let Ok(mut head) = ResponseHead::begin(&mut outbox.bytes, line) else {
        return Done { status: 500, length: 0, persistent: false };
    };
    for (name, value) in [("Content-Type", "text/plain"), ("Cache-Control", "no-store")] {
        // A constant field cannot be refused.
        let _ = head.field(&mut outbox.bytes, name.as_bytes(), value.as_bytes());
    }
    head.id(&mut outbox.bytes, id);
    let persistent = finish_head(shared, &head, asked, body.len(), outbox);
    Done { status, length: add_body(body, asked.is_head, outbox), persistent }
}

/// Answer with the page of an error. `id` is that of the request; empty for none.
fn page<H: Handler>(shared: &Shared<H>, reject: Reject, is_head: bool, id: &str, outbox: &mut Outbox) -> Done {
    let page = shared.handler.page(reject.status, reject.reason(), reject.why);
    let line = format!("{} {}", reject.status, reject.reason());
    let done = Done { status: reject.status, length: 0, persistent: false };
    let Ok(mut head) = ResponseHead::begin(&mut outbox.bytes, line.as_bytes()) else { return done };
    // A constant field cannot be refused.
    let _ = head.field(&mut outbox.bytes, b"Content-Type", b"text/html; charset=utf-8");
    head.id(&mut outbox.bytes, id);
    let asked = Asked { is_head, persistent: false, ..Asked::default() };
    finish_head(shared, &head, asked, page.len(), outbox);
    Done { length: add_body(&page, is_head, outbox), ..done }
}

/// Returns whether the connection is kept.
fn finish_head<H: Handler>(
    shared: &Shared<H>,
    head: &ResponseHead,
    asked: Asked,
    length: usize,
    outbox: &mut Outbox,
) -> bool {
    let mut own = OwnFields::new(shared.handler.server_header());
    head.finish(&mut outbox.bytes, asked, Some(length as u64), own.at(clock::unix_second())).1
}

/// Returns the number of bytes that are sent.
fn add_body(body: &[u8], is_head: bool, outbox: &mut Outbox) -> u64 {
    if is_head {
        return 0;
    }
    outbox.bytes.extend_from_slice(body);
    body.len() as u64
}

//! Who is at the other end of a connection, as far as it is known and believed.
//!
//! The socket tells an address. A front server that is trusted tells whose connection it is (the PROXY protocol) and
//! whose request (its fields, read anew for each). Where the settings ask for none of that nothing is kept of it.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::front::Fronts;
use super::proxy_protocol::{Fault, Source, read};
use crate::http::forwarded::{Client, Origin, Passing};
use crate::http::head::{Field, RequestHead};
use crate::http::reject::Reject;
use crate::net::clock;

/// The longest request id that is taken from a front server.
const LONGEST_ID: usize = 128;

/// Makes request ids: 128 bits in hexadecimal digits, never twice the same.
#[derive(Debug, Default)]
pub struct RequestIds {
    state: RandomState,
    count: AtomicU64,
}

impl RequestIds {
    fn make(&self) -> String {
        // A forked process may have the random state of its sibling, but neither its number nor its time.
        let seed = (self.count.fetch_add(1, Ordering::Relaxed), std::process::id(), clock::unix_second(), clock::now());
        format!("{:016x}{:016x}", self.state.hash_one(seed), self.state.hash_one((seed, 1)))
    }
}

/// The one X-Request-ID of a head, if it is short and plain enough to stand in any log.
fn taken_id<'a>(head: &RequestHead, bytes: &'a [u8]) -> Option<&'a str> {
    let is_it = |field: &&Field| field.name.of(bytes).eq_ignore_ascii_case(b"x-request-id");
    let mut fields = head.fields.iter().filter(is_it);
    let value = fields.next().filter(|_| fields.next().is_none())?.value.of(bytes);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(byte);
    let fits = (1..=LONGEST_ID).contains(&value.len()) && value.iter().all(is_plain);
    std::str::from_utf8(value).ok().filter(|_| fits)
}

/// Whether a field shows that a front server passed the request on.
fn is_of_front(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"x-forwarded-";
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX)) || is_of_client(name)
}

/// Whether it tells whose request it passed on, or that another one passed it on before.
fn is_of_client(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-real-ip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"cf-connecting-ip",
        b"true-client-ip",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The peer of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its address; none on a unix socket.
    pub address: Option<SocketAddr>,
    /// It is a front server that is trusted.
    pub is_trusted: bool,
    /// Which of its fields about who asks reach the application.
    pub passing: Passing,
    told: Option<Box<Told>>,
}

/// What was told of a connection and of its present request.
#[derive(Debug)]
pub struct Told {
    /// The header of the PROXY protocol is still to come.
    is_awaited: bool,
    /// Whose connection it is.
    source: Option<SocketAddr>,
    /// Its fields are believed.
    is_heard: bool,
    /// The fields of the present request were read.
    is_read: bool,
    /// Whose connection it is was not told.
    is_hidden: bool,
    /// Whose request it is; none: it has no address.
    client: Option<SocketAddr>,
    /// What else the request's fields say.
    pub origin: Origin,
    /// The id of the request; empty where requests have none.
    pub id: String,
}

impl Peer {
    /// That of a connection which was just accepted.
    pub fn new(address: Option<SocketAddr>, fronts: &Fronts) -> Self {
        let is_trusted = fronts.trust(address);
        let is_read = is_trusted && (!fronts.forwarded.is_empty() || fronts.proxy_protocol);
        let told = (is_read || fronts.request_ids.is_some()).then(|| {
            Box::new(Told {
                is_awaited: fronts.proxy_protocol,
                source: address,
                is_heard: is_trusted,
                is_read: false,
                is_hidden: false,
                client: address,
                origin: Origin::default(),
                id: String::new(),
            })
        });
        Self { address, is_trusted, passing: fronts.passing(is_trusted), told }
    }

    /// What was told of it, if anything may be.
    pub fn told(&self) -> Option<&Told> {
        self.told.as_deref()
    }

    /// Whose request it is, or whose connection where there is none; none: it has no address. Port 0 is an unknown one.
    pub fn client(&self) -> Option<SocketAddr> {
        self.told.as_ref().map_or(self.address, |told| told.client)
    }

    /// Whether a request comes from this machine, or from where front servers are trusted: not by way of one that tells
    /// of its client in fields which the settings do not name, for it would be taken for the client; nor where such
    /// fields tell of somebody else behind the client whom the others name.
    pub fn is_near(&self, head: &RequestHead, bytes: &[u8], fronts: &Fronts) -> bool {
        let is_told = self.told.as_ref().is_some_and(|told| told.origin.client != Client::Peer);
        let shows_another = |field: &Field| match field.name.of(bytes) {
            name if is_told => is_of_client(name) && !fronts.forwarded.has(name),
            name => is_of_front(name),
        };
        if head.fields.iter().any(shows_another) {
            return false;
        }
        match (self.client(), &self.told) {
            (Some(client), _) => client.ip().to_canonical().is_loopback() || fronts.trusted.hold(client.ip()),
            // A unix socket has no address, and neither has a client of whom a front server tells none.
            (None, Some(told)) => self.address.is_none() && !is_told && !told.is_hidden,
            (None, None) => true,
        }
    }

    /// Whose place the connection takes; none where that is not counted, for everybody comes through a front server.
    pub fn counted(&self) -> Option<SocketAddr> {
        self.address.filter(|_| !self.is_trusted)
    }

    /// Whether the connection begins with a header of the PROXY protocol that is still to come.
    pub fn is_awaited(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.is_awaited)
    }

    /// Read that header at the beginning of `bytes`, where it is removed. Returns whether it was there.
    pub fn introduce(&mut self, bytes: &mut Vec<u8>, longest: usize, fronts: &Fronts) -> Result<bool, Fault> {
        let Some(told) = &mut self.told else { return Ok(true) };
        let Some(header) = read(bytes, longest)? else { return Ok(false) };
        bytes.drain(..header.length);
        told.is_awaited = false;
        match header.source {
            Source::Peer => {}
            Source::Unknown => (told.source, told.is_heard, told.is_hidden) = (None, false, true),
            Source::Address(address) => (told.source, told.is_heard) = (Some(address), fronts.trust(Some(address))),
        }
        told.forget();
        self.passing = fronts.passing(told.is_heard);
        Ok(true)
    }

    /// Learn from the fields of a request whose it is; called again for the same one, do nothing.
    pub fn hear(&mut self, head: &RequestHead, bytes: &[u8], fronts: &Fronts) -> Result<(), Reject> {
        self.told.as_mut().map_or(Ok(()), |told| told.hear(head, bytes, fronts))
    }

    /// Let a request that is refused have an id, like any other: `head` may be the begin of one.
    pub fn identify(&mut self, head: &RequestHead, bytes: &[u8], fronts: &Fronts) {
        if let Some(told) = &mut self.told {
            told.identify(head, bytes, fronts);
        }
    }

    /// The id of the request; empty for none.
    pub fn id(&self) -> &str {
        self.told.as_ref().map_or("", |told| &told.id)
    }

    /// The id of the request, where that is to be answered; else empty.
    pub fn answered_id(&self, fronts: &Fronts) -> &str {
        if fronts.answers_id { self.id() } else { "" }
    }

    /// The request is over: nothing is known of the next one.
    pub fn forget(&mut self) {
        if let Some(told) = &mut self.told {
            told.forget();
        }
    }
}

impl Told {
    fn hear(&mut self, head: &RequestHead, bytes: &[u8], fronts: &Fronts) -> Result<(), Reject> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(());
        }
        self.identify(head, bytes, fronts);
        if self.is_heard && !fronts.forwarded.is_empty() {
            self.origin = Origin::read(head, bytes, fronts.forwarded, |address| fronts.trusted.hold(address))?;
            self.client = match self.origin.client {
                Client::Peer => self.source,
                Client::Unknown => None,
                Client::Address(address, port) => Some(SocketAddr::new(address, port)),
            };
        }
        Ok(())
    }

    fn identify(&mut self, head: &RequestHead, bytes: &[u8], fronts: &Fronts) {
        if let Some(ids) = fronts.request_ids.as_ref().filter(|_| self.id.is_empty()) {
            match taken_id(head, bytes).filter(|_| self.is_heard) {
                Some(id) => id.clone_into(&mut self.id),
                None => self.id = ids.make(),
            }
        }
    }

    fn forget(&mut self) {
        self.is_read = false;
        self.client = self.source;
        self.origin = Origin::default();
        self.id.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_requests_have_the_same_id() {
        let ids = RequestIds::default();
        let made: std::collections::HashSet<String> = (0..10_000).map(|_| ids.make()).collect();
        assert_eq!(made.len(), 10_000);
        assert!(made.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }
}

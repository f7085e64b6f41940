//! Front servers: which peers are trusted, and what they tell of their clients.
//!
//! [`Fronts`] is what the settings say, the same for the whole server; [`Told`] is what one connection was told, by the
//! PROXY protocol for all its requests and by fields for each. A server without such settings keeps no [`Told`].

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use super::clock;
use super::proxy_protocol::Source;
use crate::http::forwarded::{Client, Fields, Origin, Passing};
use crate::http::head::RequestHead;
use crate::http::reject::Reject;

/// Addresses of peers.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    networks: Vec<(IpAddr, u8)>,
    has_unix: bool,
}

impl Networks {
    /// Of texts such as `10.0.0.0/8`, `::1` and `unix`; none if one of them is something else.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut new = Self::default();
        for text in texts {
            if text == "unix" {
                new.has_unix = true;
                continue;
            }
            let (address, length) = text.split_once('/').map_or((text, None), |(start, end)| (start, Some(end)));
            let address: IpAddr = address.parse().ok()?;
            let most = bits(address).1;
            let length = length.map_or(Some(most), |length| length.parse().ok())?;
            new.networks.push((address, length));
            if length > most {
                return None;
            }
        }
        Some(new)
    }

    /// Whether `address` is in one of them.
    pub fn hold(&self, address: IpAddr) -> bool {
        let (address, size) = bits(address.to_canonical());
        self.networks.iter().any(|&(network, length)| {
            let (network, network_size) = bits(network);
            // Shifting by all bits is shifting twice: a network of length 0 holds every address of its family.
            let rest = u32::from(size - length.min(size));
            network_size == size && (address ^ network).checked_shr(rest).unwrap_or(0) == 0
        })
    }
}

/// An address as a number, and its size in bits.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// What the settings say of front servers.
#[derive(Debug, Default)]
pub struct Fronts {
    /// `trusted_proxies`.
    pub trusted: Networks,
    /// `forwarded`.
    pub forwarded: Fields,
    /// `proxy_protocol`.
    pub proxy_protocol: bool,
    /// `request_id`: each request has one.
    pub request_ids: Option<RequestIds>,
    /// `health`: the path on which the server itself answers; empty for none.
    pub health: Vec<u8>,
    /// It does so also while all threads are in the application. Not where other processes serve the same clients: who
    /// is accepted here could not be served there, where there may be room.
    pub has_caretaker: bool,
}

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
    let is_it = |field: &&crate::http::head::Field| field.name.of(bytes).eq_ignore_ascii_case(b"x-request-id");
    let mut fields = head.fields.iter().filter(is_it);
    let value = fields.next().filter(|_| fields.next().is_none())?.value.of(bytes);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(byte);
    let fits = (1..=LONGEST_ID).contains(&value.len()) && value.iter().all(is_plain);
    std::str::from_utf8(value).ok().filter(|_| fits)
}

impl Fronts {
    /// Whether to believe `peer`; none is one on a unix socket.
    pub fn trust(&self, peer: Option<SocketAddr>) -> bool {
        peer.map_or(self.trusted.has_unix, |peer| self.trusted.hold(peer.ip()))
    }

    /// Which fields of a peer pass.
    pub fn passing(&self, is_trusted: bool) -> Passing {
        match is_trusted {
            false => Passing::None,
            true if self.forwarded.is_empty() => Passing::All,
            true => Passing::Only(self.forwarded),
        }
    }

    /// What will be told of a connection of `peer`; none: nothing.
    pub fn told(&self, peer: Option<SocketAddr>, is_trusted: bool) -> Option<Box<Told>> {
        let is_read = is_trusted && (!self.forwarded.is_empty() || self.proxy_protocol);
        (is_read || self.request_ids.is_some()).then(|| {
            Box::new(Told {
                is_awaited: self.proxy_protocol,
                source: peer,
                is_heard: is_trusted,
                client: peer,
                origin: Origin::default(),
                id: String::new(),
            })
        })
    }
}

/// What was told of one connection and of its present request.
#[derive(Debug)]
pub struct Told {
    /// The header of the PROXY protocol is still to come.
    pub is_awaited: bool,
    /// Whose connection it is.
    source: Option<SocketAddr>,
    /// Its fields are believed.
    is_heard: bool,
    /// Whose request it is; none: it has no address.
    pub client: Option<SocketAddr>,
    /// What else the request's fields say.
    pub origin: Origin,
    /// The id of the request; empty where requests have none.
    pub id: String,
}

impl Told {
    /// The header of the PROXY protocol came: from now on the connection is that of `source`. Returns which of its
    /// fields pass.
    pub fn introduce(&mut self, source: Source, fronts: &Fronts) -> Passing {
        self.is_awaited = false;
        match source {
            Source::Peer => return fronts.passing(true),
            Source::Unknown => {
                self.source = None;
                self.is_heard = false;
            }
            Source::Address(address) => {
                self.source = Some(address);
                self.is_heard = fronts.trust(self.source);
            }
        }
        self.client = self.source;
        fronts.passing(self.is_heard)
    }

    /// Learn who asks from the fields of a request.
    pub fn hear(&mut self, head: &RequestHead, bytes: &[u8], fronts: &Fronts) -> Result<(), Reject> {
        self.client = self.source;
        self.origin = Origin::default();
        if let Some(ids) = &fronts.request_ids {
            self.id.clear();
            match taken_id(head, bytes).filter(|_| self.is_heard) {
                Some(id) => self.id.push_str(id),
                None => self.id = ids.make(),
            }
        }
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

    #[test]
    fn networks() {
        let networks =
            Networks::parse(["127.0.0.0/8", "::1", "192.0.2.7", "2001:db8::/33", "198.51.100.0/31"]).unwrap();
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.255.255.255", true),
            ("128.0.0.1", false),
            ("::1", true),
            ("::2", false),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.1", false),
            ("192.0.2.7", true),
            ("192.0.2.6", false),
            ("2001:db8:7fff::1", true),
            ("2001:db8:8000::1", false),
            ("198.51.100.1", true),
            ("198.51.100.2", false),
        ] {
            assert_eq!(networks.hold(address.parse().unwrap()), expected, "{address}");
        }
        let all = Networks::parse(["0.0.0.0/0"]).unwrap();
        assert!(all.hold("203.0.113.1".parse().unwrap()) && !all.hold("::1".parse().unwrap()));
        assert!(Networks::parse(["::/0"]).unwrap().hold("2001::".parse().unwrap()));
        for bad in ["", "localhost", "127.0.0.1/33", "::/129", "1.2.3.4/", "1.2.3.4/x"] {
            assert!(Networks::parse([bad]).is_none(), "{bad}");
        }
    }

    #[test]
    fn nobody_is_trusted_unless_named() {
        let mut fronts = Fronts::default();
        assert!(!fronts.trust(None) && !fronts.trust("127.0.0.1:1".parse().ok()));
        fronts.trusted = Networks::parse(["unix"]).unwrap();
        assert!(fronts.trust(None) && !fronts.trust("127.0.0.1:1".parse().ok()));
    }
}

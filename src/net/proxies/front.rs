//! What the settings say of front servers, the same for the whole server: which peers are trusted, by what they tell of
//! their clients, and where they ask for its health. What one of them tells is kept by [`super::peer`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::peer::{Peer, RequestIds};
use crate::http::forwarded::{Fields, Passing};
use crate::http::head::RequestHead;

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
    /// It is told to the client.
    pub answers_id: bool,
    /// `status_path`: the path on which the server tells those who may know what it does; empty for none.
    pub status_path: Vec<u8>,
    /// The names on which the server listens, where `bind` has names and not addresses.
    pub names: Vec<String>,
    /// `control_socket`: the listener on which it tells nothing else, and everybody.
    pub status_listener: Option<usize>,
    /// `health`: the path on which the server itself answers; empty for none.
    pub health: Vec<u8>,
    /// It does so also while all threads are in the application. Not where other processes serve the same clients: who
    /// is accepted here could not be served there, where there may be room.
    pub has_caretaker: bool,
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

    /// Whether a request asks for the health of this server.
    pub fn is_health(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        !self.health.is_empty() && head.path.of(bytes) == self.health && asks_health(head.method.of(bytes))
    }

    /// Whether these bytes may be the begin of such a request.
    pub fn begins_health(&self, bytes: &[u8]) -> bool {
        let mut words = bytes.splitn(3, |&byte| byte == b' ');
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        let is_path = target.starts_with(&self.health) && matches!(target.get(self.health.len()), None | Some(b'?'));
        let may_be_path = words.next().is_none() && self.health.starts_with(target);
        method.is_some_and(asks_health) && (is_path || may_be_path)
    }
}

/// Whether a load balancer may ask with this method: OPTIONS is what HAProxy uses unless it is told another one.
fn asks_health(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS")
}

impl Fronts {
    /// Whether a listener is for those who want to know what this server does.
    pub fn is_own(&self, listener: usize) -> bool {
        self.status_listener == Some(listener)
    }

    /// Whether a request asks what this server does, from somebody who may know. To all others there is no such path.
    #[inline]
    pub fn is_status(&self, head: &RequestHead, bytes: &[u8], peer: &Peer, listener: usize) -> bool {
        self.is_own(listener) || (!self.status_path.is_empty() && self.may_see(head, bytes, peer))
    }

    #[cold]
    fn may_see(&self, head: &RequestHead, bytes: &[u8], peer: &Peer) -> bool {
        matches!(head.path.of(bytes).strip_prefix(self.status_path.as_slice()), Some(b"" | b"/metrics"))
            && matches!(head.method.of(bytes), b"GET" | b"HEAD")
            && head.host.is_none_or(|host| self.is_named(host.of(bytes)))
            && peer.told().and_then(|told| told.origin.host.as_deref()).is_none_or(|host| self.is_named(host))
            && peer.is_near(head, bytes, self)
    }

    /// Whether a Host is an address, `localhost`, or a name on which the server listens. Any other may be a web page's
    /// own, whose owner lets it lead here (DNS rebinding), so that a browser on this machine reads the answer for him.
    fn is_named(&self, host: &[u8]) -> bool {
        if host.starts_with(b"[") {
            return true;
        }
        let name = host.split(|&byte| byte == b':').next().unwrap_or_default();
        let Ok(name) = std::str::from_utf8(name.strip_suffix(b".").unwrap_or(name)) else { return false };
        let name = name.to_ascii_lowercase();
        name.parse::<Ipv4Addr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || (!name.is_empty() && self.names.iter().any(|known| known.eq_ignore_ascii_case(&name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_begin_of_a_question_for_health() {
        let fronts = Fronts { health: b"/health".to_vec(), ..Fronts::default() };
        for bytes in
            ["GET /health HTTP/1.1\r\n", "HEAD /health?q=1 HTTP/1.1", "OPTIONS /health", "GET /hea", "GET /health?"]
        {
            assert!(fronts.begins_health(bytes.as_bytes()), "{bytes}");
        }
        for bytes in ["GET / HTTP/1.1", "POST /health HTTP/1.1", "GET /healthy HTTP/1.1", "GET /q?/health HTTP/1.1"] {
            assert!(!fronts.begins_health(bytes.as_bytes()), "{bytes}");
        }
    }

    #[test]
    fn names_that_no_web_page_can_have() {
        let fronts = Fronts { names: vec!["Front.example".to_owned()], ..Fronts::default() };
        for host in ["127.0.0.1", "192.0.2.1:80", "[::1]", "[::1]:1", "LOCALHOST:8", "localhost.", "a.localhost"] {
            assert!(fronts.is_named(host.as_bytes()), "{host}");
        }
        assert!(fronts.is_named(b"front.EXAMPLE:8080"));
        for host in ["", ":80", "example", "localhost.example", "127.0.0.1.example", "1.2.3", "xlocalhost", "\u{e9}"] {
            assert!(!fronts.is_named(host.as_bytes()), "{host}");
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

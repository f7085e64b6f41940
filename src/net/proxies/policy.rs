//! What the settings say about reverse proxies, load balancers and monitoring: which peers are trusted, which of their
//! fields are read, and on which paths the server itself answers. Is constant while the server runs; what a proxy says about one
//! connection is kept by [`super::peer`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::request_id::RequestIds;
use crate::http::forwarded::{Fields, Passing};
use crate::http::head::RequestHead;

/// A set of peer addresses.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    networks: Vec<(IpAddr, u8)>,
    has_unix: bool,
}

impl Networks {
    /// Read texts such as `10.0.0.0/8`, `::1` and `unix`; none if one of them is something else.
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

    /// Whether `address` is in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (address, size) = bits(address.to_canonical());
        self.networks.iter().any(|&(network, length)| {
            let (network, network_size) = bits(network);
            // A shift by all bits would overflow: a network of length 0 contains every address of its family.
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

/// Settings about reverse proxies, load balancers and monitoring.
#[derive(Debug, Default)]
pub struct ProxyPolicy {
    /// `trusted_proxies`.
    pub trusted: Networks,
    /// `forwarded`.
    pub forwarded: Fields,
    /// `proxy_protocol`.
    pub proxy_protocol: bool,
    /// `request_id`: gives each request an id.
    pub request_ids: Option<RequestIds>,
    /// Whether the answer carries that id.
    pub answers_id: bool,
    /// `status_path`: path of the status page; empty for none.
    pub status_path: Vec<u8>,
    /// The host names in `bind`, as opposed to addresses.
    pub names: Vec<String>,
    /// `control_socket`: number of the listener that answers every request with the status.
    pub status_listener: Option<usize>,
    /// `health`: path of the health check; empty for none.
    pub health: Vec<u8>,
    /// Whether a thread of its own answers health checks while all others are in the application. Not with several
    /// processes: a client that this thread accepts could not be served by another process, which may have a free thread.
    pub has_health_thread: bool,
}

impl ProxyPolicy {
    /// Whether `peer` is trusted; none is a peer on a unix socket.
    pub fn trust(&self, peer: Option<SocketAddr>) -> bool {
        peer.map_or(self.trusted.has_unix, |peer| self.trusted.contains(peer.ip()))
    }

    /// Which fields about the client reach the application.
    pub fn passing(&self, is_trusted: bool) -> Passing {
        match is_trusted {
            false => Passing::None,
            true if self.forwarded.is_empty() => Passing::All,
            true => Passing::Only(self.forwarded),
        }
    }

    /// Whether a request is a health check.
    pub fn is_health(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        !self.health.is_empty() && head.path.of(bytes) == self.health && asks_health(head.method.of(bytes))
    }

    /// Whether these bytes may be the beginning of a health check.
    pub fn begins_health(&self, bytes: &[u8]) -> bool {
        let mut words = bytes.splitn(3, |&byte| byte == b' ');
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        let is_path = target.starts_with(&self.health) && matches!(target.get(self.health.len()), None | Some(b'?'));
        let may_be_path = words.next().is_none() && self.health.starts_with(target);
        method.is_some_and(asks_health) && (is_path || may_be_path)
    }

    /// Whether a listener is the control socket.
    pub fn is_control(&self, listener: usize) -> bool {
        self.status_listener == Some(listener)
    }

    /// Whether a request asks for the status page under a safe name of this server; see [`ProxyPolicy::is_named`].
    #[cold]
    pub fn asks_status(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        matches!(head.path.of(bytes).strip_prefix(self.status_path.as_slice()), Some(b"" | b"/metrics"))
            && matches!(head.method.of(bytes), b"GET" | b"HEAD")
            && head.host.is_none_or(|host| self.is_named(host.of(bytes)))
    }

    /// Whether a Host is an address, `localhost`, or a name on which the server listens. Any other name may belong to the
    /// owner of a web page, who points it at this machine (DNS rebinding) to read the answer through a browser here.
    pub fn is_named(&self, host: &[u8]) -> bool {
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

/// Whether a health check may use this method: OPTIONS is HAProxy's default.
fn asks_health(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS")
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
            assert_eq!(networks.contains(address.parse().unwrap()), expected, "{address}");
        }
        let all = Networks::parse(["0.0.0.0/0"]).unwrap();
        assert!(all.contains("203.0.113.1".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        assert!(Networks::parse(["::/0"]).unwrap().contains("2001::".parse().unwrap()));
        for bad in ["", "localhost", "127.0.0.1/33", "::/129", "1.2.3.4/", "1.2.3.4/x"] {
            assert!(Networks::parse([bad]).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_beginning_of_a_health_check() {
        let proxies = ProxyPolicy { health: b"/health".to_vec(), ..ProxyPolicy::default() };
        for bytes in
            ["GET /health HTTP/1.1\r\n", "HEAD /health?q=1 HTTP/1.1", "OPTIONS /health", "GET /hea", "GET /health?"]
        {
            assert!(proxies.begins_health(bytes.as_bytes()), "{bytes}");
        }
        for bytes in ["GET / HTTP/1.1", "POST /health HTTP/1.1", "GET /healthy HTTP/1.1", "GET /q?/health HTTP/1.1"] {
            assert!(!proxies.begins_health(bytes.as_bytes()), "{bytes}");
        }
    }

    #[test]
    fn names_that_cannot_belong_to_a_web_page() {
        let proxies = ProxyPolicy { names: vec!["Front.example".to_owned()], ..ProxyPolicy::default() };
        for host in ["127.0.0.1", "192.0.2.1:80", "[::1]", "[::1]:1", "LOCALHOST:8", "localhost.", "a.localhost"] {
            assert!(proxies.is_named(host.as_bytes()), "{host}");
        }
        assert!(proxies.is_named(b"front.EXAMPLE:8080"));
        for host in ["", ":80", "example", "localhost.example", "127.0.0.1.example", "1.2.3", "xlocalhost", "\u{e9}"] {
            assert!(!proxies.is_named(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn nobody_is_trusted_unless_named() {
        let mut proxies = ProxyPolicy::default();
        assert!(!proxies.trust(None) && !proxies.trust("127.0.0.1:1".parse().ok()));
        proxies.trusted = Networks::parse(["unix"]).unwrap();
        assert!(proxies.trust(None) && !proxies.trust("127.0.0.1:1".parse().ok()));
    }
}

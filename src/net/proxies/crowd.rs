//! How many connections each client address has, so that no one client takes all places.
//!
//! A loopback address has no limit, nor a unix socket: there it is a proxy, through which everybody comes. So has one
//! that is trusted: the caller tells no address of it. Of IPv6 the
//! first 64 bits count, because a client has all the rest (RFC 4291 2.5.4). Holds an entry only while a connection does.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// What entering gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It has a place.
    Yes,
    /// The limit is reached, for the first time since there were half as many.
    Full,
    /// The limit is reached still.
    StillFull,
}

#[derive(Debug, Default)]
struct Client {
    connections: usize,
    told: bool,
}

/// The clients of one process.
#[derive(Debug, Default)]
pub struct Crowd(HashMap<IpAddr, Client>);

impl Crowd {
    /// A connection of `peer` comes; 0 is no limit. One that got no place must not leave.
    pub fn enter(&mut self, peer: Option<SocketAddr>, limit: usize) -> Entered {
        let Some(address) = counted(peer).filter(|_| limit > 0) else { return Entered::Yes };
        let client = self.0.entry(address).or_default();
        if client.connections < limit {
            client.connections += 1;
            return Entered::Yes;
        }
        if std::mem::replace(&mut client.told, true) { Entered::StillFull } else { Entered::Full }
    }

    /// A connection of `peer` is gone.
    pub fn leave(&mut self, peer: Option<SocketAddr>, limit: usize) {
        let Some(address) = counted(peer) else { return };
        if let Some(client) = self.0.get_mut(&address) {
            client.connections -= 1;
            client.told &= client.connections > limit / 2;
            if client.connections == 0 {
                self.0.remove(&address);
            }
        }
    }
}

/// What stands for the client; none where it has no limit.
fn counted(peer: Option<SocketAddr>) -> Option<IpAddr> {
    let address = peer?.ip().to_canonical();
    match address {
        _ if address.is_loopback() => None,
        IpAddr::V4(_) => Some(address),
        IpAddr::V6(address) => Some(IpAddr::from((u128::from(address) >> 64 << 64).to_be_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    #[test]
    fn a_client_has_so_many_places_and_others_have_theirs() {
        let mut crowd = Crowd::default();
        let enter = |crowd: &mut Crowd, address| crowd.enter(Some(peer(address)), 2);
        assert_eq!([enter(&mut crowd, "192.0.2.1"), enter(&mut crowd, "192.0.2.1")], [Entered::Yes; 2]);
        assert_eq!(enter(&mut crowd, "192.0.2.1"), Entered::Full);
        assert_eq!(enter(&mut crowd, "::ffff:192.0.2.1"), Entered::StillFull);
        assert_eq!(enter(&mut crowd, "192.0.2.2"), Entered::Yes);
        crowd.leave(Some(peer("192.0.2.1")), 2);
        assert_eq!(enter(&mut crowd, "192.0.2.1"), Entered::Yes);
        assert_eq!(enter(&mut crowd, "192.0.2.1"), Entered::Full);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let mut crowd = Crowd::default();
        assert_eq!(crowd.enter(Some(peer("2001:db8::1")), 1), Entered::Yes);
        assert_eq!(crowd.enter(Some(peer("2001:db8::2:0:0:1")), 1), Entered::Full);
        assert_eq!(crowd.enter(Some(peer("2001:db8:0:1::1")), 1), Entered::Yes);
    }

    #[test]
    fn no_limit_for_a_proxy_on_this_machine_or_with_zero() {
        let mut crowd = Crowd::default();
        for address in [Some(peer("127.0.0.1")), Some(peer("::1")), Some(peer("::ffff:127.0.0.2")), None] {
            assert_eq!([crowd.enter(address, 1), crowd.enter(address, 1)], [Entered::Yes; 2]);
            crowd.leave(address, 1);
        }
        assert_eq!(
            [crowd.enter(Some(peer("192.0.2.1")), 0), crowd.enter(Some(peer("192.0.2.1")), 0)],
            [Entered::Yes; 2]
        );
        crowd.leave(Some(peer("192.0.2.1")), 0);
        assert!(crowd.0.is_empty());
    }
}

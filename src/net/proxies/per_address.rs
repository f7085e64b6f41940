//! Connections per client address, so that no single client can take all places.
//!
//! Loopback addresses and unix sockets are not limited: a reverse proxy stands there, and all its clients share it. For a
//! trusted proxy elsewhere the caller passes no address. Of an IPv6 address the first 64 bits count, because one client has
//! all the rest (RFC 4291 2.5.4). An address has an entry only while it has a connection.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Whether a new connection gets a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has one.
    Taken,
    /// The limit is reached, for the first time since half of the places were free.
    Full,
    /// The limit is still reached.
    StillFull,
}

#[derive(Debug, Default)]
struct Client {
    connections: usize,
    /// [`Place::Full`] was returned since half of the places were free.
    was_full: bool,
}

/// The connections of one process, counted per address.
#[derive(Debug, Default)]
pub struct PerAddress(HashMap<IpAddr, Client>);

impl PerAddress {
    /// Count a new connection of `peer`; `limit` 0 is none. Only a connection that got a place is to be removed later.
    pub fn add(&mut self, peer: Option<SocketAddr>, limit: usize) -> Place {
        let Some(address) = counted(peer).filter(|_| limit > 0) else { return Place::Taken };
        let client = self.0.entry(address).or_default();
        if client.connections < limit {
            client.connections += 1;
            return Place::Taken;
        }
        if std::mem::replace(&mut client.was_full, true) { Place::StillFull } else { Place::Full }
    }

    /// A connection of `peer` has ended.
    pub fn remove(&mut self, peer: Option<SocketAddr>, limit: usize) {
        let Some(address) = counted(peer) else { return };
        if let Some(client) = self.0.get_mut(&address) {
            client.connections -= 1;
            client.was_full &= client.connections > limit / 2;
            if client.connections == 0 {
                self.0.remove(&address);
            }
        }
    }
}

/// The address that is counted; none where there is no limit.
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
    fn each_address_has_its_own_limit() {
        let mut per_address = PerAddress::default();
        let add = |per_address: &mut PerAddress, address| per_address.add(Some(peer(address)), 2);
        assert_eq!([add(&mut per_address, "192.0.2.1"), add(&mut per_address, "192.0.2.1")], [Place::Taken; 2]);
        assert_eq!(add(&mut per_address, "192.0.2.1"), Place::Full);
        assert_eq!(add(&mut per_address, "::ffff:192.0.2.1"), Place::StillFull);
        assert_eq!(add(&mut per_address, "192.0.2.2"), Place::Taken);
        per_address.remove(Some(peer("192.0.2.1")), 2);
        assert_eq!(add(&mut per_address, "192.0.2.1"), Place::Taken);
        assert_eq!(add(&mut per_address, "192.0.2.1"), Place::Full);
    }

    #[test]
    fn an_ipv6_network_of_64_bits_is_one_client() {
        let mut per_address = PerAddress::default();
        assert_eq!(per_address.add(Some(peer("2001:db8::1")), 1), Place::Taken);
        assert_eq!(per_address.add(Some(peer("2001:db8::2:0:0:1")), 1), Place::Full);
        assert_eq!(per_address.add(Some(peer("2001:db8:0:1::1")), 1), Place::Taken);
    }

    #[test]
    fn a_proxy_on_this_machine_has_no_limit_and_zero_is_none() {
        let mut per_address = PerAddress::default();
        for address in [Some(peer("127.0.0.1")), Some(peer("::1")), Some(peer("::ffff:127.0.0.2")), None] {
            assert_eq!([per_address.add(address, 1), per_address.add(address, 1)], [Place::Taken; 2]);
            per_address.remove(address, 1);
        }
        assert_eq!(
            [per_address.add(Some(peer("192.0.2.1")), 0), per_address.add(Some(peer("192.0.2.1")), 0)],
            [Place::Taken; 2]
        );
        per_address.remove(Some(peer("192.0.2.1")), 0);
        assert!(per_address.0.is_empty());
    }
}

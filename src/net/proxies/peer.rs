//! The peer of a connection and, behind a trusted reverse proxy, its client.
//!
//! The socket tells the address of the peer. A trusted proxy names the client of the connection (the PROXY protocol) or of
//! each request (fields such as Forwarded). Where the settings read neither, nothing is allocated for them.

use std::net::SocketAddr;

use super::policy::ProxyPolicy;
use super::proxy_protocol::{Fault, Source, read};
use super::request_id::taken;
use crate::http::forwarded::{Client, Origin, Passing};
use crate::http::head::{Field, RequestHead};
use crate::http::reject::Reject;

/// Whether a field shows that a proxy passed the request on.
fn shows_proxy(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"x-forwarded-";
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX)) || shows_client(name)
}

/// Whether a field names the client behind a proxy, or another proxy on the way.
fn shows_client(name: &[u8]) -> bool {
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

/// The other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its address; none on a unix socket.
    pub address: Option<SocketAddr>,
    /// It is in `trusted_proxies`.
    pub is_trusted: bool,
    /// Which fields about the client reach the application.
    pub passing: Passing,
    info: Option<Box<ProxyInfo>>,
}

/// The words of a proxy about a connection and its current request, and the id of that request.
#[derive(Debug)]
pub struct ProxyInfo {
    /// The header of the PROXY protocol is still to come.
    awaits_header: bool,
    /// The client of the connection; none if it has no address.
    source: Option<SocketAddr>,
    /// The fields of its requests are believed.
    is_believed: bool,
    /// The fields of the current request were read.
    was_read: bool,
    /// The PROXY protocol said that the client is unknown.
    is_unknown: bool,
    /// The client of the current request; none if it has no address.
    client: Option<SocketAddr>,
    /// What else the fields of the current request say.
    pub origin: Origin,
    /// The id of the current request; empty where requests have none.
    pub id: String,
}

impl Peer {
    /// The peer of a new connection.
    pub fn new(address: Option<SocketAddr>, proxies: &ProxyPolicy) -> Self {
        let is_trusted = proxies.trust(address);
        let may_speak = is_trusted && (!proxies.forwarded.is_empty() || proxies.proxy_protocol);
        let info = (may_speak || proxies.request_ids.is_some()).then(|| {
            Box::new(ProxyInfo {
                awaits_header: proxies.proxy_protocol,
                source: address,
                is_believed: is_trusted,
                was_read: false,
                is_unknown: false,
                client: address,
                origin: Origin::default(),
                id: String::new(),
            })
        });
        Self { address, is_trusted, passing: proxies.passing(is_trusted), info }
    }

    /// The words of a proxy, if the settings let any proxy say something.
    pub fn proxy_info(&self) -> Option<&ProxyInfo> {
        self.info.as_deref()
    }

    /// The client of the current request, or of the connection between requests; none if it has no address. Port 0 stands
    /// for an unknown port.
    pub fn client(&self) -> Option<SocketAddr> {
        self.info.as_ref().map_or(self.address, |info| info.client)
    }

    /// Whether to answer a request with the status: it asks for it and may see it. For all other clients the path belongs
    /// to the application.
    #[inline]
    pub fn is_for_status(&self, head: &RequestHead, bytes: &[u8], listener: usize, proxies: &ProxyPolicy) -> bool {
        proxies.is_control(listener) || (!proxies.status_path.is_empty() && self.may_see_status(head, bytes, proxies))
    }

    #[cold]
    fn may_see_status(&self, head: &RequestHead, bytes: &[u8], proxies: &ProxyPolicy) -> bool {
        let host = self.proxy_info().and_then(|info| info.origin.host.as_deref());
        proxies.asks_status(head, bytes)
            && host.is_none_or(|host| proxies.is_named(host))
            && self.is_near(head, bytes, proxies)
    }

    /// Whether a request comes from this machine or from a trusted network. It does not if it carries fields about a client
    /// that the settings do not read: then a proxy passed it on, and its client may be anywhere.
    fn is_near(&self, head: &RequestHead, bytes: &[u8], proxies: &ProxyPolicy) -> bool {
        let is_named = self.info.as_ref().is_some_and(|info| info.origin.client != Client::Peer);
        let shows_another = |field: &Field| match field.name.of(bytes) {
            name if is_named => shows_client(name) && !proxies.forwarded.has(name),
            name => shows_proxy(name),
        };
        if head.fields.iter().any(shows_another) {
            return false;
        }
        match (self.client(), &self.info) {
            (Some(client), _) => client.ip().to_canonical().is_loopback() || proxies.trusted.contains(client.ip()),
            // A unix socket has no address, and neither has a client if its proxy gives none.
            (None, Some(info)) => self.address.is_none() && !is_named && !info.is_unknown,
            (None, None) => true,
        }
    }

    /// The address whose connections are limited; none for a trusted proxy, which many clients share.
    pub fn counted(&self) -> Option<SocketAddr> {
        self.address.filter(|_| !self.is_trusted)
    }

    /// Whether the header of the PROXY protocol is still to come.
    pub fn awaits_header(&self) -> bool {
        self.info.as_ref().is_some_and(|info| info.awaits_header)
    }

    /// Read the header of the PROXY protocol at the beginning of `bytes` and remove it. Returns whether it was complete.
    pub fn read_header(&mut self, bytes: &mut Vec<u8>, longest: usize, proxies: &ProxyPolicy) -> Result<bool, Fault> {
        let Some(info) = &mut self.info else { return Ok(true) };
        let Some(header) = read(bytes, longest)? else { return Ok(false) };
        bytes.drain(..header.length);
        info.awaits_header = false;
        match header.source {
            Source::Peer => {}
            Source::Unknown => (info.source, info.is_believed, info.is_unknown) = (None, false, true),
            Source::Address(address) => (info.source, info.is_believed) = (Some(address), proxies.trust(Some(address))),
        }
        info.end_request();
        self.passing = proxies.passing(info.is_believed);
        Ok(true)
    }

    /// Learn the client of a request from its fields. A second call for one request does nothing.
    pub fn read_fields(&mut self, head: &RequestHead, bytes: &[u8], proxies: &ProxyPolicy) -> Result<(), Reject> {
        self.info.as_mut().map_or(Ok(()), |info| info.read_fields(head, bytes, proxies))
    }

    /// Give a refused request an id, like any other; `head` may be incomplete.
    pub fn identify(&mut self, head: &RequestHead, bytes: &[u8], proxies: &ProxyPolicy) {
        if let Some(info) = &mut self.info {
            info.identify(head, bytes, proxies);
        }
    }

    /// The id of the current request; empty for none.
    pub fn id(&self) -> &str {
        self.info.as_ref().map_or("", |info| &info.id)
    }

    /// The id that the answer carries; empty for none.
    pub fn answered_id(&self, proxies: &ProxyPolicy) -> &str {
        if proxies.answers_id { self.id() } else { "" }
    }

    /// The current request is answered: forget what was said about it.
    pub fn end_request(&mut self) {
        if let Some(info) = &mut self.info {
            info.end_request();
        }
    }
}

impl ProxyInfo {
    fn read_fields(&mut self, head: &RequestHead, bytes: &[u8], proxies: &ProxyPolicy) -> Result<(), Reject> {
        if std::mem::replace(&mut self.was_read, true) {
            return Ok(());
        }
        self.identify(head, bytes, proxies);
        if self.is_believed && !proxies.forwarded.is_empty() {
            self.origin = Origin::read(head, bytes, proxies.forwarded, |address| proxies.trusted.contains(address))?;
            self.client = match self.origin.client {
                Client::Peer => self.source,
                Client::Unknown => None,
                Client::Address(address, port) => Some(SocketAddr::new(address, port)),
            };
        }
        Ok(())
    }

    fn identify(&mut self, head: &RequestHead, bytes: &[u8], proxies: &ProxyPolicy) {
        if let Some(ids) = proxies.request_ids.as_ref().filter(|_| self.id.is_empty()) {
            match taken(head, bytes).filter(|_| self.is_believed) {
                Some(id) => id.clone_into(&mut self.id),
                None => self.id = ids.make(),
            }
        }
    }

    fn end_request(&mut self) {
        self.was_read = false;
        self.client = self.source;
        self.origin = Origin::default();
        self.id.clear();
    }
}

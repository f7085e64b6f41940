//! The client of a request, as the proxy in front tells it: `Forwarded` (RFC 7239), or the older `X-Forwarded-` fields.
//!
//! Knows the fields of one head, and asks the caller which addresses are trusted. Reads only the fields that the proxy
//! sets ([`Fields`]): the others may come from the client. A value that cannot be true is refused, since the
//! application would believe a guess.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use memchr::memchr;

use super::grammar::{decimal, is_host, is_target_byte, is_tchar, is_token, trim};
use super::head::RequestHead;
use super::reject::Reject;

/// A set of the fields that describe the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields(u8);

const FORWARDED: Fields = Fields(1);
const FOR: Fields = Fields(2);
const PROTO: Fields = Fields(4);
const HOST: Fields = Fields(8);
const PREFIX: Fields = Fields(16);

const NAMES: [(&str, Fields); 5] = [
    ("forwarded", FORWARDED),
    ("x-forwarded-for", FOR),
    ("x-forwarded-proto", PROTO),
    ("x-forwarded-host", HOST),
    ("x-forwarded-prefix", PREFIX),
];

impl Fields {
    /// The set of these names, in lower case. Returns `None` if a name is unknown.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        names.into_iter().try_fold(Self(0), |fields, name| {
            let (_, field) = NAMES.iter().find(|(known, _)| *known == name)?;
            Some(Self(fields.0 | field.0))
        })
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has the field of this name.
    pub fn has(self, name: &[u8]) -> bool {
        NAMES.iter().any(|(known, field)| self.holds(*field) && name.eq_ignore_ascii_case(known.as_bytes()))
    }

    const fn holds(self, field: Self) -> bool {
        self.0 & field.0 != 0
    }
}

/// Which fields about the client reach the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// All: the peer is a trusted proxy, and the application reads the fields itself.
    All,
    /// Only these of the fields that describe the client: the others may come from the client.
    Only(Fields),
    /// None: the peer is a client.
    None,
}

impl Passing {
    /// Whether a field of this name reaches the application.
    pub fn lets(self, name: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Only(fields) => {
                let known = NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
                known.is_none_or(|(_, field)| fields.holds(*field))
            }
            Self::None => !is_for_proxies(name),
        }
    }
}

/// Whether only proxies may write this field. Some of them name the user who is logged in.
fn is_for_proxies(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"x-forwarded-";
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
        || name.eq_ignore_ascii_case(b"forwarded")
        || name.eq_ignore_ascii_case(b"x-real-ip")
}

/// The client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Client {
    /// The peer itself: no field names another client.
    #[default]
    Peer,
    /// It has no address, or a secret one (RFC 7239 6.2, 6.3).
    Unknown,
    /// Its address and its port; 0 if the port is not known.
    Address(IpAddr, u16),
}

/// The scheme of the client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// The value of `wsgi.url_scheme`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Its port (RFC 9110 4.2.1, 4.2.2).
    pub const fn port(self) -> &'static str {
        match self {
            Self::Http => "80",
            Self::Https => "443",
        }
    }
}

/// The facts that a proxy tells about one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The client.
    pub client: Client,
    /// The scheme of the client's request.
    pub scheme: Option<Scheme>,
    /// Its Host.
    pub host: Option<Vec<u8>>,
    /// The beginning of its path, which the proxy cut off: empty, or a path without a slash at its end.
    pub prefix: Option<Vec<u8>>,
}

impl Origin {
    /// Read the `fields` of a head. Of several hops the client is the last one that is not trusted.
    pub fn read(
        head: &RequestHead,
        bytes: &[u8],
        fields: Fields,
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> Result<Self, Reject> {
        if fields.holds(FORWARDED) {
            return forwarded(head, bytes, is_trusted);
        }
        let last = |field, name| if fields.holds(field) { values(head, bytes, name).next_back() } else { None };
        let mut origin = Self::default();
        if fields.holds(FOR) {
            origin.client = forwarded_for(head, bytes, is_trusted)?;
        }
        if let Some(value) = last(PROTO, "x-forwarded-proto") {
            origin.scheme = Some(scheme(last_member(value))?);
        }
        if let Some(value) = last(HOST, "x-forwarded-host") {
            origin.host = Some(host(last_member(value))?.to_vec());
        }
        if let Some(value) = last(PREFIX, "x-forwarded-prefix") {
            origin.prefix = Some(prefix(value)?.to_vec());
        }
        Ok(origin)
    }

    /// Whether it changes the URL.
    pub const fn has_url(&self) -> bool {
        self.scheme.is_some() || self.host.is_some() || self.prefix.is_some()
    }
}

fn values<'a>(head: &'a RequestHead, bytes: &'a [u8], name: &'static str) -> impl DoubleEndedIterator<Item = &'a [u8]> {
    let is_it = move |field: &&super::head::Field| field.name.of(bytes).eq_ignore_ascii_case(name.as_bytes());
    head.fields.iter().filter(is_it).map(|field| field.value.of(bytes))
}

/// The value of the nearest proxy: each proxy appends its own.
fn last_member(value: &[u8]) -> &[u8] {
    value.rsplit(|&byte| byte == b',').next().map_or(b"", trim)
}

/// X-Forwarded-For has no RFC. It is a list of addresses, the nearest one last. Empty members are ignored, as in any
/// list (RFC 9110 5.6.1.2).
fn forwarded_for(head: &RequestHead, bytes: &[u8], is_trusted: impl Fn(IpAddr) -> bool) -> Result<Client, Reject> {
    let mut client = Client::Peer;
    for value in values(head, bytes, "x-forwarded-for").rev() {
        for member in value.rsplit(|&byte| byte == b',').map(trim).filter(|member| !member.is_empty()) {
            client = match member {
                b"unix:" => Some(Client::Unknown), // nginx, of a client on a unix socket
                _ => ipv6(member).map(|address| Client::Address(address, 0)).or_else(|| node(member)),
            }
            .ok_or(Reject::bad("X-Forwarded-For holds something that is not an address"))?;
            if !matches!(client, Client::Address(address, _) if is_trusted(address)) {
                return Ok(client);
            }
        }
    }
    Ok(client)
}

fn scheme(text: &[u8]) -> Result<Scheme, Reject> {
    match text {
        _ if text.eq_ignore_ascii_case(b"http") => Ok(Scheme::Http),
        _ if text.eq_ignore_ascii_case(b"https") => Ok(Scheme::Https),
        _ => Err(Reject::bad("the proxy names a scheme that is neither http nor https")),
    }
}

/// RFC 9110 7.2. No port 0, which no client can have asked, and which would stand in links.
fn host(text: &[u8]) -> Result<&[u8], Reject> {
    let mut parts = text.rsplitn(2, |&byte| byte == b':');
    let is_port_0 = parts.next().and_then(decimal) == Some(0) && parts.next().is_some();
    if is_host(text) && !is_port_0 {
        Ok(text)
    } else {
        Err(Reject::bad("the proxy names a host that is not HOST or HOST:PORT"))
    }
}

/// RFC 3986 3.3. A prefix becomes the beginning of links, so that no part of it may lead elsewhere.
fn prefix(text: &[u8]) -> Result<&[u8], Reject> {
    // Some programs ignore the parameters of a part (RFC 3986 3.3).
    let leads_elsewhere = |part: &[u8]| {
        let name = part.split(|&byte| byte == b';').next().unwrap_or_default();
        part.is_empty() || matches!(name, b"." | b"..")
    };
    let is_escape = |rest: &[u8]| rest.get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let is_path = |path: &[u8]| {
        path.iter().all(|&byte| is_target_byte(byte) && !matches!(byte, b'?' | b',' | b'\\' | b'"' | b'<' | b'>'))
            && !path.split(|&byte| byte == b'/').skip(1).any(leads_elsewhere)
            && path.split(|&byte| byte == b'%').skip(1).all(is_escape)
            // An escaped dot, slash, backslash or control character.
            && !path.windows(3).any(|part| {
                matches!(
                    part,
                    [b'%', b'2', b'e' | b'E' | b'f' | b'F']
                        | [b'%', b'5', b'c' | b'C']
                        | [b'%', b'0' | b'1', _]
                        | [b'%', b'7', b'f' | b'F']
                )
            })
    };
    let path = text.strip_suffix(b"/").unwrap_or(text);
    if path.is_empty() || (path.starts_with(b"/") && is_path(path)) {
        Ok(path)
    } else {
        Err(Reject::bad("X-Forwarded-Prefix is not a plain path"))
    }
}

/// RFC 7239 4: one element for each hop, the nearest last. Scheme and host are those of the hop that names the client.
fn forwarded(head: &RequestHead, bytes: &[u8], is_trusted: impl Fn(IpAddr) -> bool) -> Result<Origin, Reject> {
    const MALFORMED: Reject = Reject::bad("Forwarded does not follow RFC 7239");
    let mut hops = Vec::new();
    for value in values(head, bytes, "forwarded") {
        elements(value, &mut hops).ok_or(MALFORMED)?;
    }
    let mut origin = Origin::default();
    for hop in hops.iter().rev() {
        origin.client = match &hop.node {
            Some(text) => node(text).ok_or(Reject::bad("Forwarded names a client that is not an address"))?,
            None => Client::Unknown,
        };
        origin.scheme = hop.proto.as_deref().map(scheme).transpose()?;
        origin.host = hop.host.as_deref().map(host).transpose()?.map(<[u8]>::to_vec);
        if !matches!(origin.client, Client::Address(address, _) if is_trusted(address)) {
            break;
        }
    }
    Ok(origin)
}

/// One hop: the parameters of RFC 7239 5 that matter here.
#[derive(Debug, Default)]
struct Hop<'a> {
    node: Option<Cow<'a, [u8]>>,
    proto: Option<Cow<'a, [u8]>>,
    host: Option<Cow<'a, [u8]>>,
    by: Option<Cow<'a, [u8]>>,
}

/// `forwarded-element *( OWS "," OWS forwarded-element )`; an element may be empty (RFC 7239 4, RFC 9110 5.6.1).
fn elements<'a>(value: &'a [u8], hops: &mut Vec<Hop<'a>>) -> Option<()> {
    let mut rest = trim(value);
    let mut hop: Option<Hop<'a>> = None;
    loop {
        let (name, after) = rest.split_at(rest.iter().position(|&byte| !is_tchar(byte)).unwrap_or(rest.len()));
        rest = after;
        if !name.is_empty() {
            let [b'=', after @ ..] = after else { return None };
            let (value, after) = parameter_value(after)?;
            hop.get_or_insert_default().take(name, value)?;
            rest = after;
        }
        if let [b';', after @ ..] = rest {
            rest = after;
            continue;
        }
        hops.extend(hop.take());
        match trim(rest) {
            [] => return Some(()),
            [b',', after @ ..] => rest = trim(after),
            _ => return None,
        }
    }
}

impl<'a> Hop<'a> {
    /// RFC 7239 4: names are case-insensitive, and each comes once.
    fn take(&mut self, name: &[u8], value: Cow<'a, [u8]>) -> Option<()> {
        let place = match name.len() {
            3 if name.eq_ignore_ascii_case(b"for") => &mut self.node,
            5 if name.eq_ignore_ascii_case(b"proto") => &mut self.proto,
            4 if name.eq_ignore_ascii_case(b"host") => &mut self.host,
            2 if name.eq_ignore_ascii_case(b"by") => &mut self.by,
            _ => return Some(()), // an extension (RFC 7239 5.5)
        };
        place.replace(value).is_none().then_some(())
    }
}

/// `token / quoted-string` (RFC 9110 5.6.2, 5.6.4), and what follows it.
fn parameter_value(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let [b'"', quoted @ ..] = text else {
        let (token, rest) = text.split_at(text.iter().position(|&byte| !is_tchar(byte)).unwrap_or(text.len()));
        return is_token(token).then_some((Cow::Borrowed(token), rest));
    };
    let mut value = Vec::new();
    let mut rest = quoted;
    loop {
        let (byte, after) = match rest {
            [b'"', after @ ..] => return Some((Cow::Owned(value), after)),
            [b'\\', byte, after @ ..] => (byte, after),
            [b'\\'] | [] => return None,
            [byte, after @ ..] => (byte, after),
        };
        value.push(*byte);
        rest = after;
    }
}

/// RFC 7239 6: `nodename [ ":" node-port ]`.
fn node(text: &[u8]) -> Option<Client> {
    let (address, after) = if let [b'[', rest @ ..] = text {
        let (literal, after) = rest.split_at(memchr(b']', rest)?);
        (Some(ipv6(literal)?), after.get(1..)?)
    } else {
        let (name, after) = text.split_at(memchr(b':', text).unwrap_or(text.len()));
        let is_unknown = name.eq_ignore_ascii_case(b"unknown") || is_obfuscated(name);
        (if is_unknown { None } else { Some(ipv4(name)?) }, after)
    };
    let port = match after {
        [] => 0,
        [b':', port @ ..] if is_obfuscated(port) => 0,
        [b':', port @ ..] if port.len() <= 5 => u16::try_from(decimal(port)?).ok()?,
        _ => return None,
    };
    Some(address.map_or(Client::Unknown, |address| Client::Address(address, port)))
}

/// RFC 7239 6.3.
fn is_obfuscated(text: &[u8]) -> bool {
    let [b'_', rest @ ..] = text else { return false };
    !rest.is_empty() && rest.iter().all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

fn ipv4(text: &[u8]) -> Option<IpAddr> {
    Some(IpAddr::V4(std::str::from_utf8(text).ok()?.parse::<Ipv4Addr>().ok()?))
}

/// An IPv4-mapped address is an IPv4 address (RFC 4291 2.5.5.2).
fn ipv6(text: &[u8]) -> Option<IpAddr> {
    Some(IpAddr::V6(std::str::from_utf8(text).ok()?.parse::<Ipv6Addr>().ok()?).to_canonical())
}

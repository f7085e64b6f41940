//! The PROXY protocol, versions 1 and 2 (<https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt>): a header at the
//! beginning of a connection, in which a proxy names the client.
//!
//! Turns bytes into an address; knows no socket. A wrong byte is refused as soon as it is there, however the bytes are cut.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Section 2.1: the longest header of version 1, with its CRLF.
const LONGEST_LINE: usize = 107;
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Section 2.2: signature, version and command, family and transport, length.
const FIXED: usize = 16;

/// The client of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The proxy itself, for example for a health check (section 2.2, LOCAL).
    Peer,
    /// A client whose address is unknown: on a unix socket, or of an unnamed protocol.
    Unknown,
    /// A client at this address.
    Address(SocketAddr),
}

/// A complete header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its length in bytes.
    pub length: usize,
    /// The client that it names.
    pub source: Source,
}

/// Why a header is refused; text for the log.
pub type Fault = &'static str;

/// Read a header at the beginning of `bytes`; none if more bytes are needed. `longest` is the greatest accepted length of a
/// header of version 2, in bytes.
pub fn read(bytes: &[u8], longest: usize) -> Result<Option<Header>, Fault> {
    const NEITHER: Fault = "the connection does not begin with a header of the PROXY protocol";
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => line(bytes),
        Some(_) if begins(bytes, SIGNATURE) => block(bytes, longest),
        Some(_) => Err(NEITHER),
    }
}

/// Whether the shorter of both is the beginning of the other.
fn begins(bytes: &[u8], expected: &[u8]) -> bool {
    bytes.iter().zip(expected).all(|(byte, expected)| byte == expected)
}

/// Section 2.1: `PROXY TCP4 192.0.2.1 192.0.2.2 56324 443` and CRLF.
fn line(bytes: &[u8]) -> Result<Option<Header>, Fault> {
    const MALFORMED: Fault = "the header of the PROXY protocol, version 1, is malformed";
    let start = bytes.get(..LONGEST_LINE).unwrap_or(bytes);
    if !begins(start, b"PROXY ") {
        return Err(MALFORMED);
    }
    let Some(end) = memchr::memchr(b'\n', start) else {
        let is_open = start.iter().rev().skip(1).all(|&byte| is_line_byte(byte))
            && start.last().is_none_or(|&byte| is_line_byte(byte) || byte == b'\r');
        return if is_open && start.len() < LONGEST_LINE { Ok(None) } else { Err(MALFORMED) };
    };
    let text = start.get(..end).and_then(|line| line.strip_suffix(b"\r")).ok_or(MALFORMED)?;
    let source = source_of_line(text).ok_or(MALFORMED)?;
    Ok(Some(Header { length: end + 1, source }))
}

/// Printable US-ASCII, and the space.
fn is_line_byte(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

fn source_of_line(line: &[u8]) -> Option<Source> {
    if !line.iter().all(|&byte| is_line_byte(byte)) {
        return None;
    }
    let mut words = std::str::from_utf8(line).ok()?.split(' ').skip(1);
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(Source::Unknown); // section 2.1: the rest of the line is ignored
    }
    let (source, destination) = (words.next()?, words.next()?);
    let (port, _) = (port_number(words.next()?)?, port_number(words.next()?)?);
    let address: IpAddr = match family {
        "TCP4" => destination.parse::<Ipv4Addr>().and(source.parse::<Ipv4Addr>()).ok()?.into(),
        "TCP6" => destination.parse::<Ipv6Addr>().and(source.parse::<Ipv6Addr>()).ok()?.into(),
        _ => return None,
    };
    words.next().is_none().then(|| Source::Address(SocketAddr::new(address.to_canonical(), port)))
}

/// Section 2.1: a decimal number between 0 and 65535 without leading zeros.
fn port_number(text: &str) -> Option<u16> {
    let is_plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    text.parse().ok().filter(|_| is_plain)
}

/// Section 2.2; what follows the addresses (TLVs) is skipped.
fn block(bytes: &[u8], longest: usize) -> Result<Option<Header>, Fault> {
    const LOCAL: u8 = 0x20;
    const PROXY: u8 = 0x21;
    let command = bytes.get(12).copied();
    if command.is_some_and(|command| command != LOCAL && command != PROXY) {
        return Err("the header of the PROXY protocol has a version or command that there is not");
    }
    let family = bytes.get(13).copied();
    if command == Some(PROXY) && family.is_some_and(|family| family >> 4 > 3 || family & 0xf > 2) {
        return Err("the header of the PROXY protocol has an address family or transport that there is not");
    }
    let Some([high, low]) = bytes.get(14..FIXED) else { return Ok(None) };
    let length = FIXED + usize::from(u16::from_be_bytes([*high, *low]));
    if length > longest {
        return Err("the header of the PROXY protocol is longer than max_head");
    }
    let least = FIXED + family.filter(|_| command == Some(PROXY)).map_or(0, size_of_addresses);
    if length < least {
        return Err("the header of the PROXY protocol is shorter than its addresses");
    }
    let Some(header) = bytes.get(..length) else { return Ok(None) };
    let source = match (command, family) {
        (Some(LOCAL), _) => Source::Peer,
        // TCP over IPv4, over IPv6.
        (_, Some(0x11)) => address::<4>(header, 24),
        (_, Some(0x21)) => address::<16>(header, 48),
        _ => Source::Unknown,
    };
    Ok(Some(Header { length, source }))
}

/// Length in bytes of both addresses and, except for unix sockets, both ports.
const fn size_of_addresses(family: u8) -> usize {
    match family >> 4 {
        1 => 12,
        2 => 36,
        3 => 216,
        _ => 0,
    }
}

/// The source address, which is the first one, and its port at offset `port`.
fn address<const SIZE: usize>(header: &[u8], port: usize) -> Source
where
    IpAddr: From<[u8; SIZE]>,
{
    let address = header.get(FIXED..).and_then(|rest| rest.first_chunk::<SIZE>());
    let port = header.get(port..).and_then(|rest| rest.first_chunk::<2>());
    match (address, port) {
        (Some(address), Some(port)) => {
            Source::Address(SocketAddr::new(IpAddr::from(*address).to_canonical(), u16::from_be_bytes(*port)))
        }
        _ => Source::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIG: &[u8] = SIGNATURE;

    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIG, &[command, family], &length, rest].concat()
    }

    fn inet(rest: &[u8]) -> Vec<u8> {
        version_2(0x21, 0x11, &[&[203, 0, 113, 7, 192, 0, 2, 1, 0xdb, 0xa0, 0, 80], rest].concat())
    }

    fn at(address: &str) -> Source {
        Source::Address(address.parse().unwrap())
    }

    /// A header means the same whole, byte by byte, and with bytes behind it.
    fn check(header: &[u8], expected: Source) {
        for end in 0..header.len() {
            assert_eq!(read(&header[..end], 65536), Ok(None), "{end} of {header:?}");
        }
        let expected = Ok(Some(Header { length: header.len(), source: expected }));
        assert_eq!(read(header, 65536), expected);
        for behind in [b"GET / HTTP/1.1\r\n".as_slice(), b"\r\n", b"PROXY ", SIG] {
            assert_eq!(read(&[header, behind].concat(), 65536), expected);
        }
    }

    /// The bytes are refused at one certain byte, however they are cut.
    fn refuse(bytes: &[u8]) {
        assert!(read(bytes, 65536).is_err(), "{bytes:?}");
        let first = (0..=bytes.len()).find(|&end| read(&bytes[..end], 65536).is_err()).unwrap();
        for end in first..=bytes.len() {
            assert!(read(&bytes[..end], 65536).is_err(), "{end} of {bytes:?}");
        }
        assert_eq!(read(&bytes[..first - 1], 65536), Ok(None), "before {first} of {bytes:?}");
    }

    #[test]
    fn version_1() {
        check(b"PROXY TCP4 192.0.2.9 192.0.2.1 56324 443\r\n", at("192.0.2.9:56324"));
        check(b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", at("255.255.255.255:65535"));
        check(b"PROXY TCP6 2001:db8::9 ::1 1 0\r\n", at("[2001:db8::9]:1"));
        check(b"PROXY TCP6 ::ffff:192.0.2.9 ::1 1 0\r\n", at("192.0.2.9:1"));
        check(b"PROXY UNKNOWN\r\n", Source::Unknown);
        check(b"PROXY UNKNOWN ffff::1 whatever 0 0\r\n", Source::Unknown);
        let full = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        let longest = format!("PROXY UNKNOWN {full} {full} 65535 65535\r\n");
        assert_eq!(longest.len(), LONGEST_LINE);
        check(longest.as_bytes(), Source::Unknown);
        for bad in [
            "PROXY TCP4 192.0.2.9 192.0.2.1 56324 443\n",
            "PROXY TCP4 192.0.2.9 192.0.2.1 56324 443 \r\n",
            "PROXY  TCP4 192.0.2.9 192.0.2.1 56324 443\r\n",
            "PROXY TCP4 192.0.2.9 192.0.2.1 56324\r\n",
            "PROXY TCP4 192.0.2.9 192.0.2.1 65536 443\r\n",
            "PROXY TCP4 192.0.2.9 192.0.2.1 1 443x\r\n",
            "PROXY TCP4 192.0.2.9 192.0.2.1 01 443\r\n",
            "PROXY TCP4 192.0.2.9 192.0.2.1 +1 443\r\n",
            "PROXY TCP4 192.0.2.09 192.0.2.1 1 443\r\n",
            "PROXY TCP4 2001:db8::9 192.0.2.1 1 443\r\n",
            "PROXY TCP6 192.0.2.9 192.0.2.1 1 443\r\n",
            "PROXY tcp4 192.0.2.9 192.0.2.1 1 443\r\n",
            "PROXY\r\n",
            "PROXY \r\n",
            "PROXY TCP4 192.0.2.9\t192.0.2.1 1 443\r\n",
            "POST / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\n",
            "PROXY UNKNOWN \u{e9}\r\n",
            &longest.replace("65535\r", "655355\r"),
        ] {
            refuse(bad.as_bytes());
        }
    }

    #[test]
    fn version_2_over_each_family() {
        check(&inet(b""), at("203.0.113.7:56224"));
        check(&inet(b"\x04\0\x01x"), at("203.0.113.7:56224"));
        let client = "2001:db8::9".parse::<Ipv6Addr>().unwrap().octets();
        check(&version_2(0x21, 0x21, &[&client[..], &[0; 16], &[0, 1, 0, 80]].concat()), at("[2001:db8::9]:1"));
        check(&version_2(0x21, 0x31, &[0; 216]), Source::Unknown);
        check(&version_2(0x21, 0x00, b"anything"), Source::Unknown);
        check(&version_2(0x21, 0x12, &[0; 12]), Source::Unknown);
        check(&version_2(0x20, 0x00, b""), Source::Peer);
        check(&version_2(0x20, 0x11, &[1; 12]), Source::Peer);
        check(&version_2(0x20, 0xff, b"ignored"), Source::Peer);
    }

    /// Changed headers: more bytes never change a verdict, and bytes behind a header change nothing.
    #[test]
    fn a_verdict_never_changes() {
        let seeds = [
            b"PROXY TCP4 192.0.2.9 192.0.2.1 56324 443\r\nGET".to_vec(),
            b"PROXY UNKNOWN ffff::1 whatever\r\nGET".to_vec(),
            inet(b"\x04\0\x01xGET"),
            version_2(0x20, 0, b"GET"),
        ];
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap() % below
        };
        for round in 0..20_000 {
            let mut bytes = seeds[round % seeds.len()].clone();
            for _ in 0..random(4) {
                let at = random(bytes.len());
                bytes[at] = *[0, b' ', b'\r', b'\n', b'9', b':', 0x21, 0xff, b'P'].get(random(9)).unwrap();
            }
            let mut before = Ok(None);
            for end in 0..=bytes.len() {
                let now = read(&bytes[..end], 64);
                assert!(before == Ok(None) || now.is_err() == before.is_err(), "{end} of {bytes:?}");
                assert!(!matches!(before, Ok(Some(_))) || now == before, "{end} of {bytes:?}");
                before = now;
            }
        }
    }

    #[test]
    fn version_2_malformed() {
        for (command, family, size) in [
            (0x11, 0x11, 12),
            (0x31, 0x11, 12),
            (0x22, 0x11, 12),
            (0x21, 0x41, 12),
            (0x21, 0x13, 12),
            (0x21, 0x11, 11),
            (0x21, 0x21, 35),
            (0x21, 0x31, 215),
        ] {
            refuse(&version_2(command, family, &vec![0; size]));
        }
        for index in 0..SIG.len() {
            let mut bytes = inet(b"");
            bytes[index] ^= 0x20;
            refuse(&bytes);
        }
        assert!(read(&inet(&[0; 100]), 127).is_err());
        assert!(read(&inet(&[0; 99]), 127).is_ok());
    }
}

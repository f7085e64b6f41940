//! The byte classes and small productions of RFC 9110 and RFC 3986 that requests and responses share.
//!
//! Whitespace means SP and HTAB, digits mean 0-9, case means ASCII case: no Unicode-aware function comes near the wire.

use memchr::memchr;

/// `tchar`, RFC 9110 5.6.2.
const TCHAR: u8 = 1;
/// A byte of a field value, RFC 9110 5.5.
const VALUE: u8 = 2;
/// A byte of a request target.
const TARGET: u8 = 4;
/// A byte of `reg-name` that needs no look at the next, RFC 3986 3.2.2.
const REG_NAME: u8 = 8;

/// The classes of each byte: a table costs a third of the comparisons.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut rest: &mut [u8] = &mut classes;
    let mut byte: u8 = 0;
    while let Some((class_of_byte, after)) = rest.split_first_mut() {
        let is_word = byte.is_ascii_alphanumeric();
        let mut class = 0;
        if is_word || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~') {
            class |= TCHAR;
        }
        if (byte >= 0x20 && byte != 0x7f) || byte == b'\t' {
            class |= VALUE;
        }
        if byte > 0x20 && byte < 0x7f && byte != b'#' {
            class |= TARGET;
        }
        if is_word || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'..=b'+' | b';' | b'=') {
            class |= REG_NAME;
        }
        *class_of_byte = class;
        byte = byte.wrapping_add(1);
        rest = after;
    }
    classes
}

/// A byte of `reg-name` that needs no look at the next, RFC 3986 3.2.2.
pub fn is_reg_name_byte(byte: u8) -> bool {
    is_of(REG_NAME, byte)
}

fn is_of(class: u8, byte: u8) -> bool {
    CLASSES.get(usize::from(byte)).is_some_and(|classes| classes & class != 0)
}

/// `tchar`, RFC 9110 5.6.2.
pub fn is_tchar(byte: u8) -> bool {
    is_of(TCHAR, byte)
}

/// `token`, RFC 9110 5.6.2.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_tchar(byte))
}

/// A byte of a field value, RFC 9110 5.5: visible, SP, HTAB or obs-text; no other control.
pub fn is_value_byte(byte: u8) -> bool {
    is_of(VALUE, byte)
}

/// A whole field value. Controls are searched eight bytes at a time. If there is one, which may be a HTAB, each byte is
/// checked.
pub fn is_value(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().all(|&byte| is_value_byte(byte));
    };
    let words = bytes.chunks_exact(8).filter_map(<[u8]>::first_chunk);
    // The last eight overlap the word before them, unless the length is a multiple of eight.
    let suspicious = words.chain([last]).fold(0, |found, word| found | controls(u64::from_ne_bytes(*word)));
    suspicious == 0 || bytes.iter().all(|&byte| is_value_byte(byte))
}

/// Not 0 if one of the eight bytes in `word` is below 0x20 or is 0x7f.
const fn controls(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let deleted = word ^ (ONES * 0x7f);
    // A borrow may mark the byte above a marked one, but no byte if none should be marked.
    ((word.wrapping_sub(ONES * 0x20) & !word) | (deleted.wrapping_sub(ONES) & !deleted)) & HIGH
}

/// A byte of a request target. RFC 3986 allows fewer. Quotes, backslash, `<>{|}^` and the backtick are accepted because
/// clients send them unescaped and they have no meaning here. `#` is not: it would hide a part of the target.
pub fn is_target_byte(byte: u8) -> bool {
    is_of(TARGET, byte)
}

/// `bytes` without SP and HTAB at both ends: OWS, RFC 9110 5.6.3.
pub fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The members of a comma-separated list, trimmed, empty ones included (RFC 9110 5.6.1).
pub fn members(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(trim)
}

/// A decimal number of digits only, of at most 63 bits (RFC 9110 8.6).
pub fn decimal(bytes: &[u8]) -> Option<u64> {
    let mut number: u64 = 0;
    for &byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        // No more than 63 bits may come out, and 2^63 / 10 times 10 is far from 2^64.
        if digit > 9 || number > i64::MAX as u64 / 10 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    (!bytes.is_empty() && number >> 63 == 0).then_some(number)
}

/// `uri-host [ ":" port ]` as `Host` and an authority hold it: RFC 9110 7.2, RFC 3986 3.2.2 and 3.2.3.
///
/// No userinfo. No comma, although RFC 3986 allows it in a name: two Host fields that were merged look like that.
pub fn is_host(bytes: &[u8]) -> bool {
    let after = match bytes {
        [b'[', rest @ ..] => {
            let Some((literal, after)) = memchr(b']', rest).and_then(|close| rest.split_at_checked(close)) else {
                return false;
            };
            if !is_ipv6(literal) {
                return false;
            }
            after.get(1..).unwrap_or_default()
        }
        _ => {
            let after = after_reg_name(bytes);
            if after.len() == bytes.len() {
                return false;
            }
            after
        }
    };
    match after {
        [] => true,
        [b':', port @ ..] => is_port(port),
        _ => false,
    }
}

/// RFC 3986 3.2.3, up to the largest port.
fn is_port(bytes: &[u8]) -> bool {
    bytes.is_empty() || decimal(bytes).is_some_and(|port| bytes.len() <= 5 && port <= 65535)
}

/// `IPv6address`, RFC 3986 3.2.2. No `IPvFuture`, and no zone (RFC 6874), which has no meaning on another host.
pub fn is_ipv6(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

/// Whether `bytes` may be the begin of an address: one of these ends fits wherever one breaks off.
pub fn begins_ipv6(bytes: &[u8]) -> bool {
    const ENDS: [&[u8]; 8] = [b"", b"0", b":", b"::", b"0.0.0", b".0.0", b"0.0", b".0"];
    ENDS.iter().any(|end| is_ipv6(&[bytes, end].concat()))
}

/// What follows the `reg-name` at the beginning of `bytes`.
fn after_reg_name(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    loop {
        let plain = rest.iter().position(|&byte| !is_reg_name_byte(byte)).unwrap_or(rest.len());
        rest = rest.get(plain..).unwrap_or_default();
        match rest {
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest = after,
            _ => return rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for good in ["a", "a:80", "a:", "127.0.0.1:8080", "[::1]", "[::1]:80", "xn--a.b", "a_b", "%41"] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a b",
            "a,b",
            "u@a",
            "a/b",
            "a:b",
            "a:65536",
            "a:000080",
            "[::1",
            "[]",
            "[a]",
            "[::1]x",
            "a%4",
            "[::1%25eth0]",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn an_address_begins_as_one_and_nothing_else_does() {
        for whole in [
            "::",
            "::1",
            "1::",
            "1::2:3:4:5:6:7",
            "::2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "1:2:3:4:5:6:7:8",
            "ABCD:ef01:0000:4:5:6:7:abcd",
            "::ffff:192.0.2.255",
            "::1.2.3.4",
            "64:ff9b::255.255.255.255",
            "1:2:3:4:5:6:192.168.100.200",
        ] {
            assert!(is_ipv6(whole.as_bytes()), "{whole}");
            for end in 0..=whole.len() {
                assert!(begins_ipv6(&whole.as_bytes()[..end]), "{end} of {whole}");
            }
        }
        for bad in [".", ":1", ":::", "12345", "::1::", "::1.2.3.4.", "::256.", "::1.2.3.4:", "1:2:3:4:5:6:7:8:"] {
            assert!(!begins_ipv6(bad.as_bytes()) && begins_ipv6(&bad.as_bytes()[..bad.len() - 1]), "{bad}");
        }
    }

    #[test]
    fn decimals() {
        assert_eq!(decimal(b"9223372036854775807"), Some(i64::MAX as u64));
        for bad in ["", "+1", "-1", "1 ", "0x1", "9223372036854775808", "18446744073709551616", "1,1"] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn values_are_what_their_bytes_are() {
        for byte in 0..=255 {
            for length in [1, 7, 8, 9, 16, 21] {
                for at in 0..length {
                    let mut value = vec![b'a'; length];
                    value[at] = byte;
                    let expected = byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
                    assert_eq!(is_value(&value), expected, "{byte} at {at} of {length}");
                }
            }
        }
        assert!(is_value(b"") && is_value(b"\t\t\t\t\t\t\t\t") && !is_value(b"\x80\x7f345678"));
    }

    #[test]
    fn token_class_is_that_of_the_rfc() {
        let expected = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        for byte in 0..=255 {
            assert_eq!(is_tchar(byte), expected(byte), "{byte}");
        }
    }
}

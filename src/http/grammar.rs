//! The byte classes and small productions of RFC 9110 and RFC 3986 that requests and responses share.
//!
//! Whitespace means SP and HTAB, digits mean 0-9, case means ASCII case: no Unicode-aware function comes near the wire.

use memchr::memchr;

/// `tchar`, RFC 9110 5.6.2.
pub const fn is_tchar(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'^'..=b'z' | b'|' | b'~')
}

/// `token`, RFC 9110 5.6.2.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_tchar(byte))
}

/// A byte of a field value, RFC 9110 5.5: visible, SP, HTAB or obs-text; no other control.
pub const fn is_value_byte(byte: u8) -> bool {
    (byte >= 0x20 && byte != 0x7f) || byte == b'\t'
}

/// A whole field value. Folded without an early exit, which the compiler turns into vector code.
pub fn is_value(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |ok, &byte| ok & is_value_byte(byte))
}

/// A byte of a request target. RFC 3986 allows fewer: quotes, backslash, `<>{|}^` and the backtick are let through
/// because clients send them unescaped and nothing here gives them a meaning; `#` would hide a part of the target.
pub const fn is_target_byte(byte: u8) -> bool {
    byte > 0x20 && byte < 0x7f && byte != b'#'
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
    if bytes.is_empty() {
        return None;
    }
    let mut number: u64 = 0;
    for &byte in bytes {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    (number >> 63 == 0).then_some(number)
}

/// `uri-host [ ":" port ]` as `Host` and an authority hold it: RFC 9110 7.2, RFC 3986 3.2.2 and 3.2.3.
///
/// No userinfo; no comma, though RFC 3986 would let a name hold one: it is how two Host fields look after a merge.
pub fn is_host(bytes: &[u8]) -> bool {
    let (name, port) = match bytes {
        [b'[', rest @ ..] => {
            let Some(close) = memchr(b']', rest) else { return false };
            let (literal, after) = rest.split_at(close);
            let after = after.get(1..).unwrap_or_default();
            if !is_ipv6(literal) {
                return false;
            }
            match after {
                [] => return true,
                [b':', port @ ..] => return is_port(port),
                _ => return false,
            }
        }
        _ => match memchr(b':', bytes) {
            Some(colon) => (bytes.get(..colon).unwrap_or_default(), bytes.get(colon + 1..)),
            None => (bytes, None),
        },
    };
    is_reg_name(name) && port.is_none_or(is_port)
}

fn is_port(bytes: &[u8]) -> bool {
    bytes.is_empty() || decimal(bytes).is_some_and(|port| bytes.len() <= 5 && port <= 65535)
}

fn is_ipv6(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

fn is_reg_name(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    loop {
        match rest {
            [] => return !bytes.is_empty(),
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest = after,
            [byte, after @ ..] if is_reg_name_byte(*byte) => rest = after,
            _ => return false,
        }
    }
}

const fn is_reg_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'='
        )
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
    fn decimals() {
        assert_eq!(decimal(b"9223372036854775807"), Some(i64::MAX as u64));
        for bad in ["", "+1", "-1", "1 ", "0x1", "9223372036854775808", "18446744073709551616", "1,1"] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn token_class_is_that_of_the_rfc() {
        let expected = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        for byte in 0..=255 {
            assert_eq!(is_tchar(byte), expected(byte), "{byte}");
        }
    }
}

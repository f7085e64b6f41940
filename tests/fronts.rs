//! What is believed of `Forwarded` and of the `X-Forwarded-` fields, and what is refused; each with the answer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, dead_code, missing_docs)]

mod seen;

use std::net::IpAddr;

use _engine::http::forwarded::{Client, Fields, Origin, Passing};
use _engine::http::protocol::{Inbound, Step};

const X: [&str; 4] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-prefix"];
const RFC: [&str; 1] = ["forwarded"];

/// Trusted here: 127/8, 10/8, fd00::/8.
fn is_trusted(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets()[0], 10 | 127),
        IpAddr::V6(address) => address.octets()[0] == 0xfd,
    }
}

fn read(names: &[&str], lines: &[&str]) -> Option<Origin> {
    let mut inbound = Inbound::<Vec<u8>>::default();
    let head = format!("GET / HTTP/1.1\r\nHost: front.example\r\n{}\r\n\r\n", lines.join("\r\n"));
    inbound.buffer().extend_from_slice(head.replace("\r\n\r\n\r\n", "\r\n\r\n").as_bytes());
    assert_eq!(inbound.advance(&seen::limits()), Ok(Step::Whole), "{lines:?}");
    let fields = Fields::named(names.iter().copied()).unwrap();
    match Origin::read(inbound.head(), inbound.head_bytes(), fields, is_trusted) {
        Ok(origin) => Some(origin),
        Err(reject) => {
            assert_eq!(reject.status, 400);
            None
        }
    }
}

fn client(names: &[&str], lines: &[&str]) -> String {
    match read(names, lines).map(|origin| origin.client) {
        None => "refused".to_owned(),
        Some(Client::Peer) => "peer".to_owned(),
        Some(Client::Unknown) => "unknown".to_owned(),
        Some(Client::Address(address, port)) => format!("{address} {port}"),
    }
}

/// Scheme, host and prefix, `-` for none.
fn url(names: &[&str], lines: &[&str]) -> String {
    let Some(origin) = read(names, lines) else { return "refused".to_owned() };
    let text = |bytes: Option<Vec<u8>>| bytes.map_or_else(|| "-".to_owned(), |bytes| String::from_utf8(bytes).unwrap());
    let scheme = origin.scheme.map_or("-", _engine::http::forwarded::Scheme::name);
    format!("{scheme} {} {}", text(origin.host), text(origin.prefix))
}

#[test]
fn the_client_is_the_last_hop_that_is_not_trusted() {
    for (value, expected) in [
        ("192.0.2.7", "192.0.2.7 0"),
        ("198.51.100.1, 192.0.2.7", "192.0.2.7 0"),
        ("198.51.100.1, 192.0.2.7, 10.0.0.1", "192.0.2.7 0"),
        ("198.51.100.1, 192.0.2.7,10.0.0.1,127.0.0.1", "192.0.2.7 0"),
        ("10.0.0.2, 10.0.0.1", "10.0.0.2 0"),
        ("127.0.0.1", "127.0.0.1 0"),
        // What stands left of the client is its own text.
        ("'; drop table, 192.0.2.7", "192.0.2.7 0"),
        ("unknown, 192.0.2.7", "192.0.2.7 0"),
        (",,192.0.2.7, ,", "192.0.2.7 0"),
        ("", "peer"),
        (" , ,", "peer"),
        ("192.0.2.7:4711", "192.0.2.7 4711"),
        ("2001:db8::9", "2001:db8::9 0"),
        ("[2001:db8::9]", "2001:db8::9 0"),
        ("[2001:db8::9]:80", "2001:db8::9 80"),
        ("::ffff:192.0.2.7", "192.0.2.7 0"),
        ("192.0.2.7, ::ffff:10.0.0.1", "192.0.2.7 0"),
        ("192.0.2.7, fd00::1, [fd00::2]:80", "192.0.2.7 0"),
        ("192.0.2.7, unknown", "unknown"),
        ("192.0.2.7, _secret", "unknown"),
        ("192.0.2.7, unknown, 10.0.0.1", "unknown"),
        ("unix:", "unknown"),
        ("garbage", "refused"),
        ("192.0.2.7, garbage", "refused"),
        ("garbage, 10.0.0.1", "refused"),
        ("192.0.2.7 192.0.2.8", "refused"),
        ("192.0.2.256", "refused"),
        ("192.0.2.07", "refused"),
        ("192.0.2", "refused"),
        ("3221225991", "refused"),
        ("0x7f000001", "refused"),
        ("192.0.2.7:", "refused"),
        ("192.0.2.7:65536", "refused"),
        ("192.0.2.7:+80", "refused"),
        ("192.0.2.7:80:80", "refused"),
        ("[192.0.2.7]", "refused"),
        ("[2001:db8::9", "refused"),
        ("[2001:db8::9]80", "refused"),
        ("fe80::1%eth0", "refused"),
        ("\"192.0.2.7\"", "refused"),
        ("for=192.0.2.7", "refused"),
        ("localhost", "refused"),
        ("_", "refused"),
        ("192.0.2.7;", "refused"),
        ("192.0.2.7\u{e9}", "refused"),
    ] {
        assert_eq!(client(&X, &[&format!("X-Forwarded-For: {value}")]), expected, "{value}");
    }
    // Several fields are one list.
    let lines = ["X-Forwarded-For: 198.51.100.1", "x-forwarded-for: 192.0.2.7, 10.0.0.1", "X-FORWARDED-FOR: 10.0.0.2"];
    assert_eq!(client(&X, &lines), "192.0.2.7 0");
    assert_eq!(client(&X, &["X-Forwarded-For: junk", "X-Forwarded-For: 192.0.2.7"]), "192.0.2.7 0");
    assert_eq!(client(&X, &[]), "peer");
}

#[test]
fn the_url_is_what_the_nearest_front_server_says() {
    for (lines, expected) in [
        (vec![], "- - -"),
        (vec!["X-Forwarded-Proto: https"], "https - -"),
        (vec!["X-Forwarded-Proto: HTTP"], "http - -"),
        (vec!["X-Forwarded-Proto: https, http"], "http - -"),
        (vec!["X-Forwarded-Proto: https", "X-Forwarded-Proto: http"], "http - -"),
        (vec!["X-Forwarded-Proto: gopher, https"], "https - -"),
        (vec!["X-Forwarded-Proto: gopher"], "refused"),
        (vec!["X-Forwarded-Proto: javascript"], "refused"),
        (vec!["X-Forwarded-Proto: https,"], "refused"),
        (vec!["X-Forwarded-Proto:"], "refused"),
        (vec!["X-Forwarded-Proto: https://"], "refused"),
        (vec!["X-Forwarded-Host: www.example:8443"], "- www.example:8443 -"),
        (vec!["X-Forwarded-Host: evil.example, www.example"], "- www.example -"),
        (vec!["X-Forwarded-Host: [2001:db8::1]:80"], "- [2001:db8::1]:80 -"),
        (vec!["X-Forwarded-Host:"], "refused"),
        (vec!["X-Forwarded-Host: user@www.example"], "refused"),
        (vec!["X-Forwarded-Host: www.example/path"], "refused"),
        (vec!["X-Forwarded-Host: www.example:70000"], "refused"),
        (vec!["X-Forwarded-Host: www.example:0"], "refused"),
        (vec!["X-Forwarded-Host: [2001:db8::1]:00"], "refused"),
        (vec!["X-Forwarded-Host: www.example:"], "- www.example: -"),
        (vec!["X-Forwarded-Host: [2001:db8::]"], "- [2001:db8::] -"),
        (vec!["X-Forwarded-Host: 0"], "- 0 -"),
        (vec!["X-Forwarded-Host: a b"], "refused"),
        (vec!["X-Forwarded-Prefix: /app"], "- - /app"),
        (vec!["X-Forwarded-Prefix: /app/"], "- - /app"),
        (vec!["X-Forwarded-Prefix: /a/b%20c"], "- - /a/b%20c"),
        (vec!["X-Forwarded-Prefix: /"], "- - "),
        (vec!["X-Forwarded-Prefix:"], "- - "),
        (vec!["X-Forwarded-Prefix: app"], "refused"),
        (vec!["X-Forwarded-Prefix: //evil.example"], "refused"),
        (vec!["X-Forwarded-Prefix: /a//b"], "refused"),
        (vec!["X-Forwarded-Prefix: /a/../b"], "refused"),
        (vec!["X-Forwarded-Prefix: /a/%2e%2E/b"], "refused"),
        (vec!["X-Forwarded-Prefix: /a/..;x/b"], "refused"),
        (vec!["X-Forwarded-Prefix: /.;/b"], "refused"),
        (vec!["X-Forwarded-Prefix: /a%0d%0aSet-Cookie:x"], "refused"),
        (vec!["X-Forwarded-Prefix: /%00"], "refused"),
        (vec!["X-Forwarded-Prefix: /%7F"], "refused"),
        (vec!["X-Forwarded-Prefix: /%2fevil.example"], "refused"),
        (vec!["X-Forwarded-Prefix: /%zz"], "refused"),
        (vec!["X-Forwarded-Prefix: /a%2"], "refused"),
        (vec!["X-Forwarded-Prefix: /\\evil.example"], "refused"),
        (vec!["X-Forwarded-Prefix: http://evil.example/"], "refused"),
        (vec!["X-Forwarded-Prefix: /a?b"], "refused"),
        (vec!["X-Forwarded-Prefix: /a#b"], "refused"),
        (vec!["X-Forwarded-Prefix: /a, /b"], "refused"),
        (vec!["X-Forwarded-Prefix: /a b"], "refused"),
        (vec!["X-Forwarded-Prefix: /\u{e9}"], "refused"),
        (vec!["X-Forwarded-Prefix: /evil", "X-Forwarded-Prefix: /app"], "- - /app"),
    ] {
        assert_eq!(url(&X, &lines), expected, "{lines:?}");
    }
}

#[test]
fn only_the_fields_that_are_named_are_read() {
    let lines = [
        "X-Forwarded-For: 192.0.2.7",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: www.example",
        "X-Forwarded-Prefix: /app",
        "Forwarded: for=192.0.2.8;proto=http;host=other.example",
    ];
    assert_eq!((client(&X, &lines), url(&X, &lines)), ("192.0.2.7 0".into(), "https www.example /app".into()));
    assert_eq!((client(&RFC, &lines), url(&RFC, &lines)), ("192.0.2.8 0".into(), "http other.example -".into()));
    assert_eq!((client(&X[..1], &lines), url(&X[..1], &lines)), ("192.0.2.7 0".into(), "- - -".into()));
    assert_eq!((client(&X[1..2], &lines), url(&X[1..2], &lines)), ("peer".into(), "https - -".into()));
    assert_eq!(client(&X[1..2], &["X-Forwarded-For: junk"]), "peer");
    assert_eq!(client(&[], &["X-Forwarded-For: junk", "Forwarded: ;;;=", "X-Forwarded-Proto: junk"]), "peer");
    assert!(Fields::named(["x-forwarded-port"]).is_none());
}

#[test]
fn forwarded_as_the_rfc_has_it() {
    for (value, expected) in [
        ("for=192.0.2.7", "192.0.2.7 0"),
        ("For=\"192.0.2.7:80\"", "192.0.2.7 80"),
        ("for=\"[2001:db8::9]:4711\"", "2001:db8::9 4711"),
        ("for=\"[2001:db8::9]\"", "2001:db8::9 0"),
        ("for=\"\\[2001:db8::9\\]:\\4711\"", "2001:db8::9 4711"),
        ("for=\"192.0.2.7:_p\"", "192.0.2.7 0"),
        ("for=unknown", "unknown"),
        ("for=\"Unknown:80\"", "unknown"),
        ("for=_hidden", "unknown"),
        ("for=\"_hidden:_port\"", "unknown"),
        ("proto=https", "unknown"),
        ("for=198.51.100.1, for=192.0.2.7;by=10.0.0.1", "192.0.2.7 0"),
        ("for=192.0.2.7;proto=https,for=10.0.0.1;ext=\"a,b;c\"", "192.0.2.7 0"),
        ("for=198.51.100.1;;proto=http;, ,for=192.0.2.7,", "192.0.2.7 0"),
        ("for=10.0.0.2,for=10.0.0.1", "10.0.0.2 0"),
        ("for=garbage, for=192.0.2.7", "192.0.2.7 0"),
        ("", "peer"),
        (", ,", "peer"),
        ("for=garbage", "refused"),
        ("for=", "refused"),
        ("for", "refused"),
        ("=192.0.2.7", "refused"),
        ("for=192.0.2.7;for=192.0.2.8", "refused"),
        ("for=192.0.2.7 ;proto=http", "refused"),
        ("for=192.0.2.7; proto=http", "refused"),
        ("for =192.0.2.7", "refused"),
        ("for= 192.0.2.7", "refused"),
        ("for=192.0.2.7 for=192.0.2.8", "refused"),
        ("for=[2001:db8::9]", "refused"),
        ("for=2001:db8::9", "refused"),
        ("for=\"2001:db8::9\"", "refused"),
        ("for=192.0.2.7:80", "refused"),
        ("for=\"192.0.2.7", "refused"),
        ("for=\"192.0.2.7\\", "refused"),
        ("for=\"192.0.2.7\"x", "refused"),
        ("for=\"\"", "refused"),
        ("for=_", "refused"),
        ("for=192.0.2.7;proto=ftp", "refused"),
        ("for=192.0.2.7;host=\"a b\"", "refused"),
        ("192.0.2.7", "refused"),
        // A client cannot swallow what the front server adds behind its own text.
        ("for=\", for=192.0.2.7", "refused"),
        ("for=198.51.100.1;x=\", for=\"192.0.2.7:1\"", "refused"),
        ("for=198.51.100.1;x=\"\\, for=\"[2001:db8::9]\"", "refused"),
    ] {
        assert_eq!(client(&RFC, &[&format!("Forwarded: {value}")]), expected, "{value}");
    }
    // A quoted string does not go on in the next field.
    assert_eq!(client(&RFC, &["Forwarded: for=\"", "Forwarded: \";for=192.0.2.7"]), "refused");
    assert_eq!(client(&RFC, &["Forwarded: for=198.51.100.1", "Forwarded: for=192.0.2.7"]), "192.0.2.7 0");
}

#[test]
fn scheme_and_host_belong_to_the_hop_of_the_client() {
    for (value, expected) in [
        ("for=192.0.2.7;proto=https;host=www.example", "https www.example -"),
        ("for=192.0.2.7;proto=https;host=\"www.example:8443\",for=10.0.0.1;proto=http", "https www.example:8443 -"),
        ("for=192.0.2.7,for=10.0.0.1;proto=http;host=inner.example", "- - -"),
        ("for=198.51.100.1;host=evil.example;proto=https,for=192.0.2.7;proto=http", "http - -"),
        ("for=unknown;PROTO=HTTPS", "https - -"),
    ] {
        assert_eq!(url(&RFC, &[&format!("Forwarded: {value}")]), expected, "{value}");
    }
}

#[test]
fn what_reaches_the_application() {
    let only = |names: &[&str]| Passing::Only(Fields::named(names.iter().copied()).unwrap());
    for (passing, name, expected) in [
        (Passing::All, "X-Forwarded-For", true),
        (Passing::None, "X-Forwarded-For", false),
        (Passing::None, "x-forwarded-user", false),
        (Passing::None, "FORWARDED", false),
        (Passing::None, "X-Real-IP", false),
        (Passing::None, "X-Forwarded", true),
        (Passing::None, "Host", true),
        (only(&X), "X-Forwarded-Host", true),
        (only(&X), "Forwarded", false),
        (only(&X[..1]), "X-Forwarded-Host", false),
        (only(&RFC), "Forwarded", true),
        (only(&RFC), "X-Forwarded-For", false),
        (only(&RFC), "X-Forwarded-User", true),
    ] {
        assert_eq!(passing.lets(name.as_bytes()), expected, "{passing:?} {name}");
    }
}

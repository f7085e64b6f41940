//! Any status, fields and blocks that an application may give: a refusal exactly where they are not HTTP, else one
//! well-formed response with just what was given, and not a byte more.
//!
//! Input: a byte of flags, then records: the status, then `name US value` for each field, separated by RS; after a GS
//! the blocks of the body, separated by RS. The separators are controls, so they are no loss: others stand for them.

#![no_main]

use _engine::http::head::Version;
use _engine::http::own_fields::OwnFields;
use _engine::http::response::{Asked, Framing, LAST_CHUNK, ResponseHead, chunk};
use libfuzzer_sys::fuzz_target;

const GS: u8 = 0x1d;
const RS: u8 = 0x1e;
const US: u8 = 0x1f;

type Fields<'a> = Vec<(&'a [u8], &'a [u8])>;

fuzz_target!(|input: &[u8]| {
    let (flags, rest) = input.split_first().unwrap_or((&0, input));
    let asked = Asked {
        is_head: flags & 1 != 0,
        version: if flags & 2 != 0 { Version::Http10 } else { Version::Http11 },
        persistent: flags & 4 != 0,
    };
    let (head, body) = split(rest, GS);
    let mut records = head.split(|&byte| byte == RS);
    let status = records.next().unwrap_or_default();
    let fields: Fields<'_> = records.map(|record| split(record, US)).collect();
    let blocks: Vec<&[u8]> = body.split(|&byte| byte == RS).collect();
    // What becomes of the content of 205 (RFC 9110 15.3.6) is held by tests of its own.
    if status.starts_with(b"205") {
        return;
    }

    let mut out = b"before".to_vec();
    let encoded = encode(&mut out, asked, status, &fields, &blocks, flags & 8 != 0);
    assert!(out.starts_with(b"before"), "an answer before this one was touched");
    assert_eq!(encoded.is_some(), is_http(status, &fields), "refused exactly what is not HTTP");
    if let Some((framing, persistent)) = encoded {
        check(&out[6..], asked, status, &fields, &blocks, framing, persistent);
    }
});

fn split(bytes: &[u8], separator: u8) -> (&[u8], &[u8]) {
    let at = bytes.iter().position(|&byte| byte == separator).unwrap_or(bytes.len());
    (&bytes[..at], bytes.get(at + 1..).unwrap_or_default())
}

/// As `wsgi/start_response.rs` and `wsgi/exchange.rs` do it. None: refused.
fn encode(
    out: &mut Vec<u8>,
    asked: Asked,
    status: &[u8],
    fields: &[(&[u8], &[u8])],
    blocks: &[&[u8]],
    is_known: bool,
) -> Option<(Framing, bool)> {
    let mut head = ResponseHead::begin(out, status).ok()?;
    for (name, value) in fields {
        head.field(out, name, value).ok()?;
    }
    let total = is_known.then(|| blocks.iter().map(|block| block.len() as u64).sum());
    let (framing, persistent) = head.finish(out, asked, total, OwnFields::new(b"poor").at(784_111_777));
    match framing {
        Framing::None => {}
        Framing::Length(length) => {
            let body = blocks.concat();
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(body.len());
            out.extend_from_slice(&body[..length]);
        }
        Framing::Chunked => {
            for block in blocks.iter().filter(|block| !block.is_empty()) {
                chunk(out, block);
            }
            out.extend_from_slice(LAST_CHUNK);
        }
        Framing::Close => blocks.iter().for_each(|block| out.extend_from_slice(block)),
    }
    Some((framing, persistent))
}

/// RFC 9112 4, RFC 9110 5 and 8.6, in other words than the engine's.
fn is_http(status: &[u8], fields: &[(&[u8], &[u8])]) -> bool {
    let (code, reason) = status.split_at(status.len().min(3));
    let is_text = |bytes: &[u8]| bytes.iter().all(|&byte| byte == b'\t' || !byte.is_ascii_control());
    let is_name = |bytes: &[u8]| {
        let is_tchar = |byte: &u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte);
        !bytes.is_empty() && bytes.iter().all(is_tchar)
    };
    let is_status = code.len() == 3
        && code.iter().all(u8::is_ascii_digit)
        && (b'2'..=b'5').contains(&code[0])
        && reason.first().is_none_or(|&byte| byte == b' ')
        && is_text(reason);
    let lengths: Vec<_> = lengths(fields).map(length).collect();
    is_status
        && fields.iter().all(|(name, value)| is_name(name) && is_text(value))
        && lengths.iter().all(|length| length.is_some() && *length == lengths[0])
}

fn lengths<'a>(fields: &[(&'a [u8], &'a [u8])]) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"content-length")).map(|(_, value)| *value)
}

fn length(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit).then_some(value)?;
    std::str::from_utf8(digits).ok()?.parse::<i64>().ok().map(i64::unsigned_abs)
}

const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// Read the answer back as a client does that knows what it asked for (RFC 9112 6.3).
fn check(
    out: &[u8],
    asked: Asked,
    status: &[u8],
    fields: &[(&[u8], &[u8])],
    blocks: &[&[u8]],
    framing: Framing,
    persistent: bool,
) {
    let mut space = vec![httparse::EMPTY_HEADER; fields.len() + 5];
    let mut answer = httparse::Response::new(&mut space);
    let length = answer.parse(out).expect("not a response").unwrap();
    assert!(out[..length].starts_with(&[b"HTTP/1.1 ", status].concat()));
    let code = answer.code.unwrap();
    assert_eq!(code.to_string().as_bytes(), &status[..3]);

    let is_own = |name: &str| HOP_BY_HOP.contains(&name) || name == "content-length";
    let (own, told): (Vec<_>, Vec<_>) = answer
        .headers
        .iter()
        .map(|field| (field.name.to_ascii_lowercase(), field.value))
        .partition(|(name, _)| is_own(name));
    let mut expected: Vec<_> = fields
        .iter()
        .map(|(name, value)| (String::from_utf8(name.to_ascii_lowercase()).unwrap(), trim(value)))
        .filter(|(name, _)| !is_own(name))
        .collect();
    for (name, value) in [("date", b"Sun, 06 Nov 1994 08:49:37 GMT".as_slice()), ("server", b"poor")] {
        if !expected.iter().any(|(given, _)| given == name) {
            expected.push((name.to_owned(), value));
        }
    }
    assert_eq!(told, expected, "the fields are those of the application, then Date and Server");

    let one = |name: &str| {
        let values: Vec<_> = own.iter().filter(|(own, _)| own == name).map(|(_, value)| *value).collect();
        assert!(values.len() <= 1, "{name} comes more than once");
        values.first().copied()
    };
    let (announced, coding, connection) = (one("content-length"), one("transfer-encoding"), one("connection"));
    assert_eq!(own.len(), [announced, coding, connection].iter().flatten().count(), "hop-by-hop fields leak");
    assert!(announced.is_none() || coding.is_none());
    assert!(persistent <= asked.persistent);
    match connection {
        None => assert!(persistent && asked.version == Version::Http11),
        Some(b"keep-alive") => assert!(persistent && asked.version == Version::Http10),
        Some(b"close") => assert!(!persistent),
        Some(other) => panic!("Connection: {other:?}"),
    }
    let given = lengths(fields).next().and_then(self::length);
    let (rest, body) = (&out[length..], blocks.concat());
    if asked.is_head || code == 204 || code == 304 {
        assert!(framing == Framing::None && rest.is_empty() && coding.is_none());
        assert!(code != 204 || announced.is_none());
        assert!(code != 304 || announced.and_then(self::length) == given, "RFC 9110 8.6");
        return;
    }
    match (announced.and_then(self::length), coding) {
        (Some(length), None) => {
            assert_eq!(framing, Framing::Length(length));
            assert_eq!(length, given.unwrap_or(body.len() as u64));
            assert!(body.starts_with(rest) && rest.len() as u64 == length.min(body.len() as u64));
        }
        (None, Some(b"chunked")) => {
            assert!(framing == Framing::Chunked && asked.version == Version::Http11 && given.is_none());
            assert_eq!(unchunk(rest), Some(body));
        }
        (None, None) => {
            assert!(framing == Framing::Close && !persistent && given.is_none());
            assert_eq!(rest, body);
        }
        (length, coding) => panic!("{length:?} {coding:?}"),
    }
}

fn trim(value: &[u8]) -> &[u8] {
    let is_visible = |byte: &u8| *byte != b' ' && *byte != b'\t';
    let Some(start) = value.iter().position(is_visible) else { return b"" };
    let end = value.iter().rposition(is_visible).map_or(start, |last| last + 1);
    &value[start..end]
}

/// The data of chunks that are the whole of `bytes`.
fn unchunk(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut data, mut rest) = (Vec::new(), bytes);
    loop {
        let httparse::Status::Complete((line, size)) = httparse::parse_chunk_size(rest).ok()? else { return None };
        let (piece, after) = rest[line..].split_at_checked(usize::try_from(size).ok()?)?;
        data.extend_from_slice(piece);
        rest = after.strip_prefix(b"\r\n")?;
        if size == 0 {
            return rest.is_empty().then_some(data);
        }
    }
}

//! Any bytes as a head: the same verdict in all pieces; and what is accepted is read in the same way by a lenient parser
//! (httparse), is framed as its fields say (RFC 9112 6.3), and is no desync attack to http_desync_guardian.

#![no_main]

use _engine::http::framing::BodyFraming;
use _engine::http::head_parser::HeadParser;
use _engine::limits::Limits;
use http_desync_guardian::http_token_utils::{TokenSimilarity, determine_similarity};
use http_desync_guardian::request_analyzer::HttpRequestData;
use http_desync_guardian::{ClassificationReason, RequestSafetyTier};
use libfuzzer_sys::fuzz_target;
use observe::{Request, layout};

fuzz_target!(|input: &[u8]| {
    let (limits, pieces) = layout(input);
    let bytes = pieces.concat();
    let whole = parse([bytes.as_slice()], &limits);
    assert_eq!(parse(pieces, &limits), whole, "in the pieces of the input");
    assert_eq!(parse(bytes.chunks(1), &limits), whole, "byte by byte");
    if let Ok(Some((request, length))) = whole {
        assert!(length <= limits.max_head && bytes[..length].ends_with(b"\r\n\r\n"));
        let head = bytes[..length].strip_prefix(b"\r\n").unwrap_or(&bytes[..length]);
        compare(&request, head, &limits);
        judge(&request, head);
    }
});

/// The request and the length of its head; None where it is not complete; the status of a refusal.
fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Result<Option<(Request, usize)>, u16> {
    let mut parser = HeadParser::default();
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        if parser.parse(&bytes, limits).map_err(|reject| reject.status)? {
            return Ok(Some((Request::new(&parser.head, &bytes, b""), parser.length())));
        }
    }
    Ok(None)
}

/// A parser that takes more reads the same, and nothing that frames or routes was overlooked.
fn compare(request: &Request, head: &[u8], limits: &Limits) {
    // It knows no other minor version.
    let line = head.iter().position(|&byte| byte == b'\r').unwrap();
    let mut head = head.to_vec();
    head[line - 1] = if request.is_http_10 { b'0' } else { b'1' };
    let mut fields = [httparse::EMPTY_HEADER; 201];
    let mut other = httparse::Request::new(&mut fields);
    let length = other.parse(&head).expect("httparse refuses what we accept").unwrap();
    assert_eq!(length, head.len());
    assert_eq!(other.method.unwrap().as_bytes(), request.method);
    assert_eq!(other.path.unwrap().as_bytes(), request.target);
    assert!(other.headers.len() <= limits.max_fields);

    let named = |name: &str| -> Vec<&[u8]> {
        other.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value).collect()
    };
    let is_dropped = |name: &str| name.contains('_') || name.eq_ignore_ascii_case("proxy");
    let kept: Vec<_> = other
        .headers
        .iter()
        .filter(|field| !is_dropped(field.name))
        .map(|field| (field.name.as_bytes().to_vec(), field.value.to_vec()))
        .collect();
    assert_eq!(kept, request.fields);
    for (_, value) in &kept {
        assert!(value.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f));
    }
    let hosts = named("host").len();
    assert!(hosts == 1 || request.is_http_10 && hosts == 0, "RFC 9112 3.2");
    match (named("transfer-encoding").as_slice(), named("content-length").as_slice()) {
        ([], []) => assert_eq!(request.framing, BodyFraming::None),
        ([], [length]) => {
            assert!(length.iter().all(u8::is_ascii_digit));
            let length = std::str::from_utf8(length).unwrap().parse::<i64>().unwrap();
            assert_eq!(request.framing, BodyFraming::Length(length.unsigned_abs()));
        }
        ([coding], []) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked") && !request.is_http_10);
            assert_eq!(request.framing, BodyFraming::Chunked);
        }
        (codings, lengths) => panic!("ambiguous framing was accepted: {codings:?} {lengths:?}"),
    }
}

/// Its verdict is Compliant or Acceptable, but for what is decided otherwise here.
fn judge(request: &Request, head: &[u8]) {
    // It takes names that resemble these two for them. Here they frame nothing, and with an underscore they are dropped.
    let resembles = |name: &[u8]| {
        [b"transfer-encoding".as_slice(), b"content-length"]
            .iter()
            .any(|framing| determine_similarity(framing, name) == TokenSimilarity::SameLetters)
    };
    let names = head.split(|&byte| byte == b'\n').filter_map(|line| line.split(|&byte| byte == b':').next());
    if names.into_iter().any(resembles) {
        return;
    }
    let verdict = HttpRequestData::analyze_raw_request(head);
    if verdict.tier <= RequestSafetyTier::Acceptable {
        return;
    }
    let is_explained = match verdict.reason {
        // RFC 9112 6.3: how a body is framed does not depend on the method, here as for its proxy.
        ClassificationReason::UndefinedContentLengthSemantics
        | ClassificationReason::UndefinedTransferEncodingSemantics => {
            matches!(request.method.as_slice(), b"GET" | b"HEAD")
        }
        // Quotes, backslash, `<>{|}^` and the backtick are let through: nothing gives them a meaning.
        ClassificationReason::AmbiguousUri => {
            request.target.iter().any(|byte| b"\"\\<>{|}^`".contains(byte))
                && request.target.iter().all(|&byte| byte > b' ' && byte < 0x7f)
        }
        _ => false,
    };
    let text = String::from_utf8_lossy(head);
    assert!(is_explained, "{:?}, {:?}: {:?}\n{text:?}", verdict.tier, verdict.reason, verdict.message);
}

//! Feeds every case of `tests/corpus` to the protocol: whole, one byte at a time, cut in two at every place, and with
//! bytes behind it. However the bytes are cut, the requests and the verdict are the same.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod seen;

use std::fs;
use std::path::{Path, PathBuf};

use _engine::http::protocol::{BodySink, Inbound, Step};
use _engine::http::reject::Reject;
use _engine::limits::Limits;
use seen::{Seen, cuts, feed, limits};
use serde_json::{Value, json};

const TRAILING: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
/// Longer cases are cut in two near what means something only (`seen::cuts`): everywhere would take minutes.
const CUT_ALL: usize = 1500;

fn cases(kind: &str) -> Vec<(PathBuf, Vec<u8>, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(kind);
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "http"));
    names.sort();
    assert!(names.len() > 50, "the corpus is not there");
    let read = |path: PathBuf| {
        let facts = serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        (path.clone(), fs::read(path).unwrap(), facts)
    };
    names.into_iter().map(read).collect()
}

/// All ways of cutting give what the whole gives.
fn assert_same_in_pieces(path: &Path, bytes: &[u8], whole: &Seen) {
    assert_eq!(&feed(bytes.chunks(1)), whole, "{}: byte by byte", path.display());
    for cut in cuts(bytes, CUT_ALL.pow(2)) {
        assert_eq!(&feed([&bytes[..cut], &bytes[cut..]]), whole, "{}: cut at {cut}", path.display());
    }
}

#[test]
fn valid_cases_give_their_requests() {
    for (path, bytes, case) in cases("valid") {
        let seen = feed([bytes.as_slice()]);
        assert_eq!(seen.refused, None, "{}", path.display());
        let expected = case["requests"].as_array().unwrap();
        assert_eq!(seen.requests.len(), expected.len(), "{}", path.display());
        for (request, expected) in seen.requests.iter().zip(expected) {
            for name in ["method", "target", "query", "version", "fields", "body", "persistent"] {
                assert_eq!(request[name], expected[name], "{}: {name}", path.display());
            }
            if let Some(host) = expected.get("host") {
                assert_eq!(&request["host"], host, "{}", path.display());
            }
            assert_eq!(request["answered_by_server"] == true, expected.get("answered_by_server") == Some(&json!(true)));
        }
        assert_same_in_pieces(&path, &bytes, &seen);
    }
}

#[test]
fn invalid_cases_are_refused_with_their_status() {
    for (path, bytes, case) in cases("invalid") {
        let seen = feed([bytes.as_slice()]);
        assert_eq!(seen.refused.map(u64::from), case["status"].as_u64(), "{}: {seen:?}", path.display());
        let after = case.get("after").and_then(Value::as_u64).unwrap_or(0);
        assert_eq!(seen.requests.len() as u64, after, "{}", path.display());
        assert_same_in_pieces(&path, &bytes, &seen);
        assert_eq!(feed([bytes.as_slice(), TRAILING]), seen, "{}: with bytes behind it", path.display());
        assert_eq!(
            feed([[&bytes, TRAILING].concat().as_slice()]),
            seen,
            "{}: with bytes behind it, at once",
            path.display()
        );
    }
}

/// A body that counts how often it is written.
#[derive(Default)]
struct Counted(Vec<u8>, usize);

impl BodySink for Counted {
    fn write(&mut self, data: &[u8], _: Option<u64>, _: &Limits) -> Result<(), Reject> {
        self.0.extend_from_slice(data);
        self.1 += 1;
        Ok(())
    }
}

#[test]
fn tiny_chunks_of_one_read_are_written_at_once() {
    let mut bytes = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    bytes.extend_from_slice(&b"1\r\na\r\n2;x=y\r\nbc\r\n".repeat(300));
    bytes.extend_from_slice(b"0\r\nTrailer-Field: x\r\n\r\nGET ");
    let mut inbound = Inbound::<Counted>::default();
    inbound.buffer().extend_from_slice(&bytes);
    assert_eq!(inbound.advance(&limits()), Ok(Step::Whole));
    assert_eq!(inbound.body.0, b"abc".repeat(300));
    assert_eq!(inbound.body.1, 1);
    inbound.next_request();
    assert_eq!(inbound.head_bytes(), b"GET ");
}

#[test]
fn what_a_refused_client_has_still_to_send_is_known() {
    let left = |bytes: &[u8]| {
        let mut inbound = Inbound::<Vec<u8>>::default();
        inbound.buffer().extend_from_slice(bytes);
        while inbound.advance(&limits()) == Ok(Step::Continue) {}
        inbound.announced()
    };
    let head = |lines: &str| format!("PUT / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    for (request, expected) in [
        (head(""), 0),
        (head("Content-Length: 5\r\n") + "abc", 2),
        (head("Content-Length: 5\r\n") + "abcde", 0),
        (head("Content-Length: 99999999999\r\n") + "abc", 99_999_999_996),
        (head("Content-Length: 99999999999\r\nExpect: 100-continue\r\n"), 0),
        (head("Content-Length: 99999999999\r\nExpect: 100-continue\r\n") + "abc", 99_999_999_996),
        (head("Content-Length: 5\r\nExpect: 200-ok\r\n") + "abc", 2),
        (head("Transfer-Encoding: chunked\r\n") + "fffffffff\r\n", u64::MAX),
        (head("Transfer-Encoding: chunked\r\nExpect: 200-ok\r\n"), u64::MAX),
        ("BAD LINE\r\n".to_owned(), 0),
    ] {
        assert_eq!(left(request.as_bytes()), expected, "{request:?}");
    }
}

//! Any stream of bytes, cut anywhere: the same requests and the same end as of the whole, and as byte by byte.
//!
//! Each request that was read, written again in its plainest form, is read as just that request.

#![no_main]

use libfuzzer_sys::fuzz_target;
use observe::{End, feed, layout};

fuzz_target!(|input: &[u8]| {
    let (limits, pieces) = layout(input);
    let bytes = pieces.concat();
    let whole = feed([bytes.as_slice()], &limits);
    assert_eq!(feed(pieces, &limits), whole, "in the pieces of the input");
    assert_eq!(feed(bytes.chunks(1), &limits), whole, "byte by byte");
    for request in whole.requests {
        let again = feed([request.canonical().as_slice()], &limits);
        match again.end {
            End::Refused(status) => panic!("{request:?} is refused with {status} in its plainest form"),
            End::Closed => assert!(!request.persistent),
            End::Open { has_begun, .. } => assert!(request.persistent && !has_begun),
        }
        assert_eq!(again.requests, [request], "the plainest form means something else");
    }
});

//! Any bytes as a chunked body, cut anywhere: the same data, the same end, the same verdict; and what is accepted is read
//! in the same way by a simple reader that has all of it at once (with httparse for the sizes and the trailers).

#![no_main]

use _engine::http::body::Decoder;
use _engine::http::framing::BodyFraming;
use _engine::limits::Limits;
use libfuzzer_sys::fuzz_target;
use observe::layout;

/// The data, how many bytes were used, and whether it is complete; or the status of a refusal.
type Verdict = Result<(Vec<u8>, usize, bool), u16>;

fuzz_target!(|input: &[u8]| {
    let (limits, pieces) = layout(input);
    let bytes = pieces.concat();
    let whole = decode([bytes.as_slice()], &limits);
    assert_eq!(decode(pieces, &limits), whole, "in the pieces of the input");
    assert_eq!(decode(bytes.chunks(1), &limits), whole, "byte by byte");
    if let Ok((data, used, true)) = whole {
        assert!(data.len() as u64 <= limits.max_body && data.len() < used);
        assert_eq!(read(&bytes), Some((data, used)), "the simple reader finds something else");
    }
});

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Verdict {
    let mut decoder = Decoder::new(BodyFraming::Chunked, limits).unwrap().unwrap();
    let (mut data, mut used) = (Vec::new(), 0);
    for mut piece in pieces {
        while !piece.is_empty() {
            let step = decoder.decode(piece, limits).map_err(|reject| reject.status)?;
            assert!(step.consumed > 0 && step.data.len() <= step.consumed, "no progress");
            data.extend_from_slice(step.data);
            used += step.consumed;
            if step.done {
                return Ok((data, used, true));
            }
            piece = &piece[step.consumed..];
        }
    }
    Ok((data, used, false))
}

/// RFC 9112 7.1, from the beginning of `bytes`: the data, and where the body ends.
fn read(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut data, mut at) = (Vec::new(), 0);
    loop {
        // It takes 16 digits at most, and we any number of zeros before them.
        at += bytes[at..].windows(2).take_while(|pair| pair[0] == b'0' && pair[1].is_ascii_hexdigit()).count();
        let httparse::Status::Complete((line, size)) = httparse::parse_chunk_size(&bytes[at..]).ok()? else {
            return None;
        };
        at += line;
        if size == 0 {
            break;
        }
        let end = at + usize::try_from(size).ok()?;
        data.extend_from_slice(bytes.get(at..end)?);
        at = end + 2;
        if bytes.get(end..at)? != b"\r\n" {
            return None;
        }
    }
    let mut trailers = [httparse::EMPTY_HEADER; 201];
    let httparse::Status::Complete((length, trailers)) = httparse::parse_headers(&bytes[at..], &mut trailers).ok()?
    else {
        return None;
    };
    let frames = ["content-length", "transfer-encoding", "host", "trailer", "te", "authorization"];
    let is_forbidden = |name: &str| frames.iter().any(|forbidden| forbidden.eq_ignore_ascii_case(name));
    (!trailers.iter().any(|trailer| is_forbidden(trailer.name))).then_some((data, at + length))
}

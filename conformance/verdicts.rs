//! Tells what the protocol makes of bytes, for the suites and the differential fuzzer, which are in Python.
//!
//! Reads cases from standard input: a length (four bytes, little-endian), then so many bytes. Writes a line of JSON for
//! each: `requests` (as in `tests/corpus`), `refused` (a status or null), and `differs`: where the verdict depends on
//! how the bytes are cut (`"bytes"`: one by one; `"lines"`; a number: in two there), or null. With `--whole` nothing is cut.

#![allow(clippy::unwrap_used)]

#[path = "../tests/seen/mod.rs"]
mod seen;

use std::io::{self, Read, Write};

use seen::{Seen, cuts, feed};
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let is_cut = std::env::args().all(|argument| argument != "--whole");
    let (mut input, mut output) = (io::stdin().lock(), io::BufWriter::new(io::stdout().lock()));
    let mut length = [0; 4];
    while input.read_exact(&mut length).is_ok() {
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        input.read_exact(&mut bytes)?;
        let whole = feed([bytes.as_slice()]);
        let differs = if is_cut { difference(&bytes, &whole) } else { Value::Null };
        let verdict = json!({"requests": whole.requests, "refused": whole.refused, "differs": differs});
        writeln!(output, "{verdict}")?;
        output.flush()?;
    }
    Ok(())
}

/// Bytes read for one case cut in two at every place, 7 KB long; `seen::cuts` has fewer places for longer ones.
const BUDGET: usize = 50_000_000;

/// The first way of cutting that gives another verdict.
fn difference(bytes: &[u8], whole: &Seen) -> Value {
    if feed(bytes.chunks(1)) != *whole {
        return json!("bytes");
    }
    if feed(bytes.split_inclusive(|&byte| byte == b'\n')) != *whole {
        return json!("lines");
    }
    let changes = |&cut: &usize| feed(<[&[u8]; 2]>::from(bytes.split_at(cut))) != *whole;
    json!(cuts(bytes, BUDGET).into_iter().find(changes))
}

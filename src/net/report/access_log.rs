//! The access log: one line for each answer, written in batches and without a call into Python.
//!
//! Every field that a client can influence is escaped, so that no client can forge a line or a field.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::append::append;
use super::calendar::{local, name};
use crate::http::head::{RequestHead, Version};
use crate::net::clock;
use crate::net::lock::lock;

/// A batch is written at the latest when it has so many bytes.
const BATCH: usize = 32 * 1024;

/// How many bytes of lines are kept while the log takes nothing. More lines are thrown away.
const KEPT: usize = 1024 * 1024;

/// How long the last lines of a process wait for a log that takes nothing.
const LAST_PATIENCE: Duration = Duration::from_millis(200);

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Poor Http's own: `HOST CLIENT - [18/Sep/2013 23:29:01] "GET / HTTP/1.1" 200 514`.
    Poor,
    /// Apache's combined.
    Combined,
    /// One JSON object.
    Json,
}

/// The facts about an answer and its request that are logged.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The client; none if it has no address.
    pub peer: Option<SocketAddr>,
    /// The request, as far as it was read.
    pub head: &'a RequestHead,
    /// What the spans of the head point into.
    pub bytes: &'a [u8],
    /// The id of the request, if it has one.
    pub id: Option<&'a str>,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of its body, without framing.
    pub length: u64,
}

/// The access log.
#[derive(Debug)]
pub struct AccessLog {
    descriptor: Option<RawFd>,
    format: Format,
    batch: Mutex<Batch>,
}

#[derive(Debug, Default)]
struct Batch {
    lines: String,
    /// An empty buffer, for new lines while the others are written.
    spare: String,
    /// How many lines were lost since the log took any.
    lost: usize,
    second: u64,
    /// By how many seconds local time is ahead of UTC, in this quarter of an hour.
    offset: i64,
    quarter: Option<u64>,
    /// The current second, as lines have it.
    time: String,
}

impl Batch {
    /// Keep lines that the log did not take.
    fn keep(&mut self, rest: &str) {
        if rest.len() + self.lines.len() <= KEPT {
            self.lines.insert_str(0, rest);
        } else {
            self.lost += count(rest);
        }
    }
}

/// How many lines these are.
fn count(lines: &str) -> usize {
    lines.matches('\n').count()
}

impl AccessLog {
    /// A log that appends to `descriptor`. Its owner reopens the log by `dup2` onto the same number.
    pub fn new(descriptor: Option<RawFd>, format: Format) -> Self {
        Self { descriptor, format, batch: Mutex::default() }
    }

    /// Whether anything is logged at all.
    pub fn is_on(&self) -> bool {
        self.descriptor.is_some()
    }

    /// Add a line. `utc_offset` tells by how many seconds local time is ahead of UTC at a second. Returns whether to flush.
    pub fn record(&self, entry: &Entry<'_>, utc_offset: impl FnOnce(u64) -> i64) -> bool {
        let second = clock::unix_second();
        let quarter = Some(second / 900);
        // Asked without the lock: the interpreter answers, and may run another thread first.
        let is_new = lock(&self.batch).quarter != quarter;
        let offset = is_new.then(|| utc_offset(second));
        let mut batch = lock(&self.batch);
        if let Some(offset) = offset {
            batch.quarter = quarter;
            batch.offset = offset;
            batch.second = 0;
        }
        if batch.second != second {
            batch.second = second;
            batch.time = time(self.format, second, batch.offset);
        }
        let Batch { lines, time, .. } = &mut *batch;
        // Writing into memory cannot fail.
        let _ = match self.format {
            Format::Poor => poor(lines, time, entry),
            Format::Combined => combined(lines, time, entry),
            Format::Json => json(lines, time, entry),
        };
        batch.lines.len() > BATCH
    }

    /// Write the lines that are still here. Where the log takes nothing, this waits for as long as `keeps_waiting` says so.
    /// Returns what is to be told of lines that are lost.
    pub fn flush(&self, keeps_waiting: impl Fn() -> bool) -> Option<String> {
        let descriptor = self.descriptor?;
        let mut lines = {
            let mut batch = lock(&self.batch);
            if batch.lines.is_empty() {
                return None;
            }
            let spare = std::mem::take(&mut batch.spare);
            std::mem::replace(&mut batch.lines, spare)
        };
        let (written, fault) = append(descriptor, lines.as_bytes(), keeps_waiting);
        let rest = lines.get(written..).unwrap_or_default();
        let mut batch = lock(&self.batch);
        let lost = batch.lost;
        if let Some(fault) = fault {
            batch.lost += count(rest);
            return (lost == 0).then(|| format!("access log: {fault}; its lines are lost while that is so"));
        }
        if !rest.is_empty() {
            batch.keep(rest);
            return None;
        }
        batch.lost = 0;
        lines.clear();
        batch.spare = lines;
        (lost > 0).then(|| format!("access log: it takes lines again; {lost} are lost"))
    }

    /// Write the last lines of this process. The program that reads the log may be slow, but is not waited for long.
    pub fn flush_last(&self) {
        let end = Instant::now() + LAST_PATIENCE;
        // Nobody reads any more which lines are lost.
        let _ = self.flush(|| Instant::now() < end);
    }
}

/// The time of a line; `offset`: by how many seconds local time is ahead of UTC.
fn time(format: Format, second: u64, offset: i64) -> String {
    let ((year, month, day), (hour, minute, sec)) = local(second, offset);
    let sign = if offset < 0 { '-' } else { '+' };
    let zone = (offset.abs() / 3600, offset.abs() % 3600 / 60);
    match format {
        Format::Poor => format!("{day:02}/{}/{year} {hour:02}:{minute:02}:{sec:02}", name(month)),
        Format::Combined => {
            format!("{day:02}/{}/{year}:{hour:02}:{minute:02}:{sec:02} {sign}{:02}{:02}", name(month), zone.0, zone.1)
        }
        Format::Json => {
            format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{sec:02}{sign}{:02}:{:02}", zone.0, zone.1)
        }
    }
}

fn poor(out: &mut String, time: &str, entry: &Entry<'_>) -> std::fmt::Result {
    escape(out, entry.host())?;
    out.push(' ');
    client(out, entry.peer)?;
    write!(out, " - [{time}] ")?;
    request_and_result(out, entry)?;
    out.push('\n');
    Ok(())
}

fn combined(out: &mut String, time: &str, entry: &Entry<'_>) -> std::fmt::Result {
    client(out, entry.peer)?;
    write!(out, " - - [{time}] ")?;
    request_and_result(out, entry)?;
    for name in [b"referer".as_slice(), b"user-agent"] {
        out.push_str(" \"");
        escape(out, entry.field(name).unwrap_or(b"-"))?;
        out.push('"');
    }
    out.push('\n');
    Ok(())
}

fn json(out: &mut String, time: &str, entry: &Entry<'_>) -> std::fmt::Result {
    write!(out, "{{\"time\":\"{time}\",\"client\":\"")?;
    client(out, entry.peer)?;
    let texts: [(&str, &[u8]); 4] = [
        ("host", entry.host()),
        ("method", entry.head.method.of(entry.bytes)),
        ("target", entry.head.target.of(entry.bytes)),
        ("version", entry.version().as_bytes()),
    ];
    for (name, value) in texts {
        write!(out, "\",\"{name}\":\"")?;
        escape_json(out, value)?;
    }
    write!(out, "\",\"status\":{},\"length\":{}", entry.status, entry.length)?;
    for (name, key) in [(b"referer".as_slice(), "referer"), (b"user-agent", "user_agent")] {
        if let Some(value) = entry.field(name) {
            write!(out, ",\"{key}\":\"")?;
            escape_json(out, value)?;
            out.push('"');
        }
    }
    if let Some(id) = entry.id {
        write!(out, ",\"request_id\":\"")?;
        escape_json(out, id.as_bytes())?;
        out.push('"');
    }
    out.push_str("}\n");
    Ok(())
}

fn client(out: &mut String, peer: Option<SocketAddr>) -> std::fmt::Result {
    match peer {
        Some(peer) => write!(out, "{}", peer.ip()),
        None => out.write_char('-'),
    }
}

fn request_and_result(out: &mut String, entry: &Entry<'_>) -> std::fmt::Result {
    out.push('"');
    let method = entry.head.method.of(entry.bytes);
    if method.is_empty() {
        // A request line that could not be read.
        out.push('-');
    } else {
        escape(out, method)?;
        out.push(' ');
        escape(out, entry.head.target.of(entry.bytes))?;
        write!(out, " {}", entry.version())?;
    }
    write!(out, "\" {} {}", entry.status, entry.length)
}

impl Entry<'_> {
    fn version(&self) -> &'static str {
        match self.head.version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }

    fn host(&self) -> &[u8] {
        self.head.host.map_or(b"-", |host| host.of(self.bytes))
    }

    fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let is_it = |field: &&crate::http::head::Field| field.name.of(self.bytes).eq_ignore_ascii_case(name);
        self.head.fields.iter().find(is_it).map(|field| field.value.of(self.bytes))
    }
}

/// Bytes as they may stand in a line of any log.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    // Writing into memory cannot fail.
    let _ = escape(&mut out, bytes);
    out
}

/// As Apache does: `"` and `\` with a backslash, bytes that are not printable ASCII as `\xhh`.
fn escape(out: &mut String, bytes: &[u8]) -> std::fmt::Result {
    escape_with(out, bytes, |out, byte| write!(out, "\\x{byte:02x}"))
}

/// RFC 8259 7; bytes above ASCII are taken as latin-1.
fn escape_json(out: &mut String, bytes: &[u8]) -> std::fmt::Result {
    escape_with(out, bytes, |out, byte| write!(out, "\\u{byte:04x}"))
}

/// `write_code` writes what is not printable ASCII.
fn escape_with(
    out: &mut String,
    bytes: &[u8],
    write_code: impl Fn(&mut String, u8) -> std::fmt::Result,
) -> std::fmt::Result {
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => write_code(out, byte)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_forges_a_field() {
        let mut out = String::new();
        escape(&mut out, b"a\" 200\\\n\xff").unwrap();
        assert_eq!(out, r#"a\" 200\\\x0a\xff"#);
        out.clear();
        escape_json(&mut out, b"\",\"x\":\"\x1b\xe9").unwrap();
        assert_eq!(out, "\\\",\\\"x\\\":\\\"\\u001b\\u00e9");
    }
}

//! The access log: one line for each answer, written in batches and without a call into Python.
//!
//! Every field that a client can influence is escaped, so that nobody can forge a line or a field.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::append::append;
use crate::http::head::{RequestHead, Version};
use crate::net::clock;
use crate::net::handler::Done;
use crate::net::threads::team::lock;

/// A batch is written when it is this long, at the latest.
const BATCH: usize = 32 * 1024;

/// Lines that are kept while the log takes nothing; beyond it they are thrown away.
const KEPT: usize = 1024 * 1024;

/// How long the last lines wait for a log that takes nothing.
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

/// An answer, to be logged.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The client; none where it has no address.
    pub peer: Option<SocketAddr>,
    /// The request, as far as it was read.
    pub head: &'a RequestHead,
    /// What the spans of the head point into.
    pub bytes: &'a [u8],
    /// The id of the request, if it has one.
    pub id: Option<&'a str>,
    /// The answer.
    pub done: Done,
}

/// Where the lines go.
#[derive(Debug)]
pub struct AccessLog {
    descriptor: Option<RawFd>,
    format: Format,
    batch: Mutex<Batch>,
}

#[derive(Debug, Default)]
struct Batch {
    lines: String,
    /// An empty one, to go on with while the lines are written.
    spare: String,
    /// How many lines are lost since the log took some.
    lost: usize,
    second: u64,
    /// Seconds that local time is ahead of UTC; asked anew each quarter of an hour.
    offset: i64,
    quarter: Option<u64>,
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
    /// A log that appends to `descriptor`, a number that stays the owner's: he reopens the log by `dup2` onto it.
    pub fn new(descriptor: Option<RawFd>, format: Format) -> Self {
        Self { descriptor, format, batch: Mutex::default() }
    }

    /// Whether anything is logged at all.
    pub fn is_on(&self) -> bool {
        self.descriptor.is_some()
    }

    /// Add a line. `utc_offset` tells the seconds that local time is ahead of UTC. Returns whether to flush.
    pub fn record(&self, entry: &Entry<'_>, utc_offset: impl FnOnce(u64) -> i64) -> bool {
        let second = clock::unix_second();
        let quarter = Some(second / 900);
        // Asked without the lock: the answer comes from the interpreter, which may run another thread first.
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
            batch.time = self.time(second, batch.offset);
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

    /// Write the lines that are still here; where the log takes nothing, for as long as `keeps_waiting` says so.
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

    /// The same for the last time: who reads the log may be slow, but not dead.
    pub fn flush_last(&self) {
        let end = Instant::now() + LAST_PATIENCE;
        // Nobody waits for what there is to tell any more.
        let _ = self.flush(|| Instant::now() < end);
    }

    fn time(&self, second: u64, offset: i64) -> String {
        let ((year, month, day), (hour, minute, sec)) = local(second, offset);
        let sign = if offset < 0 { '-' } else { '+' };
        let (ahead_hours, ahead_minutes) = (offset.abs() / 3600, offset.abs() % 3600 / 60);
        let name = usize::try_from(month - 1).ok().and_then(|index| MONTHS.get(index)).unwrap_or(&"");
        match self.format {
            Format::Poor => format!("{day:02}/{name}/{year} {hour:02}:{minute:02}:{sec:02}"),
            Format::Combined => {
                format!(
                    "{day:02}/{name}/{year}:{hour:02}:{minute:02}:{sec:02} {sign}{ahead_hours:02}{ahead_minutes:02}"
                )
            }
            Format::Json => format!(
                "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{sec:02}{sign}{ahead_hours:02}:{ahead_minutes:02}"
            ),
        }
    }
}

/// `YYYY-mm-dd HH:MM:SS`, as the error log has it; `offset` is what local time is ahead of UTC.
pub fn local_time(second: u64, offset: i64) -> String {
    let ((year, month, day), (hour, minute, sec)) = local(second, offset);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{sec:02}")
}

/// Date and time of day where local time is `offset` seconds ahead of UTC.
fn local(second: u64, offset: i64) -> ((i64, i64, i64), (i64, i64, i64)) {
    let local = i64::try_from(second).unwrap_or(0) + offset;
    let time = (local.rem_euclid(86_400) / 3600, local.rem_euclid(3600) / 60, local.rem_euclid(60));
    (civil(local.div_euclid(86_400)), time)
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Year, month and day of a day counted from the Unix epoch, in the Gregorian calendar. Years begin in March here, so
/// that the leap day is the last of its year; 400 years have 146,097 days.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
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
    write!(out, "\",\"status\":{},\"length\":{}", entry.done.status, entry.done.length)?;
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
    write!(out, "\" {} {}", entry.done.status, entry.done.length)
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

/// Bytes as they may stand in any line.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    // Writing into memory cannot fail.
    let _ = escape(&mut out, bytes);
    out
}

/// As Apache does: `"` and `\` with a backslash, what is not printable ASCII as `\xhh`.
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
    fn days_become_dates() {
        for (day, date) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_778, (2026, 11, 21)),
            (-1, (1969, 12, 31)),
        ] {
            assert_eq!(civil(day), date);
        }
    }

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

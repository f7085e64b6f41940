//! The row of this process on the scoreboard, which shows other programs what the process does.
//!
//! The scoreboard is a file without a name, in shared memory, that the server makes before it forks. The Python package
//! `poorhttp.status` knows the head of the file and which process has which row, and reads it. A row is words of 64 bits: a
//! head with counters, which are kept nowhere else, so that showing them costs nothing; and a cell for each thread, which
//! says since when the thread is in a call, and for which request. The cell is written before each call, since a process
//! that dies in one writes nothing any more. That costs some 15 ns.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::http::head::{RequestHead, Version};
use crate::net::clock::Pulse;
use crate::net::proxies::peer::Peer;
use crate::words::{WORD, word_of};

/// How many words the head of a row has, and each of its cells.
const HEAD: usize = 16;
const CELL: usize = 64;
/// A mapping begins at a multiple of this, which is a multiple of the size of a page.
const ALIGNED: u64 = 1 << 16;

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum State {
    Starting = 1,
    Serving = 2,
    Draining = 3,
    Stopping = 4,
    /// It would serve, but all its threads are in calls that do not return.
    Stuck = 5,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Connections that are open.
    pub connections: &'static AtomicU64,
    /// Connections that were accepted.
    pub accepted: &'static AtomicU64,
    /// Requests that were answered.
    pub requests: &'static AtomicU64,
    /// Requests and connections that were refused with an answer.
    pub refused: &'static AtomicU64,
    /// Connections that were refused without an answer.
    pub cut: &'static AtomicU64,
    /// Answers of each class: 1xx, 3xx, 4xx, 5xx. The rest is 2xx.
    classes: [&'static AtomicU64; 4],
    /// Fields of requests that were dropped because of their names.
    pub dropped: &'static AtomicU64,
}

impl Counts {
    /// Count an answer of this status.
    pub fn note_status(&self, status: u16) {
        let [informed, redirected, faulty, failed] = self.classes;
        let class = match status {
            200..300 => return,
            ..200 => informed,
            300..400 => redirected,
            400..500 => faulty,
            _ => failed,
        };
        class.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request in the application.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// When the call began, as the pulse tells it.
    pub began: u64,
    /// Its head.
    pub head: &'a RequestHead,
    /// What the spans of the head point into.
    pub bytes: &'a [u8],
    /// The peer and the client it comes from.
    pub peer: &'a Peer,
    /// It was logged as a slow request.
    pub is_told: bool,
}

/// A request as its cell shows it, as far as there was room.
#[derive(Debug, Default)]
pub struct Shown {
    /// The address of the client, with port 0; none if it has no address.
    pub client: Option<SocketAddr>,
    /// Method and target.
    pub line: Vec<u8>,
    /// Its id; empty where requests have none.
    pub id: Vec<u8>,
}

/// The row of this process.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    state: &'static AtomicU64,
    /// The counters.
    pub counts: Counts,
    cells: &'static [AtomicU64],
}

impl Row {
    /// Take the row at `offset` of the scoreboard that is `descriptor`. `threads` call the application; there are so many
    /// `cells`.
    pub fn map(descriptor: BorrowedFd<'_>, offset: u64, threads: usize, cells: usize) -> std::io::Result<Self> {
        let words = HEAD + CELL * cells;
        let size = u64::try_from(fstat(descriptor)?.st_size).unwrap_or(0);
        let is_there = offset.checked_add((words * WORD) as u64).is_some_and(|end| end <= size);
        if !is_there || offset % WORD as u64 != 0 || !fcntl_get_seals(descriptor)?.contains(SealFlags::SHRINK) {
            return Err(std::io::Error::other("a row that is not on its scoreboard"));
        }
        let skipped = usize::try_from(offset % ALIGNED).unwrap_or(0);
        let length = skipped + words * WORD;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free place, so nothing that is there changes.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, descriptor, offset - skipped as u64)?
        };
        // SAFETY: the mapping is `length` bytes long, begins with a page and is never taken back; the file is not shorter
        // and sealed against shrinking. Any bytes are good for an AtomicU64, and nobody writes them but by atomics.
        let words = unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), length / WORD) };
        let words = words.get(skipped / WORD..).unwrap_or_default();
        Self::of(words, threads).ok_or_else(|| std::io::Error::other("a row without a head"))
    }

    /// A row that no other process sees. It stays for as long as the process does.
    pub fn private(threads: usize, cells: usize) -> Option<Self> {
        let words = (0..HEAD + CELL * cells).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        Self::of(words.leak(), threads)
    }

    fn of(words: &'static [AtomicU64], count: usize) -> Option<Self> {
        let (head, cells) = words.split_first_chunk::<HEAD>()?;
        let [pid, started, state, threads, connections, accepted, requests, refused, cut, a, b, c, d, dropped, ..] =
            head;
        let counts = Counts { connections, accepted, requests, refused, cut, classes: [a, b, c, d], dropped };
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        started.store(crate::net::clock::unix_second(), Ordering::Relaxed);
        threads.store(count as u64, Ordering::Relaxed);
        let row = Self { state, counts, cells };
        row.enter(State::Starting);
        // This makes it a row in use.
        pid.store(std::process::id().into(), Ordering::Release);
        Some(row)
    }

    /// The process is in this state now.
    pub fn enter(&self, state: State) {
        self.state.store(state as u64, Ordering::Relaxed);
    }

    /// Note whether all threads are in calls that do not return.
    pub fn note_stuck(&self, is_stuck: bool) {
        let (from, to) = if is_stuck { (State::Serving, State::Stuck) } else { (State::Stuck, State::Serving) };
        // It fails where that is known already, and where the process stops.
        let _ = self.state.compare_exchange(from as u64, to as u64, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether that was noted.
    pub fn is_stuck(&self) -> bool {
        self.state.load(Ordering::Relaxed) == State::Stuck as u64
    }

    /// The pulses of the threads, which lie in their cells.
    pub fn pulses(&self) -> impl Iterator<Item = Pulse> + use<> {
        let cells = self.cells.chunks_exact(CELL).filter_map(<[_]>::first_chunk);
        cells.map(|[began, last]| Pulse::new(began, last))
    }

    fn cell(&self, slot: usize) -> Option<&'static [AtomicU64; CELL]> {
        self.cells.get(slot.checked_mul(CELL)?..)?.first_chunk()
    }

    /// Show the request that the thread of `slot` is about to serve. Only that thread calls this.
    pub fn show(&self, slot: usize, served: &Served<'_>) {
        let Some(cell) = self.cell(slot) else { return };
        let [_, _, sequence, shown, told, _, first, second, version, line, host, id, words @ ..] = cell;
        let Served { began, head, bytes, peer, is_told } = *served;
        let client = peer.client().map_or([0; 16], |client| match client.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        });
        let texts = [
            (line, head.line(bytes)),
            (host, head.host.map(|host| host.of(bytes)).unwrap_or_default()),
            (id, peer.proxy_info().map(|info| info.id.as_bytes()).unwrap_or_default()),
        ];
        // A reader believes what stands between two equal even numbers.
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        shown.store(began, Ordering::Relaxed);
        told.store(if is_told { began } else { 0 }, Ordering::Relaxed);
        for (word, bytes) in [first, second].into_iter().zip(client.chunks_exact(WORD)) {
            word.store(word_of(bytes), Ordering::Relaxed);
        }
        version.store(u64::from(head.version == Version::Http11), Ordering::Relaxed);
        texts.into_iter().fold(words.as_slice(), |words, (length, text)| copy(text, length, words));
        sequence.store((before | 1) + 1, Ordering::Release);
    }

    /// The request that the thread of `slot` serves, or served last; none while its cell is being written.
    pub fn shown(&self, slot: usize) -> Option<Shown> {
        let [_, _, sequence, _, _, _, first, second, _, line, host, id, words @ ..] = self.cell(slot)?;
        let before = sequence.load(Ordering::Acquire);
        let octets = [first, second].map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let client = <[u8; 16]>::try_from(octets.as_flattened()).map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from);
        let mut texts = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect::<Vec<_>>();
        let [line, _, id] = [line, host, id].map(|length| {
            let length = usize::try_from(length.load(Ordering::Relaxed)).map_or(0, |length| length.min(texts.len()));
            let rest = texts.split_off(length.next_multiple_of(WORD));
            let mut text = std::mem::replace(&mut texts, rest);
            text.truncate(length);
            text
        });
        fence(Ordering::Acquire);
        let is_whole = before % 2 == 0 && sequence.load(Ordering::Relaxed) == before;
        let client = Some(client.to_canonical()).filter(|client| !client.is_unspecified());
        is_whole.then_some(Shown { client: client.map(|client| SocketAddr::new(client, 0)), line, id })
    }

    /// The request on the thread of `slot` is about to be logged as slow. Returns whether that is new: an earlier call may
    /// have been for the same request.
    pub fn tell(&self, slot: usize) -> bool {
        let Some([began, _, _, _, told, ..]) = self.cell(slot) else { return false };
        let began = began.load(Ordering::Relaxed);
        told.swap(began, Ordering::Relaxed) != began
    }

    /// Whether the request of the call on the thread of `slot` that began then was logged as slow.
    pub fn was_told(&self, slot: usize, began: u64) -> bool {
        self.cell(slot).is_some_and(|[_, _, _, _, told, ..]| told.load(Ordering::Relaxed) == began)
    }

    /// The call on the thread of `slot` that began then was answered in its place.
    pub fn note_given_up(&self, slot: usize, began: u64) {
        if let Some([_, _, _, _, _, given_up, ..]) = self.cell(slot) {
            given_up.store(began, Ordering::Relaxed);
        }
    }
}

/// Copy `text` as far as there is room in `words`, and note how much of it. Returns the words that are left.
fn copy<'a>(text: &[u8], length: &AtomicU64, words: &'a [AtomicU64]) -> &'a [AtomicU64] {
    let text = text.get(..words.len() * WORD).unwrap_or(text);
    length.store(text.len() as u64, Ordering::Relaxed);
    for (word, bytes) in words.iter().zip(text.chunks(WORD)) {
        word.store(word_of(bytes), Ordering::Relaxed);
    }
    words.get(text.len().div_ceil(WORD)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;
    use crate::http::head_parser::HeadParser;
    use crate::limits::Limits;
    use crate::net::proxies::policy::ProxyPolicy;

    fn words(file: &File, offset: u64, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; count * WORD];
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes.chunks(WORD).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    fn show(row: &Row, slot: usize, began: u64, bytes: &[u8]) {
        let mut parser = HeadParser::default();
        let limits = Limits { max_request_line: 8192, max_head: 65536, max_fields: 100, ..Limits::default() };
        assert!(parser.parse(bytes, &limits).unwrap());
        let peer = Peer::new("192.0.2.7:80".parse().ok(), &ProxyPolicy::default());
        row.show(slot, &Served { began, head: &parser.head, bytes, peer: &peer, is_told: false });
    }

    fn scoreboard(size: u64) -> File {
        let file = memfd_create("scoreboard", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, size).unwrap();
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        file.into()
    }

    #[test]
    fn what_is_counted_is_in_the_file() {
        let file = scoreboard(1 << 20);
        // Neither the first row nor at the beginning of a page.
        let offset = 4096 + ((HEAD + 2 * CELL) * WORD) as u64 * 300;
        let row = Row::map(file.as_fd(), offset, 2, 2).unwrap();
        row.counts.requests.fetch_add(3, Ordering::Relaxed);
        for status in [200, 204, 101, 302, 304, 404, 500, 504, 599] {
            row.counts.note_status(status);
        }
        row.enter(State::Serving);
        let told = words(&file, offset, HEAD);
        assert_eq!((told[0], told[2], told[3], told[6]), (u64::from(std::process::id()), 2, 2, 3));
        assert_eq!(told[9..13], [1, 2, 1, 3]);
        let pulse = row.pulses().nth(1).unwrap();
        let began = pulse.begin();
        show(&row, 1, began, b"GET /path HTTP/1.1\r\nHost: a.example\r\n\r\n");
        row.note_given_up(1, began);
        let cell = words(&file, offset + ((HEAD + CELL) * WORD) as u64, CELL);
        assert_eq!((cell[0], cell[1], cell[3..6].to_vec()), (began, began, vec![began, 0, began]));
        assert_eq!((cell[6], cell[7].to_ne_bytes()), (0, [0, 0, 255, 255, 192, 0, 2, 7]));
        assert_eq!(cell[8..12], [1, 9, 9, 0]);
        assert_eq!(
            (cell[2] % 2, &cell[12].to_ne_bytes(), &cell[13].to_ne_bytes()),
            (0, b"GET /pat", b"h\0\0\0\0\0\0\0")
        );
        assert_eq!((&cell[14].to_ne_bytes(), &cell[15].to_ne_bytes()), (b"a.exampl", b"e\0\0\0\0\0\0\0"));
        pulse.rest();
        assert_eq!(words(&file, offset + ((HEAD + CELL) * WORD) as u64, 2), [began, 0]);
        // A successor in the same row begins anew.
        Row::map(file.as_fd(), offset, 2, 2).unwrap();
        assert_eq!(words(&file, offset, HEAD)[6], 0);
    }

    #[test]
    fn text_that_is_too_long_is_cut_and_other_slots_are_left_alone() {
        let row = Row::private(1, 1).unwrap();
        show(&row, 0, 1, format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(1000)).as_bytes());
        show(&row, 1, 1, b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n");
        let [.., last] = row.cell(0).unwrap();
        assert_eq!(last.load(Ordering::Relaxed).to_ne_bytes(), [b'x'; 8]);
        let lengths: Vec<_> = row.cell(0).unwrap()[9..12].iter().map(|length| length.load(Ordering::Relaxed)).collect();
        assert_eq!(lengths, [((CELL - 12) * WORD) as u64, 0, 0], "there is no room for the Host");
    }

    #[test]
    fn what_is_shown_is_read_whole_or_not_at_all() {
        let row = Row::private(1, 1).unwrap();
        let heads = [
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            format!("PUT /{} HTTP/1.1\r\nHost: b\r\n\r\n", "b".repeat(99)),
        ];
        let (begin, patience) = (Instant::now(), Duration::from_secs(20));
        let reader = std::thread::spawn(move || {
            let mut seen = [0, 0];
            while seen.iter().any(|&count| count < 1000) && begin.elapsed() < patience {
                let Some(Shown { client, line, id }) = row.shown(0).filter(|shown| !shown.line.is_empty()) else {
                    continue;
                };
                assert_eq!((client, id), ("192.0.2.7:0".parse().ok(), vec![]));
                let number = usize::from(line.starts_with(b"PUT"));
                let expected = [b"GET /a".to_vec(), [b"PUT /".as_slice(), &[b'b'; 99]].concat()];
                assert_eq!(line, expected[number]);
                seen[number] += 1;
            }
            assert!(begin.elapsed() < patience);
        });
        while !reader.is_finished() {
            for head in &heads {
                show(&row, 0, 1, head.as_bytes());
            }
        }
        reader.join().unwrap();
    }

    #[test]
    fn a_request_is_told_once_in_all_its_calls() {
        let row = Row::private(1, 1).unwrap();
        let pulse = row.pulses().next().unwrap();
        let began = pulse.begin();
        show(&row, 0, began, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(!row.was_told(0, began));
        assert!(row.tell(0) && row.was_told(0, began));
        assert!(!row.tell(0) && !row.tell(1));
        show(&row, 0, began, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(row.tell(0), "another one");
    }

    #[test]
    fn a_row_must_be_on_a_scoreboard_that_stays_as_long_as_it_is() {
        let file = scoreboard(8192);
        assert!(Row::map(file.as_fd(), 4096, 1, 1).is_ok());
        for (offset, cells) in [(4096, 1000), (8192, 1), (4100, 1), (u64::MAX - 7, 1)] {
            assert!(Row::map(file.as_fd(), offset, 1, cells).is_err(), "{offset}");
        }
        let unsealed = memfd_create("scoreboard", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, 8192).unwrap();
        assert!(Row::map(unsealed.as_fd(), 4096, 1, 1).is_err());
    }
}

//! The fields that the server adds to an answer: Date (RFC 9110 6.6.1), made once a second, and Server (10.2.4).

use std::time::{Duration, SystemTime};

/// Both fields as lines, one after the other, so that an answer without them is given both in one copy.
#[derive(Clone, Debug, Default)]
pub struct OwnFields {
    server: Vec<u8>,
    second: Option<u64>,
    lines: Vec<u8>,
    date_length: usize,
}

impl OwnFields {
    /// `server`: the value of Server; empty for no such field.
    pub fn new(server: &[u8]) -> Self {
        Self { server: server.to_vec(), ..Self::default() }
    }

    /// The value of Server.
    pub fn server(&self) -> &[u8] {
        &self.server
    }

    /// Update Date to `second`, counted from the Unix epoch.
    pub fn at(&mut self, second: u64) -> &Self {
        if self.second != Some(second) {
            let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
            self.second = Some(second);
            self.lines.clear();
            self.line(b"Date: ", date.as_bytes());
            self.date_length = self.lines.len();
            if !self.server.is_empty() {
                let server = std::mem::take(&mut self.server);
                self.line(b"Server: ", &server);
                self.server = server;
            }
        }
        self
    }

    fn line(&mut self, name: &[u8], value: &[u8]) {
        for piece in [name, value, b"\r\n"] {
            self.lines.extend_from_slice(piece);
        }
    }

    /// The lines for an answer that may have its own Date or Server.
    pub fn lines(&self, has_date: bool, has_server: bool) -> &[u8] {
        let (date, server) = self.lines.split_at(self.date_length);
        match (has_date, has_server) {
            (false, false) => &self.lines,
            (false, true) => date,
            (true, false) => server,
            (true, true) => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_changes_with_the_second() {
        let mut own = OwnFields::new(b"");
        assert_eq!(own.at(784_111_777).lines(false, false), b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        assert_eq!(own.at(784_111_778).lines(false, false), b"Date: Sun, 06 Nov 1994 08:49:38 GMT\r\n");
    }

    #[test]
    fn what_the_answer_has_is_left_out() {
        let mut own = OwnFields::new(b"poor");
        let own = own.at(784_111_777);
        assert_eq!(own.lines(false, false), b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: poor\r\n");
        assert_eq!(own.lines(false, true), b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        assert_eq!(own.lines(true, false), b"Server: poor\r\n");
        assert_eq!(own.lines(true, true), b"");
    }
}

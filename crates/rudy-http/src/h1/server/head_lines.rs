//! Finds the end of a request's head, line by line, as the bytes come.

use super::Rejection;
use super::field_scan::FieldScan;
use super::request_line::RequestLine;
use crate::Limits;
use crate::h1::lines::{Lines, Section};
use crate::h1::malformed::Malformed;

/// First byte of a TLS record that holds a handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// How far a request's head has been looked at.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadLines {
    /// The request line, once it was complete.
    request_line: Option<RequestLine>,
    lines: Lines,
    /// Bytes of empty lines before a request line that have been let go.
    skipped: u32,
}

/// A complete head.
#[derive(Debug)]
pub(super) struct WholeHead {
    pub(super) line: RequestLine,
    pub(super) section: Section,
    pub(super) scan: FieldScan,
}

impl HeadLines {
    /// Whether nothing has come since the last head, not even an empty line.
    pub(super) fn is_new(&self) -> bool {
        self.is_untouched() && self.skipped == 0
    }

    /// Whether anything of the head has been seen.
    pub(super) fn is_untouched(&self) -> bool {
        self.lines.is_untouched()
    }

    /// Looks for the end of a head in `bytes`, which begin where the head begins and have only grown since the last call. The
    /// fields are looked at on the way if the whole head is there at once, and otherwise in the end, so that nothing of them
    /// need be kept meanwhile.
    pub(super) fn find(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<WholeHead>, Rejection> {
        let room = self.room(limits);
        let mut scan = self.is_untouched().then(FieldScan::default);
        loop {
            if self.request_line.is_none() && self.is_tls(bytes, room) {
                return Err(Rejection::TlsOnPlainPort);
            }
            let line = self.lines.next_line(bytes, room).map_err(|what| self.rejection(what, bytes, room))?;
            let Some(line) = line else { return Ok(None) };
            if !line.is_empty() {
                if self.request_line.is_none() {
                    self.request_line = Some(RequestLine::split(bytes, line, limits)?);
                    continue;
                }
                self.lines.count_field(limits)?;
                if let Some(scan) = &mut scan {
                    scan.note_line(bytes, line);
                }
            } else if let Some(line) = self.request_line.take() {
                let section = self.lines.end_section();
                *self = Self::default();
                let scan = scan.unwrap_or_else(|| FieldScan::of(bytes, line.end(), section.fields));
                return Ok(Some(WholeHead { line, section, scan }));
            }
            // RFC 9112 §2.2: an empty line before the request line is skipped. Each counts towards the head's size.
        }
    }

    /// Lets go of `bytes` if they are nothing but empty lines before a request, and says how many they are: a client
    /// that sends one too many is idle, not in the middle of a head.
    pub(super) fn skip_empty_lines(&mut self, bytes: &[u8]) -> usize {
        if self.request_line.is_some() || self.lines.start() != bytes.len() {
            return 0;
        }
        let skipped = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        *self = Self { skipped: self.skipped.saturating_add(skipped), ..Self::default() };
        bytes.len()
    }

    /// Bytes that the head may have.
    fn room(&self, limits: &Limits) -> usize {
        limits.head_bytes.saturating_sub(self.skipped as usize)
    }

    /// A request line that fills the whole head has a target that is too long, or not even that.
    fn rejection(&self, malformed: Malformed, bytes: &[u8], room: usize) -> Rejection {
        let line = bytes.get(self.lines.start()..room).unwrap_or_default();
        if malformed == Malformed::SectionTooLarge && self.request_line.is_none() && line.contains(&b' ') {
            Rejection::TargetTooLong
        } else {
            malformed.into()
        }
    }

    /// Whether a TLS hello begins where a request line should: nobody who speaks TLS will ever send the LF we would
    /// wait for.
    fn is_tls(&self, bytes: &[u8], room: usize) -> bool {
        let start = self.lines.start();
        start < room && bytes.get(start) == Some(&TLS_HANDSHAKE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_looked_at_once_whatever_the_pieces() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nX-B: c\r\n\r\nrest";
        let mut lines = HeadLines::default();
        for end in 0..head.len() - 5 {
            assert!(lines.find(&head[..end], &Limits::default()).unwrap().is_none());
            assert_eq!(lines.lines.scanned(), end);
        }
        let section = lines.find(head, &Limits::default()).unwrap().expect("the head is whole").section;
        assert_eq!((section.length, section.fields), (head.len() - 4, 2));
        assert!(lines.is_untouched(), "ready for the next head");
    }

    #[test]
    fn empty_lines_alone_are_let_go_and_counted() {
        let limits = Limits { head_bytes: 8, ..Limits::default() };
        let mut lines = HeadLines::default();
        for _ in 0..3 {
            assert!(lines.find(b"\r\n", &limits).unwrap().is_none());
            assert_eq!(lines.skip_empty_lines(b"\r\n"), 2);
        }
        assert_eq!(lines.find(b"\r\n", &limits).unwrap_err(), Rejection::HeadTooLarge);
    }

    #[test]
    fn a_begun_request_line_is_not_let_go() {
        let mut lines = HeadLines::default();
        assert!(lines.find(b"\r\nG", &Limits::default()).unwrap().is_none());
        assert_eq!(lines.skip_empty_lines(b"\r\nG"), 0);
        assert!(lines.find(b"\r\nGET / HTTP/1.1\r\n", &Limits::default()).unwrap().is_none());
        assert_eq!(lines.skip_empty_lines(b"\r\nGET / HTTP/1.1\r\n"), 0);
    }
}

//! Finds the end of a request head, line by line, in input that arrives in pieces.

use super::{FieldScan, Lines, RequestLine, Section};
use crate::{Malformed, MessageLimits, Rejection};

/// First byte of a TLS record that holds a handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// The progress of the search for the end of a request head.
#[derive(Debug, Clone, Default)]
pub struct HeadLines {
    /// The request line, once it is complete.
    request_line: Option<RequestLine>,
    lines: Lines,
    /// The number of bytes in skipped empty lines before the request line.
    skipped: u32,
}

/// A complete head.
#[derive(Debug)]
pub struct CompleteHead {
    pub(crate) line: RequestLine,
    pub(crate) section: Section,
    pub(crate) scan: FieldScan,
}

impl CompleteHead {
    /// Returns the length of the head in bytes, with the empty line that ends it.
    #[must_use]
    #[inline]
    pub fn length(&self) -> usize {
        self.section.length
    }
}

impl HeadLines {
    /// Whether nothing has arrived since the last head, not even an empty line.
    #[must_use]
    #[inline]
    pub fn is_new(&self) -> bool {
        self.is_at_start() && self.skipped == 0
    }

    /// Whether no byte of the head has been scanned.
    fn is_at_start(&self) -> bool {
        self.lines.is_at_start()
    }

    /// Returns the number of scanned bytes of the head.
    #[must_use]
    #[inline]
    pub fn scanned(&self) -> usize {
        self.lines.scanned()
    }

    /// Searches for the end of a head. `bytes` start with the head and contain everything from the previous call.
    ///
    /// If the head is complete in the first call, its fields are scanned along the way. Otherwise they are scanned at the end,
    /// so no scan result is stored between calls.
    pub fn find(&mut self, bytes: &[u8], limits: &MessageLimits) -> Result<Option<CompleteHead>, Rejection> {
        let room = self.room(limits);
        let mut scan = self.is_at_start().then(FieldScan::default);
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
                self.lines.count_field(limits.head_fields)?;
                if let Some(scan) = &mut scan {
                    scan.scan_line(bytes, line);
                }
            } else if let Some(line) = self.request_line.take() {
                let section = self.lines.end_section();
                *self = Self::default();
                let scan = scan.unwrap_or_else(|| FieldScan::of(bytes, line.end(), section.fields));
                return Ok(Some(CompleteHead { line, section, scan }));
            }
            // RFC 9112 §2.2: skip empty lines before the request line. They count towards the size of the head.
        }
    }

    /// Skips `bytes` if they contain only empty lines before a request. Returns the number of skipped bytes. A client that
    /// sends an extra empty line is idle, not in the middle of a head.
    pub fn skip_empty_lines(&mut self, bytes: &[u8]) -> usize {
        if self.request_line.is_some() || self.lines.start() != bytes.len() {
            return 0;
        }
        let skipped = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        *self = Self { skipped: self.skipped.saturating_add(skipped), ..Self::default() };
        bytes.len()
    }

    /// Returns the maximum size of the head in bytes.
    fn room(&self, limits: &MessageLimits) -> usize {
        limits.head_bytes.saturating_sub(self.skipped as usize)
    }

    /// Returns the rejection for a malformed line. A request line that exceeds the head limit has a target that is too long.
    fn rejection(&self, malformed: Malformed, bytes: &[u8], room: usize) -> Rejection {
        let line = bytes.get(self.lines.start()..room).unwrap_or_default();
        if malformed == Malformed::SectionTooLarge && self.request_line.is_none() && line.contains(&b' ') {
            Rejection::TargetTooLong
        } else {
            malformed.into()
        }
    }

    /// Whether a TLS handshake begins instead of a request line. A TLS client would never send the LF that ends a line.
    fn is_tls(&self, bytes: &[u8], room: usize) -> bool {
        let start = self.lines.start();
        start < room && bytes.get(start) == Some(&TLS_HANDSHAKE)
    }
}

/// Whether `bytes` contain only empty lines before a request, or a part of one: the client is idle.
#[must_use]
#[inline]
pub fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_scanned_once() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nX-B: c\r\n\r\nrest";
        let mut lines = HeadLines::default();
        for end in 0..head.len() - 5 {
            assert!(lines.find(&head[..end], &MessageLimits::default()).unwrap().is_none());
            assert_eq!(lines.lines.scanned(), end);
        }
        let section =
            lines.find(head, &MessageLimits::default()).unwrap().expect("the head is whole").section;
        assert_eq!((section.length, section.fields), (head.len() - 4, 2));
        assert!(lines.is_at_start(), "the next head can begin");
    }

    #[test]
    fn empty_lines_are_skipped_and_counted() {
        let limits = MessageLimits { head_bytes: 8, ..MessageLimits::default() };
        let mut lines = HeadLines::default();
        for _ in 0..3 {
            assert!(lines.find(b"\r\n", &limits).unwrap().is_none());
            assert_eq!(lines.skip_empty_lines(b"\r\n"), 2);
        }
        assert_eq!(lines.find(b"\r\n", &limits).unwrap_err(), Rejection::HeadTooLarge);
    }

    #[test]
    fn an_incomplete_request_line_is_not_skipped() {
        let mut lines = HeadLines::default();
        assert!(lines.find(b"\r\nG", &MessageLimits::default()).unwrap().is_none());
        assert_eq!(lines.skip_empty_lines(b"\r\nG"), 0);
        assert!(lines.find(b"\r\nGET / HTTP/1.1\r\n", &MessageLimits::default()).unwrap().is_none());
        assert_eq!(lines.skip_empty_lines(b"\r\nGET / HTTP/1.1\r\n"), 0);
    }
}

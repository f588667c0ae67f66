//! Finds the end of a head or a trailer section, line by line, as the bytes come.

use std::ops::Range;

use super::Refusal;
use super::request_line::RequestLine;
use crate::Limits;

/// First byte of a TLS record that holds a handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// How far a section of lines has been looked at.
///
/// Each byte is looked at once, whatever the pieces it came in, and a check happens at a position of the input, never at
/// an end of a piece: so any split of the same bytes gives the same result.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    /// The request line, once it was complete. A trailer section has none.
    request_line: Option<RequestLine>,
    /// Where the line that is looked at begins.
    line_start: u32,
    /// What lies before it holds no LF that has not been seen.
    scanned: u32,
    /// Field lines so far.
    fields: u32,
    /// Bytes of empty lines before a request line that have been let go.
    skipped: u32,
}

/// A complete section.
#[derive(Debug)]
pub(super) struct Section {
    /// Set for a head, not for a trailer section.
    pub(super) request_line: Option<RequestLine>,
    /// How many field lines there are.
    pub(super) fields: usize,
    /// Bytes of the whole section, with the empty line that ends it.
    pub(super) length: usize,
}

impl Lines {
    /// Whether anything of the section has been seen.
    pub(super) fn is_untouched(&self) -> bool {
        self.scanned == 0
    }

    /// Looks for the end of a request's head in `bytes`, which begin where the head begins and have only grown since
    /// the last call.
    pub(super) fn find_head(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<Section>, Refusal> {
        loop {
            if self.request_line.is_none() && self.is_tls(bytes, limits) {
                return Err(Refusal::TlsOnPlainPort);
            }
            let Some(line) = self.next_line(bytes, limits, Self::oversize)? else { return Ok(None) };
            match (&self.request_line, line.is_empty()) {
                // RFC 9112 §2.2: an empty line before the request line is skipped. Each counts towards the head's size.
                (None, true) => {}
                (None, false) => self.request_line = Some(RequestLine::split(bytes, line, limits)?),
                (Some(_), true) => return Ok(Some(self.end_section())),
                (Some(_), false) => self.count_field(limits)?,
            }
        }
    }

    /// Lets go of `bytes` if they are nothing but empty lines before a request, and says how many they are: a client
    /// that sends one too many is idle, not in the middle of a head.
    pub(super) fn skip_empty_lines(&mut self, bytes: &[u8]) -> usize {
        if self.request_line.is_some() || self.line_start as usize != bytes.len() {
            return 0;
        }
        *self = Self { skipped: self.skipped + self.line_start, ..Self::default() };
        bytes.len()
    }

    /// Looks for the end of a trailer section, in the same way.
    pub(super) fn find_trailers(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<Section>, Refusal> {
        while let Some(line) = self.next_line(bytes, limits, |_, _, _| Refusal::HeadTooLarge)? {
            if line.is_empty() {
                return Ok(Some(self.end_section()));
            }
            self.count_field(limits)?;
        }
        Ok(None)
    }

    /// Where the next whole line lies, without its CRLF.
    fn next_line(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        oversize: fn(&Self, &[u8], usize) -> Refusal,
    ) -> Result<Option<Range<usize>>, Refusal> {
        let scanned = self.scanned as usize;
        let line_feed = memchr::memchr(b'\n', &bytes[scanned..]).map(|at| scanned + at);
        let room = self.room(limits);
        if line_feed.unwrap_or(bytes.len()) >= room {
            return Err(oversize(self, bytes, room));
        }
        let Some(line_feed) = line_feed else {
            self.scanned = narrow(bytes.len());
            return Ok(None);
        };
        let start = self.line_start as usize;
        self.scanned = narrow(line_feed + 1);
        self.line_start = self.scanned;
        if line_feed > start && bytes[line_feed - 1] == b'\r' {
            Ok(Some(start..line_feed - 1))
        } else {
            Err(Refusal::BareLineFeed)
        }
    }

    /// Bytes that the section may have.
    fn room(&self, limits: &Limits) -> usize {
        limits.head_bytes.saturating_sub(self.skipped as usize)
    }

    /// A request line that fills the whole head has a target that is too long, or not even that.
    fn oversize(&self, bytes: &[u8], room: usize) -> Refusal {
        let line = bytes.get(self.line_start as usize..room).unwrap_or_default();
        if self.request_line.is_none() && line.contains(&b' ') {
            Refusal::TargetTooLong
        } else {
            Refusal::HeadTooLarge
        }
    }

    /// Whether a TLS hello begins where a request line should: nobody who speaks TLS will ever send the LF we would
    /// wait for.
    fn is_tls(&self, bytes: &[u8], limits: &Limits) -> bool {
        let start = self.line_start as usize;
        start < self.room(limits) && bytes.get(start) == Some(&TLS_HANDSHAKE)
    }

    fn count_field(&mut self, limits: &Limits) -> Result<(), Refusal> {
        self.fields += 1;
        if self.fields as usize > limits.head_fields { Err(Refusal::HeadTooLarge) } else { Ok(()) }
    }

    fn end_section(&mut self) -> Section {
        let done = std::mem::take(self);
        Section {
            request_line: done.request_line,
            fields: done.fields as usize,
            length: done.scanned as usize,
        }
    }
}

/// Positions lie within `Limits::head_bytes`, or one read beyond it: far below 4 GiB.
fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_looked_at_once_whatever_the_pieces() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nX-B: c\r\n\r\nrest";
        let mut lines = Lines::default();
        for end in 0..head.len() - 5 {
            assert!(lines.find_head(&head[..end], &Limits::default()).unwrap().is_none());
            assert_eq!(lines.scanned as usize, end);
        }
        let section = lines.find_head(head, &Limits::default()).unwrap().expect("the head is whole");
        assert_eq!((section.length, section.fields), (head.len() - 4, 2));
        assert!(lines.is_untouched(), "ready for the next head");
    }

    #[test]
    fn empty_lines_alone_are_let_go_and_counted() {
        let limits = Limits { head_bytes: 8, ..Limits::default() };
        let mut lines = Lines::default();
        for _ in 0..3 {
            assert!(lines.find_head(b"\r\n", &limits).unwrap().is_none());
            assert_eq!(lines.skip_empty_lines(b"\r\n"), 2);
        }
        assert_eq!(lines.find_head(b"\r\n", &limits).unwrap_err(), Refusal::HeadTooLarge);
    }

    #[test]
    fn a_begun_request_line_is_not_let_go() {
        let mut lines = Lines::default();
        assert!(lines.find_head(b"\r\nG", &Limits::default()).unwrap().is_none());
        assert_eq!(lines.skip_empty_lines(b"\r\nG"), 0);
        assert!(lines.find_head(b"\r\nGET / HTTP/1.1\r\n", &Limits::default()).unwrap().is_none());
        assert_eq!(lines.skip_empty_lines(b"\r\nGET / HTTP/1.1\r\n"), 0);
    }
}

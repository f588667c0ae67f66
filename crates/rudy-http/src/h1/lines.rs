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
        // Nobody who speaks TLS will ever send the LF we would wait for.
        if bytes.get(self.line_start as usize) == Some(&TLS_HANDSHAKE) && self.request_line.is_none() {
            return Err(Refusal::TlsOnPlainPort);
        }
        while let Some(line) = self.next_line(bytes, limits, self.oversize())? {
            match (&self.request_line, line.is_empty()) {
                // RFC 9112 §2.2: an empty line before the request line is skipped. Each counts towards the head's size.
                (None, true) => {}
                (None, false) => self.request_line = Some(RequestLine::split(bytes, line, limits)?),
                (Some(_), true) => return Ok(Some(self.end_section())),
                (Some(_), false) => self.count_field(limits)?,
            }
        }
        Ok(None)
    }

    /// Looks for the end of a trailer section, in the same way.
    pub(super) fn find_trailers(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<Section>, Refusal> {
        while let Some(line) = self.next_line(bytes, limits, Refusal::HeadTooLarge)? {
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
        oversize: Refusal,
    ) -> Result<Option<Range<usize>>, Refusal> {
        let scanned = self.scanned as usize;
        let line_feed = memchr::memchr(b'\n', &bytes[scanned..]).map(|at| scanned + at);
        if line_feed.unwrap_or(bytes.len()) >= limits.head_bytes {
            return Err(oversize);
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

    /// A first line that fills the whole limit is a target that is too long.
    fn oversize(&self) -> Refusal {
        if self.request_line.is_none() && self.line_start == 0 {
            Refusal::TargetTooLong
        } else {
            Refusal::HeadTooLarge
        }
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

//! Finds the lines of a section, and its end, in input that arrives in pieces.

use std::ops::Range;

use crate::{Malformed, MessageLimits};

/// The progress of the scan of a section of lines: a head or a trailer section.
///
/// Each byte is scanned once. Checks depend on positions in the input, never on the ends of pieces, so the same bytes give
/// the same result however they are split.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// The start of the current line.
    start: u32,
    /// The number of scanned bytes.
    scanned: u32,
    /// The number of field lines so far.
    fields: u32,
}

/// A complete section.
#[derive(Debug)]
pub struct Section {
    /// The number of field lines.
    pub fields: usize,
    /// The length of the section in bytes, with the empty line that ends it.
    pub length: usize,
}

impl Lines {
    /// Whether no byte of the section has been scanned.
    #[must_use]
    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.scanned == 0
    }

    /// Returns the start of the current line.
    #[must_use]
    #[inline]
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// Returns the number of scanned bytes.
    #[must_use]
    #[inline]
    pub fn scanned(&self) -> usize {
        self.scanned as usize
    }

    /// Returns the position of the next complete line in `bytes`, without its CRLF. `bytes` start with the section and contain
    /// everything from the previous call. The section may have at most `room` bytes.
    #[inline]
    pub fn next_line(&mut self, bytes: &[u8], room: usize) -> Result<Option<Range<usize>>, Malformed> {
        match self.next_lenient_line(bytes, room)? {
            Some(line) if bytes[line.end] != b'\r' => Err(Malformed::BareLineFeed),
            line => Ok(line),
        }
    }

    /// As [`Self::next_line`], but a LF alone ends a line too (RFC 9112 §2.2).
    #[inline]
    pub fn next_lenient_line(
        &mut self,
        bytes: &[u8],
        room: usize,
    ) -> Result<Option<Range<usize>>, Malformed> {
        let line_feed = memchr::memchr(b'\n', &bytes[self.scanned()..]).map(|at| self.scanned() + at);
        if line_feed.unwrap_or(bytes.len()) >= room {
            return Err(Malformed::SectionTooLarge);
        }
        let Some(line_feed) = line_feed else {
            self.scanned = narrow(bytes.len());
            return Ok(None);
        };
        let start = self.start();
        self.scanned = narrow(line_feed + 1);
        self.start = self.scanned;
        let has_return = line_feed > start && bytes[line_feed - 1] == b'\r';
        Ok(Some(start..line_feed - usize::from(has_return)))
    }

    /// Counts the last line as a field, of which a section may have at most `max`.
    #[inline]
    pub fn count_field(&mut self, max: usize) -> Result<(), Malformed> {
        self.fields += 1;
        if self.fields as usize > max { Err(Malformed::SectionTooLarge) } else { Ok(()) }
    }

    /// Ends the section at the empty line that was found last, and resets the scan for the next section.
    #[inline]
    pub fn end_section(&mut self) -> Section {
        let done = std::mem::take(self);
        Section { fields: done.fields as usize, length: done.scanned as usize }
    }

    /// Searches for the end of a trailer section.
    pub fn find_trailers(
        &mut self,
        bytes: &[u8],
        limits: &MessageLimits,
    ) -> Result<Option<Section>, Malformed> {
        while let Some(line) = self.next_line(bytes, limits.head_bytes)? {
            if line.is_empty() {
                return Ok(Some(self.end_section()));
            }
            self.count_field(limits.head_fields)?;
        }
        Ok(None)
    }
}

/// Converts a position, which is at most one read beyond `MessageLimits::head_bytes` and so far below 4 GiB.
fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

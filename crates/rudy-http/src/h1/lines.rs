//! Finds lines, and the end of a section of them, as the bytes come.

use std::ops::Range;

use super::malformed::Malformed;
use crate::Limits;

/// How far a section of lines has been looked at: a head, or a trailer section.
///
/// Each byte is looked at once, whatever the pieces it came in, and a check happens at a position of the input, never at
/// an end of a piece: so any split of the same bytes gives the same result.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    /// Where the line that is looked at begins.
    start: u32,
    /// What lies before it holds no LF that has not been seen.
    scanned: u32,
    /// Field lines so far.
    fields: u32,
}

/// A complete section.
#[derive(Debug)]
pub(super) struct Section {
    /// How many field lines there are.
    pub(super) fields: usize,
    /// Bytes of the whole section, with the empty line that ends it.
    pub(super) length: usize,
}

impl Lines {
    /// Whether anything of the section has been seen.
    pub(super) fn is_at_start(&self) -> bool {
        self.scanned == 0
    }

    /// Where the line that is looked at begins.
    pub(super) fn start(&self) -> usize {
        self.start as usize
    }

    /// How many bytes have been looked at.
    pub(super) fn scanned(&self) -> usize {
        self.scanned as usize
    }

    /// Where the next whole line lies in `bytes`, without its CRLF. `bytes` begin where the section begins, and have only
    /// grown since the last call; the section may have `room` of them.
    pub(super) fn next_line(&mut self, bytes: &[u8], room: usize) -> Result<Option<Range<usize>>, Malformed> {
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
        if line_feed > start && bytes[line_feed - 1] == b'\r' {
            Ok(Some(start..line_feed - 1))
        } else {
            Err(Malformed::BareLineFeed)
        }
    }

    /// The line that was found is a field.
    pub(super) fn count_field(&mut self, limits: &Limits) -> Result<(), Malformed> {
        self.fields += 1;
        if self.fields as usize > limits.head_fields { Err(Malformed::SectionTooLarge) } else { Ok(()) }
    }

    /// The line that was found is the empty one that ends the section; the next one begins anew.
    pub(super) fn end_section(&mut self) -> Section {
        let done = std::mem::take(self);
        Section { fields: done.fields as usize, length: done.scanned as usize }
    }

    /// Looks for the end of a section that is nothing but fields.
    pub(super) fn find_trailers(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<Section>, Malformed> {
        while let Some(line) = self.next_line(bytes, limits.head_bytes)? {
            if line.is_empty() {
                return Ok(Some(self.end_section()));
            }
            self.count_field(limits)?;
        }
        Ok(None)
    }
}

/// Positions lie within `Limits::head_bytes`, or one read beyond it: far below 4 GiB.
fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

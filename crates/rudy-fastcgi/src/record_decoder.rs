//! Splitting a byte stream into records, for both ends.

use crate::Fault;
use crate::record::{HEADER_BYTES, Header};

/// Splits a byte stream into records without copying. Buffered content stays in the caller's buffer until it is complete.
#[derive(Debug)]
pub(crate) struct RecordDecoder {
    state: State,
}

/// The result of a step.
pub(crate) enum Step<'a> {
    /// The header of a record. The caller decides with [`RecordDecoder::set_content`] how to read the content.
    Begin(Header),
    /// A piece of a stream. Empty at the end of the stream.
    Piece(Header, &'a [u8]),
    /// The complete content of a record.
    Whole(Header, &'a [u8]),
    /// All bytes are decoded, and more are needed.
    More,
}

/// How to read the content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// In pieces as they arrive.
    Streamed,
    /// In one piece when it is complete.
    Buffered,
    /// Skip it.
    Skipped,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    /// The number of content bytes left.
    Content(Header, Content, u16),
    /// The number of bytes left to skip: padding and skipped content.
    Padding(u32),
    /// After a fault the start of the next record is unknown.
    Closed,
}

impl RecordDecoder {
    pub(crate) fn new() -> Self {
        Self { state: State::Header }
    }

    /// Decodes from `bytes[*used..]`, and advances `used` past the decoded bytes.
    pub(crate) fn step<'a>(&mut self, bytes: &'a [u8], used: &mut usize) -> Result<Step<'a>, Fault> {
        loop {
            let rest = &bytes[*used..];
            match self.state {
                State::Closed => return Ok(Step::More),
                State::Header => {
                    check_version(rest)?;
                    let Some(header) = rest.first_chunk::<HEADER_BYTES>().and_then(|b| Header::decode(*b))
                    else {
                        return Ok(Step::More);
                    };
                    *used += HEADER_BYTES;
                    return Ok(Step::Begin(header));
                }
                State::Padding(left) => {
                    let length = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    *used += length;
                    // `length` is at most `left`, so it fits.
                    let left = left - u32::try_from(length).unwrap_or(left);
                    if left > 0 {
                        self.state = State::Padding(left);
                        return Ok(Step::More);
                    }
                    self.state = State::Header;
                }
                State::Content(header, content, left) => {
                    let length = rest.len().min(usize::from(left));
                    let is_incomplete = length < usize::from(left);
                    if is_incomplete && (length == 0 || content == Content::Buffered) {
                        return Ok(Step::More);
                    }
                    *used += length;
                    let left = left - u16::try_from(length).unwrap_or(left);
                    self.state = match left {
                        0 => State::Padding(header.padding_bytes.into()),
                        _ => State::Content(header, content, left),
                    };
                    let data = &rest[..length];
                    return Ok(match content {
                        Content::Buffered => Step::Whole(header, data),
                        _ => Step::Piece(header, data),
                    });
                }
            }
        }
    }

    /// Sets how to read the content of the record that has just begun.
    pub(crate) fn set_content(&mut self, header: Header, content: Content) {
        self.state = match content {
            Content::Skipped => {
                State::Padding(u32::from(header.content_bytes) + u32::from(header.padding_bytes))
            }
            _ => State::Content(header, content, header.content_bytes),
        };
    }

    /// Stops decoding.
    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
    }
}

/// Checks the first byte alone: a peer with another protocol may never send all eight bytes of a header.
fn check_version(bytes: &[u8]) -> Result<(), Fault> {
    match bytes.first() {
        Some(&version) if version != crate::record::VERSION => Err(Fault::not_fastcgi(bytes)),
        _ => Ok(()),
    }
}

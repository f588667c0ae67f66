//! Where in a stream of records a connection is: what both ends have in common when they read.

use crate::Fault;
use crate::record::{HEADER_BYTES, Header};

/// Takes records apart where they lie. It holds no content: what has to be whole waits in the caller's buffer.
#[derive(Debug)]
pub(crate) struct Records {
    state: State,
}

/// What the bytes amount to.
pub(crate) enum Step<'a> {
    /// A record begins. The caller says with [`Records::read`] how its content is to come.
    Begin(Header),
    /// A piece of a stream, or the end of it, which is empty.
    Piece(Header, &'a [u8]),
    /// The whole content of a record.
    Whole(Header, &'a [u8]),
    /// Everything was looked at; more has to come.
    More,
}

/// How the content of a record is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// In pieces, as they come.
    InPieces,
    /// At once.
    Whole,
    /// Not at all.
    Skipped,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    /// So many bytes of content are left.
    Content(Header, Content, u16),
    /// So many bytes are left that mean nothing. Content that nobody wants may be among them.
    Padding(u32),
    /// A fault was found, and nobody knows where the next record would begin.
    Closed,
}

impl Records {
    pub(crate) fn new() -> Self {
        Self { state: State::Header }
    }

    /// Says what `bytes[*used..]` begins with, and moves `used` behind it.
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
                    // It is no more than `left`, so it fits.
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
                    if is_incomplete && (length == 0 || content == Content::Whole) {
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
                        Content::Whole => Step::Whole(header, data),
                        _ => Step::Piece(header, data),
                    });
                }
            }
        }
    }

    /// Decides about the record that has just begun.
    pub(crate) fn read(&mut self, header: Header, content: Content) {
        self.state = match content {
            Content::Skipped => {
                State::Padding(u32::from(header.content_bytes) + u32::from(header.padding_bytes))
            }
            _ => State::Content(header, content, header.content_bytes),
        };
    }

    /// Nothing is read any more.
    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
    }
}

/// Who speaks another protocol need not send the eight bytes that we would wait for.
fn check_version(bytes: &[u8]) -> Result<(), Fault> {
    match bytes.first() {
        Some(&version) if version != crate::record::VERSION => Err(Fault::not_fastcgi(bytes)),
        _ => Ok(()),
    }
}

//! The head of an answer, read where it lies.

use http::Version;

use crate::h1::{Fields, Framing};

/// The head of an answer: a view of the bytes that came.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    pub(super) raw: &'a [u8],
    /// Where the field lines begin.
    pub(super) fields_start: usize,
    pub(super) status: u16,
    pub(super) version: Version,
    pub(super) framing: Framing,
}

impl<'a> ResponseHead<'a> {
    /// The version: HTTP/1.0 or HTTP/1.1, as which a higher minor version counts (RFC 9110 §2.5).
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The status: 100 to 999. RFC 9110 §15 ends at 599; some servers do not.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason phrase, which may be empty and need not be UTF-8 (RFC 9112 §4).
    #[must_use]
    pub fn reason(&self) -> &'a [u8] {
        // Behind `HTTP/1.1 200` and a space, which some servers leave out with the phrase; before CRLF.
        self.raw.get(13..self.fields_start - 2).unwrap_or_default()
    }

    /// How the body is delimited.
    #[must_use]
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// The fields in the order in which they came, names as they were written, values without the white space around them.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(&self.raw[self.fields_start..])
    }

    /// The value of the first field of this name, whatever its case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.fields().find(|(candidate, _)| candidate.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The bytes of the head as they came, with the empty line that ends it.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }
}

//! A view of a response head.

use http::{StatusCode, Version};

use crate::{Fields, Framing};

/// A view of a received response head.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    raw: &'a [u8],
    /// The start of the field lines.
    fields_start: usize,
    status: u16,
    version: Version,
    framing: Framing,
}

impl<'a> ResponseHead<'a> {
    /// Creates a view of a head: `raw` is a status line, and fields from `fields_start` on, all of them valid.
    #[must_use]
    #[inline]
    pub fn new(
        raw: &'a [u8],
        fields_start: usize,
        (status, version): (u16, Version),
        framing: Framing,
    ) -> Self {
        Self { raw, fields_start, status, version, framing }
    }

    /// Returns HTTP/1.0, HTTP/1.1, HTTP/2 or HTTP/3. Higher minor versions of HTTP/1 count as HTTP/1.1 (RFC 9110 §2.5).
    #[must_use]
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the status: 100 to 999. RFC 9110 §15 allows up to 599, but some servers send more.
    #[must_use]
    #[inline]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the status as a type, which has the same range.
    #[must_use]
    pub fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    /// Returns the reason phrase, which may be empty and may not be UTF-8 (RFC 9112 §4). HTTP/2 and HTTP/3 have none.
    #[must_use]
    pub fn reason(&self) -> &'a [u8] {
        // Between `HTTP/1.1 200 ` and the end of the line. Some servers omit the space if the phrase is empty.
        let rest = self.raw.get(13..self.fields_start).unwrap_or_default();
        let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
        rest.strip_suffix(b"\r").unwrap_or(rest)
    }

    /// Returns how the body is delimited. A body of HTTP/2 or HTTP/3 has a length, or else counts as chunked.
    #[must_use]
    #[inline]
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Returns the fields in their original order and spelling, without white space around the names and values.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(&self.raw[self.fields_start..])
    }

    /// Returns the value of the first field with this name, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.fields().find(|(candidate, _)| candidate.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the bytes of the head, with the empty line that ends it. A head of HTTP/2 is decompressed, and written as one of
    /// HTTP/1.1.
    #[must_use]
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }
}

//! Encodes the head of a response, with the framing of its body.

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};

use super::prepared::{encode_block, encode_head, encode_status_line, lines};
use super::{DateLine, PreparedHead};
use crate::h1::encode::put_content_length;
use crate::h1::{Framing, ReceivedHead};

/// The head of a response.
#[derive(Debug, Clone, Copy)]
pub enum ResponseHead<'a> {
    /// A status and fields, which are encoded when the response begins.
    Fields(StatusCode, &'a HeaderMap),
    /// An encoded head.
    Prepared(&'a PreparedHead),
    /// A head that was received.
    Received(&'a ReceivedHead),
}

impl ResponseHead<'_> {
    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Fields(status, _) => *status,
            Self::Prepared(prepared) => prepared.status(),
            Self::Received(received) => received.status(),
        }
    }

    /// Appends a header block of HTTP/2 without the fields that the connection adds. Without references to the table of the
    /// client, so that a prepared block suits each connection; nginx does the same.
    pub(crate) fn encode_http2(&self, out: &mut BytesMut) {
        match self {
            Self::Fields(status, headers) => encode_block(*status, lines(headers), out),
            Self::Prepared(prepared) => out.extend_from_slice(prepared.http2()),
            Self::Received(received) => encode_block(received.status(), received.sent_fields(), out),
        }
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Fields(status, headers) => encode_head(*status, headers, out),
            Self::Prepared(prepared) => out.extend_from_slice(prepared.encoded()),
            Self::Received(received) => {
                encode_status_line(received.status(), out);
                out.extend_from_slice(received.sent_lines());
            }
        }
    }
}

/// Appends the last lines of a head: framing, `Connection`, `Date`, the empty line.
pub(super) fn encode_head_end(
    framing: Framing,
    length: Option<u64>,
    connection: Option<&'static str>,
    date: &DateLine,
    out: &mut BytesMut,
) {
    match (framing, length) {
        (Framing::Chunked, _) => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        (Framing::Length(length), _) | (Framing::None, Some(length)) => put_content_length(length, out),
        (Framing::None | Framing::UntilClose, _) => {}
    }
    if let Some(option) = connection {
        out.extend_from_slice(b"connection: ");
        out.extend_from_slice(option.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(date.as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn head_end(framing: Framing, length: Option<u64>, connection: Option<&'static str>) -> String {
        let mut out = BytesMut::new();
        encode_head_end(framing, length, connection, &DateLine::new(SystemTime::UNIX_EPOCH), &mut out);
        let text = String::from_utf8(out.to_vec()).expect("ASCII");
        text.replace("date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n", "|").replace("\r\n", ";")
    }

    #[test]
    fn a_head_ends_with_framing_connection_and_date() {
        assert_eq!(head_end(Framing::Length(0), Some(0), None), "content-length: 0;|");
        assert_eq!(head_end(Framing::None, Some(u64::MAX), None), "content-length: 18446744073709551615;|");
        assert_eq!(head_end(Framing::None, None, None), "|");
        assert_eq!(head_end(Framing::Chunked, None, None), "transfer-encoding: chunked;|");
        assert_eq!(head_end(Framing::UntilClose, None, Some("close")), "connection: close;|");
    }
}

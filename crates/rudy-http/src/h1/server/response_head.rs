//! Encodes the head of a response, with the framing of its body.

use bytes::BytesMut;
use http::{HeaderMap, StatusCode, header};

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

    /// Returns the date that the connection adds: none if the head has that of its origin, which a proxy does not change, and which caches
    /// compute the age from (RFC 9110 §6.6.1).
    pub(crate) fn missing_date<'d>(&self, now: &'d DateLine) -> Option<&'d DateLine> {
        let has_date = match self {
            Self::Fields(_, headers) => headers.contains_key(header::DATE),
            Self::Prepared(prepared) => prepared.has_date(),
            Self::Received(received) => received.has_date(),
        };
        (!has_date).then_some(now)
    }

    /// Appends a header block of HTTP/2 without the fields that the connection adds. Without references to the table of the
    /// client, so that a prepared block suits each connection; nginx does the same.
    pub(crate) fn encode_http2(&self, out: &mut BytesMut) {
        match self {
            Self::Fields(status, headers) => encode_block(*status, lines(headers), out),
            Self::Prepared(prepared) => out.extend_from_slice(prepared.http2()),
            Self::Received(received) => encode_block(received.status(), received.fields(), out),
        }
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Fields(status, headers) => encode_head(*status, headers, out),
            Self::Prepared(prepared) => out.extend_from_slice(prepared.encoded()),
            Self::Received(received) => {
                encode_status_line(received.status(), out);
                out.extend_from_slice(received.lines());
            }
        }
    }
}

/// Appends the last lines of a head: framing, `Connection`, `Date` if it is missing, the empty line.
pub(super) fn encode_head_end(
    framing: Framing,
    length: Option<u64>,
    connection: Option<&'static str>,
    date: Option<&DateLine>,
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
    out.extend_from_slice(date.map_or(&[][..], DateLine::as_bytes));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_date_of_the_origin_is_kept() {
        let origin = "Sun, 06 Nov 1994 08:49:37 GMT";
        let fields = HeaderMap::from_iter([(header::DATE, header::HeaderValue::from_static(origin))]);
        let prepared = PreparedHead::new(StatusCode::OK, fields.clone());
        let mut received = crate::h1::ReceivedFields::default();
        received.push(b"Date", origin.as_bytes());
        let received = received.with_status(StatusCode::OK);
        let now = DateLine::new(SystemTime::UNIX_EPOCH);
        for head in [
            ResponseHead::Fields(StatusCode::OK, &fields),
            ResponseHead::Prepared(&prepared),
            ResponseHead::Received(&received),
        ] {
            let mut out = BytesMut::new();
            head.encode(&mut out);
            assert_eq!(out, format!("HTTP/1.1 200 OK\r\ndate: {origin}\r\n"));
            assert!(head.missing_date(&now).is_none(), "{head:?}");
        }
        let (none, nothing) = (HeaderMap::new(), PreparedHead::new(StatusCode::OK, HeaderMap::new()));
        for head in [ResponseHead::Fields(StatusCode::OK, &none), ResponseHead::Prepared(&nothing)] {
            assert!(head.missing_date(&now).is_some(), "{head:?}");
        }
    }

    fn head_end(framing: Framing, length: Option<u64>, connection: Option<&'static str>) -> String {
        let mut out = BytesMut::new();
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        encode_head_end(framing, length, connection, Some(&date), &mut out);
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

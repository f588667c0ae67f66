//! Encodes the heads and trailers of responses.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use rudy_message::semantics::reason::reason_phrase;
use rudy_message::text::sent_fields;
use rudy_message::{Compression, DateLine, PreparedHead, Rejection, ResponseHead, has_no_content};

/// A compression of fields. Without references to the table of the peer, so that a prepared section suits each connection; nginx does
/// the same.
pub(crate) trait Compress {
    /// The compression.
    const COMPRESSION: Compression;

    /// Appends a field. The name is lower case.
    fn put_field(name: &[u8], value: &[u8], out: &mut BytesMut);
}

/// Appends the fields of a head, with what the connection adds: the length of the body, if known, and the date.
pub(crate) fn put_response<C: Compress>(
    head: &ResponseHead<'_>,
    length: Option<u64>,
    date: &DateLine,
    out: &mut BytesMut,
) {
    put_status_and_fields::<C>(head, out);
    // RFC 9110 §8.6: no Content-Length with 1xx and 204.
    if let Some(length) = length.filter(|_| !has_no_content(head.status())) {
        C::put_field(b"content-length", itoa::Buffer::new().format(length).as_bytes(), out);
    }
    if let Some(date) = head.missing_date(date) {
        let encode = |value: &[u8]| {
            let mut field = BytesMut::with_capacity(32);
            C::put_field(b"date", value, &mut field);
            field.freeze()
        };
        out.extend_from_slice(date.compressed(C::COMPRESSION, encode));
    }
}

/// Appends the fields of a head, without those that the connection adds.
pub(crate) fn put_status_and_fields<C: Compress>(head: &ResponseHead<'_>, out: &mut BytesMut) {
    match head {
        ResponseHead::Fields(status, headers) => put_fields::<C>(*status, sent_fields(headers), out),
        ResponseHead::Prepared(prepared) => {
            let (head, added) = prepared.parts();
            out.extend_from_slice(head.compressed(C::COMPRESSION, prepare::<C>));
            for (name, value) in added {
                C::put_field(name.as_str().as_bytes(), value.as_bytes(), out);
            }
        }
        ResponseHead::Received(received) => put_fields::<C>(received.status(), received.fields(), out),
    }
}

/// Encodes a head that is sent repeatedly.
fn prepare<C: Compress>(head: &PreparedHead) -> Bytes {
    let headers = head.headers();
    let mut section = BytesMut::with_capacity(16 + headers.len() * 32);
    put_fields::<C>(head.status(), sent_fields(headers), &mut section);
    section.freeze()
}

/// Appends the status and the fields, without those for the connection (RFC 9113 §8.2.2, RFC 9114 §4.2).
fn put_fields<'a, C: Compress>(
    status: StatusCode,
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    out: &mut BytesMut,
) {
    const OF_CONNECTION: [&str; 3] = ["keep-alive", "proxy-connection", "upgrade"];
    C::put_field(b":status", status.as_str().as_bytes(), out);
    for (name, value) in fields.filter(|(name, _)| !OF_CONNECTION.contains(name)) {
        C::put_field(name.as_bytes(), value, out);
    }
}

/// Appends a trailer section.
pub(crate) fn put_trailers<C: Compress>(trailers: &HeaderMap, out: &mut BytesMut) {
    for (name, value) in trailers {
        C::put_field(name.as_str().as_bytes(), value.as_bytes(), out);
    }
}

/// Returns the body of a response for a rejection.
pub(crate) fn rejection_text(rejection: Rejection) -> String {
    let status = rejection.status();
    let reason = reason_phrase(status).unwrap_or_default();
    format!("{} {reason}: {rejection}\n", status.as_str())
}

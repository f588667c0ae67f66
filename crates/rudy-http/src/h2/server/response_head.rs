//! Encodes the head of a response.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use rudy_message::text::sent_fields;
use rudy_message::{DateLine, PreparedHead, ResponseHead};

use crate::hpack::encode_stateless;

/// Appends a header block without the fields that the connection adds. Without references to the table of the client, so that a
/// prepared block suits each connection; nginx does the same.
pub(super) fn encode_head(head: &ResponseHead<'_>, out: &mut BytesMut) {
    match head {
        ResponseHead::Fields(status, headers) => encode_block(*status, sent_fields(headers), out),
        ResponseHead::Prepared(prepared) => out.extend_from_slice(prepared.http2(prepare)),
        ResponseHead::Received(received) => encode_block(received.status(), received.fields(), out),
    }
}

/// Appends the date.
pub(super) fn encode_date(date: &DateLine, out: &mut BytesMut) {
    let encode = |value: &[u8]| {
        let mut field = BytesMut::with_capacity(32);
        encode_stateless(b"date", value, &mut field);
        field.freeze()
    };
    out.extend_from_slice(date.http2(encode));
}

/// Encodes a head that is sent repeatedly.
fn prepare(head: &PreparedHead) -> Bytes {
    let headers = head.headers();
    let mut block = BytesMut::with_capacity(16 + headers.len() * 32);
    encode_block(head.status(), sent_fields(headers), &mut block);
    block.freeze()
}

/// Appends the status and the fields, without those for the connection (RFC 9113 §8.2.2).
fn encode_block<'a>(
    status: StatusCode,
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    out: &mut BytesMut,
) {
    const OF_CONNECTION: [&str; 3] = ["keep-alive", "proxy-connection", "upgrade"];
    encode_stateless(b":status", status.as_str().as_bytes(), out);
    for (name, value) in fields.filter(|(name, _)| !OF_CONNECTION.contains(name)) {
        encode_stateless(name.as_bytes(), value, out);
    }
}

//! Encodes the end of the head of a response, with the framing of its body.

use bytes::BytesMut;
use rudy_message::text::put_content_length;
use rudy_message::{DateLine, Framing};

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

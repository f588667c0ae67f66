//! Turns the fields of a section into the text of a response head (RFC 9113 §8.3.2, RFC 9114 §4.3.2), and checks them.

use http::Version;
use rudy_message::Framing;
use rudy_message::client::ResponseHead;
use rudy_message::syntax::{is_text, parse_digits};

use super::HeadFault;
use super::field::{FIELD_OVERHEAD_BYTES, check_field, put_line};
use crate::Limits;
/// The length of the status line, which has no phrase.
const STATUS_LINE_BYTES: usize = 13;

/// The fields of one section.
pub(crate) struct ResponseText<'b> {
    /// The text of the head, or of a trailer section.
    text: &'b mut Vec<u8>,
    version: Version,
    is_trailer: bool,
    /// Whether a field has come that is not a pseudo-field: no pseudo-field may follow.
    has_fields: bool,
    status: Option<u16>,
    length: Option<u64>,
    list_bytes: usize,
    fields: usize,
    malformed: Option<&'static str>,
}

/// A checked head, whose text is in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedHead {
    /// 0 for a trailer section.
    pub(crate) status: u16,
    pub(crate) length: Option<u64>,
    version: Version,
}

impl<'b> ResponseText<'b> {
    pub(crate) fn new(text: &'b mut Vec<u8>, version: Version, is_trailer: bool) -> Self {
        text.clear();
        Self {
            text,
            version,
            is_trailer,
            has_fields: false,
            status: None,
            length: None,
            list_bytes: 0,
            fields: 0,
            malformed: None,
        }
    }

    /// Adds a field. After a fault, fields are only counted.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], limits: &Limits) {
        self.list_bytes += name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        self.fields += 1;
        if self.malformed.is_none() && !self.is_too_large(limits) {
            self.malformed = self.try_field(name, value).err();
        }
    }

    fn try_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if name.first() == Some(&b':') {
            return self.pseudo_field(name, value);
        }
        self.has_fields = true;
        check_field(name, value)?;
        if !is_text(value) {
            return Err("the value of a field has a control character");
        }
        if self.status.is_none() && !self.is_trailer {
            return Err("the response has no :status");
        }
        if name == b"content-length" && !self.is_trailer {
            let length = parse_digits(value).ok_or("Content-Length is not a number")?;
            if self.length.replace(length).is_some() {
                return Err("the response has more than one Content-Length");
            }
        }
        put_line(name, value, self.text);
        Ok(())
    }

    fn pseudo_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if self.is_trailer {
            return Err("a pseudo-field in a trailer section");
        }
        if name != b":status" {
            return Err("a pseudo-field other than :status");
        }
        if self.has_fields {
            return Err("a pseudo-field after another field");
        }
        let status = match *value {
            [b'1'..=b'9', tens, units] if tens.is_ascii_digit() && units.is_ascii_digit() => {
                value.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))
            }
            _ => return Err(":status is not a number of three digits"),
        };
        if self.status.replace(status).is_some() {
            return Err("a repeated pseudo-field");
        }
        let version = if self.version == Version::HTTP_3 { b"HTTP/3 " } else { b"HTTP/2 " };
        for part in [version, value, b" \r\n"] {
            self.text.extend_from_slice(part);
        }
        Ok(())
    }

    fn is_too_large(&self, limits: &Limits) -> bool {
        self.list_bytes > limits.head_bytes || self.fields > limits.head_fields
    }

    /// Ends the section.
    pub(crate) fn finish(self, limits: &Limits) -> Result<ReceivedHead, HeadFault> {
        if let Some(reason) = self.malformed {
            return Err(HeadFault::Malformed(reason));
        }
        if self.is_too_large(limits) {
            return Err(HeadFault::TooLarge);
        }
        if self.status.is_none() && !self.is_trailer {
            return Err(HeadFault::Malformed("the response has no :status"));
        }
        self.text.extend_from_slice(b"\r\n");
        Ok(ReceivedHead { status: self.status.unwrap_or(0), length: self.length, version: self.version })
    }
}

impl ReceivedHead {
    /// Returns a view of the text of a head.
    pub(crate) fn view(self, text: &[u8], framing: Framing) -> ResponseHead<'_> {
        ResponseHead::new(text, STATUS_LINE_BYTES, (self.status, self.version), framing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Result<(String, ReceivedHead), HeadFault> {
        section(fields, false, &Limits::for_responses())
    }

    fn section(
        fields: &[(&str, &str)],
        is_trailer: bool,
        limits: &Limits,
    ) -> Result<(String, ReceivedHead), HeadFault> {
        let mut buffer = Vec::new();
        let mut text = ResponseText::new(&mut buffer, Version::HTTP_3, is_trailer);
        for (name, value) in fields {
            text.field(name.as_bytes(), value.as_bytes(), limits);
        }
        let head = text.finish(limits)?;
        Ok((String::from_utf8(buffer).unwrap(), head))
    }

    #[test]
    fn a_block_is_a_head_of_http_1() {
        let (text, checked) =
            head(&[(":status", "404"), ("content-length", "7"), ("x", ""), ("set-cookie", "a\tb")]).unwrap();
        assert_eq!(text, "HTTP/3 404 \r\ncontent-length: 7\r\nx: \r\nset-cookie: a\tb\r\n\r\n");
        assert_eq!(checked, ReceivedHead { status: 404, length: Some(7), version: Version::HTTP_3 });
        let view = checked.view(text.as_bytes(), Framing::Length(7));
        assert_eq!((view.status(), view.reason(), view.version()), (404, &b""[..], Version::HTTP_3));
        assert_eq!((view.get("X"), view.fields().count()), (Some(&b""[..]), 3));
    }

    #[test]
    fn malformed_heads_are_rejected() {
        for fields in [
            &[][..],
            &[("x", "y")],
            &[("x", "y"), (":status", "200")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
            &[(":status", "200"), (":", "/")],
            &[(":status", "20")],
            &[(":status", "2000")],
            &[(":status", "099")],
            &[(":status", "2x0")],
            &[(":status", "+20")],
            &[(":status", "200 OK")],
            &[(":status", "")],
            &[(":status", "200"), ("Server", "x")],
            &[(":status", "200"), ("a b", "x")],
            &[(":status", "200"), ("", "x")],
            &[(":status", "200"), ("a", "b\r\nc: d")],
            &[(":status", "200"), ("a", "b\nc")],
            &[(":status", "200"), ("a", "b\0")],
            &[(":status", "200"), ("a", "\x1b[0m")],
            &[(":status", "200"), ("a", " b")],
            &[(":status", "200"), ("a", "b\t")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("proxy-connection", "close")],
            &[(":status", "200"), ("keep-alive", "timeout=5")],
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            &[(":status", "200"), ("upgrade", "h2c")],
            &[(":status", "200"), ("content-length", "1"), ("content-length", "1")],
            &[(":status", "200"), ("content-length", "1, 1")],
            &[(":status", "200"), ("content-length", "-1")],
            &[(":status", "200"), ("content-length", "")],
        ] {
            assert!(matches!(head(fields), Err(HeadFault::Malformed(_))), "{fields:?}");
        }
    }

    #[test]
    fn a_trailer_section_has_no_pseudo_fields() {
        let trailers = |name| section(&[(name, "1")], true, &Limits::for_responses());
        assert_eq!(trailers("a").unwrap().0, "a: 1\r\n\r\n");
        assert!(trailers(":status").is_err());
        assert!(trailers("connection").is_err());
    }

    #[test]
    fn a_head_has_a_maximum_size_and_number_of_fields() {
        let limits = Limits { head_bytes: 1000, head_fields: 20, ..Limits::for_responses() };
        let size = |bytes: usize| {
            let value = "v".repeat(bytes);
            section(&[(":status", "200"), ("a", &value)], false, &limits)
        };
        // 42 for the status, 33 for the name.
        assert!(size(1000 - 42 - 33).is_ok());
        assert_eq!(size(1000 - 42 - 32).unwrap_err(), HeadFault::TooLarge);
        let count = |count| {
            let fields = [&[(":status", "200")][..], &vec![("a", "b"); count]].concat();
            section(&fields, false, &limits)
        };
        assert!(count(19).is_ok());
        assert_eq!(count(20).unwrap_err(), HeadFault::TooLarge);
    }
}

//! Finds the end of a response head, and records the fields that affect the connection and the body, in one pass.

use http::Version;
use rudy_message::client::{RequestInfo, ResponseHead};
use rudy_message::semantics::field::KnownField;
use rudy_message::syntax::{Excerpt, is_text, split_response_field};
use rudy_message::text::{Coding, ConnectionFields, Length, Lines};
use rudy_message::{FieldLine, Framing};

use super::Fault;
use crate::Limits;

/// The first byte of a TLS record that holds an alert or a handshake (RFC 8446 §5.1).
const TLS_ALERT: u8 = 0x15;
const TLS_HANDSHAKE: u8 = 0x16;

/// The progress of the scan of a head, and its result.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    lines: Lines,
    /// The start of the field lines; 0 before the end of the status line.
    fields_start: u32,
    status: u16,
    is_http10: bool,
    fields: ConnectionFields,
}

impl HeadScan {
    /// Returns the number of received bytes of the head.
    pub(super) fn received(&self) -> usize {
        self.lines.scanned()
    }

    /// Searches for the end of the head. `bytes` start with the head and contain everything from the previous call. Returns the
    /// length of the head. Passes each field to `on_field`.
    pub(super) fn find_end(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        on_field: &mut impl FnMut(&FieldLine<'_>),
    ) -> Result<Option<usize>, Fault> {
        if self.fields_start == 0 {
            check_start(&bytes[..bytes.len().min(limits.head_bytes)])?;
        }
        loop {
            // Scripts and small servers end lines in LF alone. A proxy writes the lines again, so that no other recipient reads them.
            let line = self.lines.next_lenient_line(bytes, limits.head_bytes);
            let too_large = |_| Fault::HeadTooLarge { limit: limits.head_bytes };
            let Some(line) = line.map_err(too_large)? else { return Ok(None) };
            let (line, whole) = (&bytes[line.clone()], &bytes[line.start..self.lines.start()]);
            if self.fields_start == 0 {
                self.parse_status_line(line)?;
                self.fields_start = u32::try_from(self.lines.start()).unwrap_or(u32::MAX);
            } else if line.is_empty() {
                return Ok(Some(self.lines.end_section().length));
            } else {
                let counted = self.lines.count_field(limits.head_fields);
                counted.map_err(|_| Fault::TooManyFields { limit: limits.head_fields })?;
                self.scan_field(line, whole, on_field)?;
            }
        }
    }

    /// Returns a view of the head.
    pub(super) fn view<'a>(&self, raw: &'a [u8], framing: Framing) -> ResponseHead<'a> {
        let version = if self.is_http10 { Version::HTTP_10 } else { Version::HTTP_11 };
        ResponseHead::new(raw, self.fields_start as usize, (self.status, version), framing)
    }

    /// Returns the framing of the body (RFC 9112 §6.3).
    pub(super) fn framing(&self, request: RequestInfo, raw: &[u8]) -> Result<Framing, Fault> {
        let is_tunnel = request.is_connect && (200..=299).contains(&self.status);
        // Items 1 and 2: regardless of the fields.
        if request.is_head || is_tunnel || matches!(self.status, 100..=199 | 204 | 304) {
            return Ok(Framing::None);
        }
        let excerpt = |name| Excerpt::of(self.view(raw, Framing::None).get(name).unwrap_or_default());
        match (self.fields.coding, self.fields.length) {
            (Coding::Absent, Length::Absent) => Ok(Framing::UntilClose),
            (Coding::Absent, Length::Once(length)) => Ok(Framing::Length(length)),
            (Coding::Absent, Length::Bad) => Err(Fault::BadContentLength(excerpt("content-length"))),
            (Coding::Absent, Length::Repeated) => Err(Fault::RepeatedContentLength),
            // Item 3 prefers the coding, but recommends to treat both as an error: recipients that differ about the length enable
            // response splitting.
            (_, Length::Once(_) | Length::Bad | Length::Repeated) => Err(Fault::AmbiguousLength),
            // §6.1: HTTP/1.0 has no transfer codings.
            (_, Length::Absent) if self.is_http10 => Err(Fault::TransferCodingInHttp10),
            (Coding::Chunked, Length::Absent) => Ok(Framing::Chunked),
            // Item 4 would read until the connection closes, in a coding that the request did not allow with TE.
            (_, Length::Absent) => Err(Fault::BadTransferCoding(excerpt("transfer-encoding"))),
        }
    }

    /// Whether the server keeps the connection open after this response (RFC 9112 §9.3).
    pub(super) fn keep_alive(&self) -> bool {
        self.fields.keep_alive(self.is_http10)
    }

    /// Parses `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4). Servers that omit the phrase often omit the
    /// second space too, which is unambiguous.
    fn parse_status_line(&mut self, line: &[u8]) -> Result<(), Fault> {
        let bad = || Fault::BadStatusLine(Excerpt::of(line));
        let [b'H', b'T', b'T', b'P', b'/', major, rest @ ..] = line else { return Err(bad()) };
        if !major.is_ascii_digit() {
            return Err(bad());
        }
        if *major != b'1' {
            return Err(Fault::UnsupportedVersion(Excerpt::of(line)));
        }
        let [b'.', minor, b' ', hundreds @ b'1'..=b'9', tens, units, rest @ ..] = rest else {
            return Err(bad());
        };
        let are_digits = minor.is_ascii_digit() && tens.is_ascii_digit() && units.is_ascii_digit();
        let is_phrase = matches!(rest, [] | [b' ', ..]) && is_text(rest);
        if !are_digits || !is_phrase {
            return Err(bad());
        }
        let digit = |byte: &u8| u16::from(byte - b'0');
        self.status = digit(hundreds) * 100 + digit(tens) * 10 + digit(units);
        self.is_http10 = *minor == b'0';
        Ok(())
    }

    /// Checks a field line, and records it if it affects the connection or the body. `whole` is the line with its end.
    fn scan_field(
        &mut self,
        line: &[u8],
        whole: &[u8],
        on_field: &mut impl FnMut(&FieldLine<'_>),
    ) -> Result<(), Fault> {
        let Some((name, value)) = split_response_field(line) else {
            let is_folded = matches!(line.first(), Some(b' ' | b'\t'));
            let fault = if is_folded { Fault::FoldedField } else { Fault::InvalidField };
            return Err(fault(Excerpt::of(line)));
        };
        let known = KnownField::of(name);
        match known {
            Some(KnownField::Connection) => self.fields.record_connection(value),
            Some(KnownField::ContentLength) => self.fields.record_length(value),
            Some(KnownField::TransferEncoding) => self.fields.record_codings(value),
            _ => {}
        }
        on_field(&FieldLine::received(name, value, known, whole));
        Ok(())
    }
}

/// Checks the first bytes before the first LF: a server of another protocol may never send one.
fn check_start(bytes: &[u8]) -> Result<(), Fault> {
    if bytes.iter().zip(b"HTTP/").all(|(byte, expected)| byte == expected) {
        return Ok(());
    }
    Err(match bytes.first() {
        Some(&(TLS_ALERT | TLS_HANDSHAKE)) => Fault::TlsOnPlainConnection,
        _ => Fault::NotHttp(Excerpt::of(bytes)),
    })
}

//! Finds the end of an answer's head and what it says about the connection and the body: each byte is looked at once.

use http::Version;

use super::{Excerpt, Fault, RequestInfo, ResponseHead};
use crate::Limits;
use crate::h1::Framing;
use crate::h1::connection_fields::{Coding, ConnectionFields, Length};
use crate::h1::lines::Lines;
use crate::h1::malformed::Malformed;
use crate::syntax::{is_text, split_field};

/// First bytes of a TLS record that holds an alert or a handshake (RFC 8446 §5.1).
const TLS_ALERT: u8 = 0x15;
const TLS_HANDSHAKE: u8 = 0x16;

/// How far a head has been looked at, and what was noted.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    lines: Lines,
    /// Where the field lines begin; 0 before the status line has come.
    fields_start: u32,
    status: u16,
    is_http10: bool,
    fields: ConnectionFields,
}

impl HeadScan {
    /// Bytes of the head that have come.
    pub(super) fn received(&self) -> usize {
        self.lines.scanned()
    }

    /// Looks for the end of the head in `bytes`, which begin where the head begins and have only grown since the last call.
    /// Says how long the head is.
    pub(super) fn find_end(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Fault> {
        if self.fields_start == 0 {
            check_start(&bytes[..bytes.len().min(limits.head_bytes)])?;
        }
        loop {
            let start = self.lines.start();
            let line = match self.lines.next_line(bytes, limits.head_bytes) {
                Ok(Some(line)) => &bytes[line],
                Ok(None) => return Ok(None),
                Err(Malformed::SectionTooLarge) => {
                    return Err(Fault::HeadTooLarge { limit: limits.head_bytes });
                }
                Err(_) => return Err(Fault::BareLineFeed(Excerpt::of(&bytes[start..]))),
            };
            if self.fields_start == 0 {
                self.parse_status_line(line)?;
                self.fields_start = u32::try_from(self.lines.start()).unwrap_or(u32::MAX);
            } else if line.is_empty() {
                return Ok(Some(self.lines.end_section().length));
            } else {
                let is_one_more = self.lines.count_field(limits);
                is_one_more.map_err(|_| Fault::TooManyFields { limit: limits.head_fields })?;
                self.scan_field(line)?;
            }
        }
    }

    /// The head that was found, as its readers see it.
    pub(super) fn view<'a>(&self, raw: &'a [u8], framing: Framing) -> ResponseHead<'a> {
        ResponseHead {
            raw,
            fields_start: self.fields_start as usize,
            status: self.status,
            version: if self.is_http10 { Version::HTTP_10 } else { Version::HTTP_11 },
            framing,
        }
    }

    /// RFC 9112 §6.3, for answers.
    pub(super) fn framing(&self, request: RequestInfo, raw: &[u8]) -> Result<Framing, Fault> {
        let is_tunnel = request.is_connect && (200..=299).contains(&self.status);
        // Items 1 and 2: whatever the fields say.
        if request.is_head || is_tunnel || matches!(self.status, 100..=199 | 204 | 304) {
            return Ok(Framing::None);
        }
        let excerpt = |name| Excerpt::of(self.view(raw, Framing::None).get(name).unwrap_or_default());
        match (self.fields.coding, self.fields.length) {
            (Coding::Absent, Length::Absent) => Ok(Framing::UntilClose),
            (Coding::Absent, Length::Once(length)) => Ok(Framing::Length(length)),
            (Coding::Absent, Length::Bad) => Err(Fault::BadContentLength(excerpt("content-length"))),
            (Coding::Absent, Length::Repeated) => Err(Fault::RepeatedContentLength),
            // Item 3 has the coding win, and calls it an error that ought to be handled: two readers that differ about the
            // length are how responses are split.
            (_, Length::Once(_) | Length::Bad | Length::Repeated) => Err(Fault::AmbiguousLength),
            // §6.1: HTTP/1.0 has no transfer codings.
            (_, Length::Absent) if self.is_http10 => Err(Fault::TransferCodingInHttp10),
            (Coding::Chunked, Length::Absent) => Ok(Framing::Chunked),
            // Item 4 would have a body until the end of the connection, in a coding that was never asked for with TE.
            (_, Length::Absent) => Err(Fault::BadTransferCoding(excerpt("transfer-encoding"))),
        }
    }

    /// Whether the peer means to go on after this answer (RFC 9112 §9.3).
    pub(super) fn keep_alive(&self) -> bool {
        self.fields.keep_alive(self.is_http10)
    }

    /// `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4). The second space is left out by servers that leave
    /// out the phrase; nothing can be mistaken for it.
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
        let is_in_order = minor.is_ascii_digit() && tens.is_ascii_digit() && units.is_ascii_digit();
        let is_phrase = matches!(rest, [] | [b' ', ..]) && is_text(rest);
        if !is_in_order || !is_phrase {
            return Err(bad());
        }
        let digit = |byte: &u8| u16::from(byte - b'0');
        self.status = digit(hundreds) * 100 + digit(tens) * 10 + digit(units);
        self.is_http10 = *minor == b'0';
        Ok(())
    }

    /// Notes what a field says about the connection and the body.
    fn scan_field(&mut self, line: &[u8]) -> Result<(), Fault> {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(Fault::FoldedField(Excerpt::of(line)));
        }
        let (name, value) = split_field(line).ok_or_else(|| Fault::InvalidField(Excerpt::of(line)))?;
        // Most fields have another length than these, which says it cheapest.
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => self.fields.record_connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.fields.record_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.fields.record_codings(value),
            _ => {}
        }
        Ok(())
    }
}

/// Nobody who speaks another protocol need ever send the LF that we would wait for.
fn check_start(bytes: &[u8]) -> Result<(), Fault> {
    if bytes.iter().zip(b"HTTP/").all(|(byte, expected)| byte == expected) {
        return Ok(());
    }
    Err(match bytes.first() {
        Some(&(TLS_ALERT | TLS_HANDSHAKE)) => Fault::TlsOnPlainConnection,
        _ => Fault::NotHttp(Excerpt::of(bytes)),
    })
}

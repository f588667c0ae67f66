//! The head of an app's response in CGI syntax (RFC 3875 §6): header fields, where `Status` and `Location` determine the
//! kind of response.
//!
//! The parser follows the common behavior of other servers. Lines end in LF or CRLF. Without a `Status`, the status is 200,
//! or 302 with a `Location`. A response with a `Status` needs no `Content-Type`, as with nginx and Apache, because many apps
//! omit it in a response without a body. A head with none of the three fields is rejected: it usually is text that the app
//! printed too early.

mod error;
#[cfg(test)]
mod tests;

pub use self::error::HeadError;

use std::mem;

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{StatusCode, Uri};
use rudy_message::semantics::field::{KnownField, KnownFields};
use rudy_message::syntax::{parse_digits, split_response_field};
use rudy_message::{FieldLine, Instructions, ReceivedFields, Replacement};

use crate::{Excerpt, Limits};

/// The head of an app's response.
#[derive(Debug)]
pub struct Head {
    /// How the server handles the response.
    pub kind: ResponseKind,
    /// Its fields without `Status`, `Content-Length` and connection fields. Empty for a local redirect.
    pub fields: ReceivedFields,
    /// Its `Content-Length`. The caller compares it with the body.
    pub content_length: Option<u64>,
    /// Its instructions for the server, which `fields` does not contain.
    pub instructions: Option<Box<Instructions>>,
    /// The names of removed connection fields. Only the server controls the connection to the client (RFC 9110 §7.6.1,
    /// RFC 3875 §6.3.5).
    pub removed_fields: Vec<HeaderName>,
}

impl Head {
    /// Returns what the app names instead of its own response.
    #[must_use]
    pub fn replacement(&self) -> Option<&Replacement> {
        self.instructions.as_ref()?.replacement.as_ref()
    }
}

/// The kinds of responses (RFC 3875 §6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseKind {
    /// A response for the client with this status: a document or a client redirect.
    Document(StatusCode),
    /// The server handles the request again with this path, which begins with a single slash and may have a query (§6.2.2).
    /// Any body is ignored. A response with fields that would be lost is a client redirect instead.
    LocalRedirect(String),
}

/// Who sends a head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Sender {
    #[default]
    Responder,
    /// Its head is valid with any single field.
    Authorizer,
    /// Its head may begin with a status line.
    Uwsgi,
}

/// Decodes the head at the start of an app's stream, whose pieces may end anywhere.
///
/// ```
/// use http::StatusCode;
/// use rudy_fastcgi::Limits;
/// use rudy_fastcgi::cgi::{ResponseKind, HeadDecoder};
///
/// let mut decoder = HeadDecoder::new();
/// let piece = b"Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno such page";
/// let (used, head) = decoder.decode(piece, &Limits::default())?.expect("the piece has the whole head");
/// assert_eq!(head.kind, ResponseKind::Document(StatusCode::NOT_FOUND));
/// assert_eq!(&piece[used..], b"no such page");
/// # Ok::<(), rudy_fastcgi::cgi::HeadError>(())
/// ```
#[derive(Debug, Default)]
pub struct HeadDecoder {
    sender: Sender,
    /// The earlier pieces of the head. Empty if the head arrives in one piece.
    buffered: Vec<u8>,
    /// Start of the first incomplete line.
    line: usize,
}

impl HeadDecoder {
    /// Returns a decoder for the response of a responder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a decoder for the response of an authorizer, which needs no `Content-Type`: fields alone mean 200 (FastCGI
    /// 1.0 §6.3, RFC 3875 §6.3.3). At least one field is required, because a failing script may print an empty line.
    #[must_use]
    pub fn for_authorizer() -> Self {
        Self { sender: Sender::Authorizer, ..Self::default() }
    }

    /// Returns a decoder for the response of an app behind uwsgi, which may begin with a status line, as over HTTP.
    #[must_use]
    pub fn with_status_line() -> Self {
        Self { sender: Sender::Uwsgi, ..Self::default() }
    }

    /// Decodes a piece of the response. Returns `None` if the head continues after this piece. Otherwise returns the head
    /// and the number of bytes of the piece that belong to it; the rest is the body.
    ///
    /// # Errors
    ///
    /// The head is invalid or exceeds a limit. The response cannot be used.
    pub fn decode(&mut self, piece: &[u8], limits: &Limits) -> Result<Option<(usize, Head)>, HeadError> {
        let before = self.buffered.len();
        // One byte over the limit is enough to detect a head that is too large.
        let piece = &piece[..piece.len().min((limits.head_bytes + 1).saturating_sub(before))];
        if before > 0 {
            self.buffered.extend_from_slice(piece);
        }
        let all = if before > 0 { &self.buffered } else { piece };
        match find_end(all, &mut self.line) {
            Some(end) if end <= limits.head_bytes => {
                let head = parse(&all[..end], self.sender, limits)?;
                self.buffered = Vec::new();
                Ok(Some((end - before, head)))
            }
            None if all.len() <= limits.head_bytes => {
                if before == 0 {
                    self.buffered.extend_from_slice(piece);
                }
                Ok(None)
            }
            _ => Err(HeadError::TooLarge { limit: limits.head_bytes, start: Excerpt::of(all) }),
        }
    }

    /// Returns the error of a response that ends before [`Self::decode`] has returned a head.
    #[must_use]
    pub fn end_of_input(self) -> HeadError {
        match self.buffered.len() {
            0 => HeadError::Empty,
            received => HeadError::Truncated { received, start: Excerpt::of(&self.buffered) },
        }
    }
}

/// Returns the end of the head, which is after the first empty line. `bytes` starts at the head's first byte, and `start` is where the first
/// incomplete line does.
fn find_end(bytes: &[u8], start: &mut usize) -> Option<usize> {
    while let Some(length) = memchr::memchr(b'\n', &bytes[*start..]) {
        let line = &bytes[*start..*start + length];
        *start += length + 1;
        if matches!(line, [] | [b'\r']) {
            return Some(*start);
        }
    }
    None
}

fn parse(bytes: &[u8], sender: Sender, limits: &Limits) -> Result<Head, HeadError> {
    let mut parts = Parts::default();
    let mut count = 0;
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        let (line, whole) = (&bytes[start..end], &bytes[start..=end]);
        start = end + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        count += 1;
        if count > limits.head_fields {
            return Err(HeadError::TooManyFields { limit: limits.head_fields });
        }
        if count == 1 && line.starts_with(b"HTTP/") {
            parts.parse_status_line(line, sender)?;
        } else {
            parts.parse_line(line, whole)?;
        }
    }
    parts.finish(sender)
}

/// The fields parsed so far.
#[derive(Default)]
struct Parts {
    status: Option<StatusCode>,
    fields: ReceivedFields,
    content_length: Option<u64>,
    removed_fields: Vec<HeaderName>,
    instructions: Option<Box<Instructions>>,
    has_content_type: bool,
    has_location: bool,
    /// Whether a local redirect would drop a field, such as a cookie. RFC 3875 §6.2.2 forbids such fields.
    has_others: bool,
}

/// The fields of the connection to the client, which only the server controls, but `Trailer`.
const OF_CONNECTION: KnownFields = KnownFields::of(&[
    KnownField::Connection,
    KnownField::KeepAlive,
    KnownField::ProxyConnection,
    KnownField::Te,
    KnownField::TransferEncoding,
    KnownField::Upgrade,
]);

/// The length of the longest other name that means something here.
const KNOWN_BYTES_MAX: usize = "location".len();

impl Parts {
    /// Parses a line; `whole` is the line with its end.
    fn parse_line(&mut self, line: &[u8], whole: &[u8]) -> Result<(), HeadError> {
        let excerpt = || Excerpt::of(line);
        if matches!(line[0], b' ' | b'\t') {
            return Err(HeadError::Folded(excerpt()));
        }
        // As in responses over HTTP.
        let (name, value) = split_response_field(line).ok_or_else(|| HeadError::InvalidField(excerpt()))?;
        let field = FieldLine::received(name, value, KnownField::of(name), whole);
        match field.known {
            Some(field) if OF_CONNECTION.contains(field) => {
                self.removed_fields.extend(HeaderName::from_bytes(name));
                return Ok(());
            }
            Some(KnownField::ContentLength) => {
                let length = parse_digits(value).ok_or_else(|| HeadError::BadContentLength(excerpt()))?;
                if self.content_length.replace(length).is_some_and(|earlier| earlier != length) {
                    return Err(HeadError::ContentLengthsDiffer);
                }
                return Ok(());
            }
            Some(KnownField::ContentType) => {
                if mem::replace(&mut self.has_content_type, true) {
                    return Err(HeadError::Duplicate("Content-Type"));
                }
            }
            Some(_) => self.has_others = true,
            None => return self.parse_other(&field),
        }
        self.fields.push_line(&field);
        Ok(())
    }

    /// Parses a field that has no meaning for other messages.
    fn parse_other(&mut self, field: &FieldLine<'_>) -> Result<(), HeadError> {
        match lower_if_short(field.name, &mut [0; KNOWN_BYTES_MAX]) {
            b"status" => return self.parse_status(field.value),
            b"trailer" => {
                self.removed_fields.extend(HeaderName::from_bytes(field.name));
                return Ok(());
            }
            b"location" => {
                if mem::replace(&mut self.has_location, true) {
                    return Err(HeadError::Duplicate("Location"));
                }
            }
            _ => {
                self.has_others = true;
                if Instructions::take(&mut self.instructions, field) {
                    return Ok(());
                }
            }
        }
        self.fields.push_line(field);
        Ok(())
    }

    /// Parses `HTTP-version SP status-code SP reason-phrase` (RFC 9112 §4), which CGI does not have.
    fn parse_status_line(&mut self, line: &[u8], sender: Sender) -> Result<(), HeadError> {
        let status =
            line.iter().position(|byte| *byte == b' ').map(|space| line[space + 1..].trim_ascii_start());
        match status.filter(|_| sender == Sender::Uwsgi) {
            Some(status) => self.parse_status(status),
            None => Err(HeadError::StatusLine(Excerpt::of(line))),
        }
    }

    /// Parses `status-code SP reason-phrase` (RFC 3875 §6.3.3). The phrase is often missing, and is ignored.
    fn parse_status(&mut self, value: &[u8]) -> Result<(), HeadError> {
        let bad = || HeadError::BadStatus(Excerpt::of(value));
        let (digits, rest) = value.split_at_checked(3).ok_or_else(bad)?;
        // 1xx is not a final status, and only the server sends it.
        let is_final = matches!(digits[0], b'2'..=b'9') && matches!(rest, [] | [b' ', ..]);
        let status = StatusCode::from_bytes(digits).ok().filter(|_| is_final).ok_or_else(bad)?;
        match self.status.replace(status) {
            None => Ok(()),
            Some(_) => Err(HeadError::Duplicate("Status")),
        }
    }

    fn finish(self, sender: Sender) -> Result<Head, HeadError> {
        let Self {
            status,
            mut fields,
            content_length,
            removed_fields,
            instructions,
            has_content_type,
            has_location,
            has_others,
        } = self;
        let has_field = has_others || content_length.is_some();
        let kind = match status {
            Some(status) => ResponseKind::Document(status),
            None if has_location => {
                match fields.get(&header::LOCATION).map(local_path).transpose()?.flatten() {
                    Some(path) if !has_others => {
                        fields = ReceivedFields::default();
                        ResponseKind::LocalRedirect(path)
                    }
                    _ => ResponseKind::Document(StatusCode::FOUND),
                }
            }
            None if has_content_type || sender == Sender::Authorizer && has_field => {
                ResponseKind::Document(StatusCode::OK)
            }
            None => return Err(HeadError::NoTypeLocationOrStatus),
        };
        Ok(Head { kind, fields, content_length, instructions, removed_fields })
    }
}

/// Returns a name in lower case, or nothing if it is longer than the buffer.
fn lower_if_short<'a>(name: &[u8], buffer: &'a mut [u8]) -> &'a [u8] {
    let Some(lower) = buffer.get_mut(..name.len()) else { return &[] };
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    lower
}

/// Returns the path of a local redirect. A `Location` with two slashes begins with another host, and a fragment never
/// reaches a server, so both are redirects for the client.
fn local_path(bytes: &[u8]) -> Result<Option<String>, HeadError> {
    if bytes.first() != Some(&b'/') || bytes.get(1) == Some(&b'/') || bytes.contains(&b'#') {
        return Ok(None);
    }
    // The same rules apply as for any request target.
    let uri = Uri::from_maybe_shared(Bytes::copy_from_slice(bytes));
    let uri = uri.map_err(|_| HeadError::BadLocation(Excerpt::of(bytes)))?;
    Ok(uri.path_and_query().map(|path| path.as_str().to_owned()))
}

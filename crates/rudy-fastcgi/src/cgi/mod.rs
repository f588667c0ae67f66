//! The head of an app's answer, as CGI has it (RFC 3875 §6): fields, among which `Status` and `Location` say what is to
//! become of it.
//!
//! It is read as other servers read it, where they agree: lines end in LF or CRLF; no `Status` means 200, or 302 with a
//! `Location`; an answer needs no `Content-Type` if it has a `Status`, as from nginx and Apache, because many apps leave it
//! out of an answer without a body. It is stricter where a lax reading hides a mistake: a head with none of the three is most
//! often text that was printed too early, and is refused.

mod error;
#[cfg(test)]
mod tests;

pub use self::error::HeadError;

use std::mem;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Uri};
use rudy_http::syntax::parse_digits;

use crate::{Excerpt, Limits};

/// The head of an app's answer.
#[derive(Debug)]
pub struct Head {
    /// What is to become of it.
    pub kind: ResponseKind,
    /// Its fields but `Status`, those about the connection, and with a local redirection all.
    pub fields: HeaderMap,
    /// Its `Content-Length`, which is among the fields. Whether so much comes is the caller's to see.
    pub content_length: Option<u64>,
    /// Whether the fields have instructions for the server among them: `X-Accel-Buffering`, `X-Accel-Redirect`, `X-Sendfile` or
    /// `X-Lighttpd-Send-File`. To look for each costs more than all else that is done with a short head.
    pub has_instructions: bool,
    /// Names of fields that were left out, because they are about the server's connection and not the app's answer
    /// (RFC 9110 §7.6.1, RFC 3875 §6.3.5).
    pub left_out: Vec<HeaderName>,
}

/// What is to become of an app's answer (RFC 3875 §6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseKind {
    /// It goes to the client with this status: a document, or a redirection for the client.
    Document(StatusCode),
    /// The server is to answer as if it had been asked for this path, which begins with one slash and may have a query
    /// (§6.2.2). Whatever body there is is nobody's. An answer with fields that would be lost is a redirection for the
    /// client instead.
    LocalRedirect(String),
}

/// Finds the head at the beginning of an app's stream, whose pieces may end anywhere.
///
/// ```
/// use http::StatusCode;
/// use rudy_fastcgi::Limits;
/// use rudy_fastcgi::cgi::{ResponseKind, HeadDecoder};
///
/// let mut decoder = HeadDecoder::new();
/// let piece = b"Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno such page";
/// let (used, head) = decoder.decode(piece, &Limits::default())?.expect("the whole head is there");
/// assert_eq!(head.kind, ResponseKind::Document(StatusCode::NOT_FOUND));
/// assert_eq!(&piece[used..], b"no such page");
/// # Ok::<(), rudy_fastcgi::cgi::HeadError>(())
/// ```
#[derive(Debug, Default)]
pub struct HeadDecoder {
    /// Whether any field makes a head.
    for_authorizer: bool,
    /// What came of it before; nothing where one piece holds all of it.
    kept: Vec<u8>,
    scan: Scan,
}

/// How far the search for the end of a head has come.
#[derive(Debug, Default)]
struct Scan {
    /// Where the first incomplete line begins.
    line: usize,
    /// Complete lines before it.
    lines: usize,
}

impl HeadDecoder {
    /// For an answer of which nothing has come.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// For the response of an authorizer, of which nothing has come. It has no document, and so no `Content-Type`: fields alone
    /// are a 200 (FastCGI 1.0 §6.3, RFC 3875 §6.3.3). At least one is needed, because an empty line is what a failing script
    /// prints, too.
    #[must_use]
    pub fn for_authorizer() -> Self {
        Self { for_authorizer: true, ..Self::default() }
    }

    /// Takes a piece of the answer. `None` if all of it belongs to the head and more has to come; else the head, and how many
    /// bytes of the piece belong to it. What is behind them is the body.
    ///
    /// # Errors
    ///
    /// It is no head, or more than the limits allow. The answer cannot be used.
    pub fn decode(&mut self, piece: &[u8], limits: &Limits) -> Result<Option<(usize, Head)>, HeadError> {
        let before = self.kept.len();
        // One byte over the limit is enough to know that there are more.
        let piece = &piece[..piece.len().min((limits.head_bytes + 1).saturating_sub(before))];
        if before > 0 {
            self.kept.extend_from_slice(piece);
        }
        let all = if before > 0 { &self.kept } else { piece };
        match self.scan.find_end(all) {
            Some(end) if end <= limits.head_bytes => {
                let head = parse(&all[..end], self.scan.lines, self.for_authorizer, limits)?;
                self.kept = Vec::new();
                Ok(Some((end - before, head)))
            }
            None if all.len() <= limits.head_bytes => {
                if before == 0 {
                    self.kept.extend_from_slice(piece);
                }
                Ok(None)
            }
            _ => Err(HeadError::TooLarge { limit: limits.head_bytes, start: Excerpt::of(all) }),
        }
    }

    /// Why there is no head, where the answer has ended before [`Self::decode`] gave one.
    #[must_use]
    pub fn end_of_input(self) -> HeadError {
        match self.kept.len() {
            0 => HeadError::Empty,
            received => HeadError::Truncated { received, start: Excerpt::of(&self.kept) },
        }
    }
}

impl Scan {
    /// Where the head ends: behind the first empty line. `bytes` begin with the head's first byte.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(length) = memchr::memchr(b'\n', &bytes[self.line..]) {
            let line = &bytes[self.line..self.line + length];
            self.line += length + 1;
            if matches!(line, [] | [b'\r']) {
                return Some(self.line);
            }
            self.lines += 1;
        }
        None
    }
}

fn parse(bytes: &[u8], lines: usize, for_authorizer: bool, limits: &Limits) -> Result<Head, HeadError> {
    // 6 is what an empty map reserves for its first field; a smaller map is slower, and grows when the server adds fields.
    let fields = HeaderMap::try_with_capacity(lines.min(limits.head_fields).max(6)).unwrap_or_default();
    let mut parts = Parts { fields, ..Parts::default() };
    let mut count = 0;
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        let line = &bytes[start..end];
        start = end + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        count += 1;
        if count > limits.head_fields {
            return Err(HeadError::TooManyFields { limit: limits.head_fields });
        }
        parts.take_line(line, count == 1)?;
    }
    parts.finish(for_authorizer)
}

/// What is known of a head so far.
#[derive(Default)]
struct Parts {
    status: Option<StatusCode>,
    fields: HeaderMap,
    content_length: Option<u64>,
    left_out: Vec<HeaderName>,
    has_instructions: bool,
    // Two flags, because three look-ups in the map are a tenth of the time that a short head takes.
    has_content_type: bool,
    has_location: bool,
}

impl Parts {
    fn take_line(&mut self, line: &[u8], is_first: bool) -> Result<(), HeadError> {
        let excerpt = || Excerpt::of(line);
        if is_first && line.starts_with(b"HTTP/") {
            return Err(HeadError::StatusLine(excerpt()));
        }
        if matches!(line[0], b' ' | b'\t') {
            return Err(HeadError::Folded(excerpt()));
        }
        let colon = memchr::memchr(b':', line).ok_or_else(|| HeadError::InvalidField(excerpt()))?;
        let name = match &line[..colon] {
            name if name.eq_ignore_ascii_case(b"x-powered-by") => X_POWERED_BY,
            name => HeaderName::from_bytes(name).map_err(|_| HeadError::InvalidField(excerpt()))?,
        };
        let value = line[colon + 1..].trim_ascii();
        match name.as_str() {
            "status" => return self.take_status(value),
            "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer" | "transfer-encoding"
            | "upgrade" => {
                self.left_out.push(name);
                return Ok(());
            }
            "content-length" => {
                let length = parse_digits(value).ok_or_else(|| HeadError::BadContentLength(excerpt()))?;
                if self.content_length.replace(length).is_some_and(|earlier| earlier != length) {
                    return Err(HeadError::ContentLengthsDiffer);
                }
                self.fields.insert(name, HeaderValue::from(length));
                return Ok(());
            }
            "content-type" if mem::replace(&mut self.has_content_type, true) => {
                return Err(HeadError::Duplicate("Content-Type"));
            }
            "location" if mem::replace(&mut self.has_location, true) => {
                return Err(HeadError::Duplicate("Location"));
            }
            "x-accel-buffering" | "x-accel-redirect" | "x-sendfile" | "x-lighttpd-send-file" => {
                self.has_instructions = true;
            }
            _ => {}
        }
        let value = HeaderValue::from_bytes(value).map_err(|_| HeadError::InvalidField(excerpt()))?;
        self.fields.append(name, value);
        Ok(())
    }

    /// `status-code SP reason-phrase` (RFC 3875 §6.3.3). The phrase is often left out, and nobody reads it.
    fn take_status(&mut self, value: &[u8]) -> Result<(), HeadError> {
        let bad = || HeadError::BadStatus(Excerpt::of(value));
        let (digits, rest) = value.split_at_checked(3).ok_or_else(bad)?;
        // A 1xx is no answer, and is the server's to send.
        let is_final = matches!(digits[0], b'2'..=b'9') && matches!(rest, [] | [b' ', ..]);
        let status = StatusCode::from_bytes(digits).ok().filter(|_| is_final).ok_or_else(bad)?;
        match self.status.replace(status) {
            None => Ok(()),
            Some(_) => Err(HeadError::Duplicate("Status")),
        }
    }

    fn finish(self, for_authorizer: bool) -> Result<Head, HeadError> {
        let Self {
            status,
            mut fields,
            content_length,
            left_out,
            has_instructions,
            has_content_type,
            has_location,
        } = self;
        let kind = match status {
            Some(status) => ResponseKind::Document(status),
            None if has_location => redirect(&mut fields)?,
            None if has_content_type => ResponseKind::Document(StatusCode::OK),
            None if for_authorizer && !fields.is_empty() => ResponseKind::Document(StatusCode::OK),
            None => return Err(HeadError::NoTypeLocationOrStatus),
        };
        Ok(Head { kind, fields, content_length, has_instructions, left_out })
    }
}

/// What a `Location` without a `Status` means.
fn redirect(fields: &mut HeaderMap) -> Result<ResponseKind, HeadError> {
    let path = fields.get(header::LOCATION).map(local_path).transpose()?.flatten();
    Ok(match path {
        Some(path) if !fields.keys().any(would_be_lost) => {
            fields.clear();
            ResponseKind::LocalRedirect(path)
        }
        _ => ResponseKind::Document(StatusCode::FOUND),
    })
}

/// The path in a `Location` without a `Status`, if the server is to answer with it itself. With two slashes it begins
/// another host's name, so it is the client's to follow; and so is a fragment, which no server is told.
fn local_path(location: &HeaderValue) -> Result<Option<String>, HeadError> {
    let bytes = location.as_bytes();
    if bytes.first() != Some(&b'/') || bytes.get(1) == Some(&b'/') || bytes.contains(&b'#') {
        return Ok(None);
    }
    // Whatever is a request's target elsewhere has to be one here.
    let uri = Uri::from_maybe_shared(Bytes::copy_from_slice(bytes));
    let uri = uri.map_err(|_| HeadError::BadLocation(Excerpt::of(bytes)))?;
    Ok(uri.path_and_query().map(|path| path.as_str().to_owned()))
}

/// Whether a field means something without a body: a cookie, say. RFC 3875 §6.2.2 has no such fields beside a local path.
fn would_be_lost(name: &HeaderName) -> bool {
    ![header::LOCATION, header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name)
}

/// PHP sends it by default, and `http` has no constant for it, which would cost an allocation for each response.
const X_POWERED_BY: HeaderName = HeaderName::from_static("x-powered-by");

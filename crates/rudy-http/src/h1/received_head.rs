//! Response heads that a proxy passes on.

use std::sync::OnceLock;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::Fields;
use super::encode::put_field;

/// A response head that was received. Its lines are sent as they are; a map of the fields is made only if something needs it.
///
/// It never contains `Connection`, `Content-Length` or `Transfer-Encoding`: the connection adds these fields.
#[derive(Debug, Clone)]
pub struct ReceivedHead {
    status: StatusCode,
    /// Each with its CRLF, names in lower case, at most one `Date`.
    lines: Vec<u8>,
    has_date: bool,
    map: OnceLock<Box<HeaderMap>>,
}

impl ReceivedHead {
    /// Copies the fields for which `is_wanted` returns true, from `bytes` bytes of valid lines.
    pub(super) fn new<'a>(
        status: StatusCode,
        mut fields: Fields<'a>,
        bytes: usize,
        mut is_wanted: impl FnMut(&'a [u8], &'a [u8]) -> bool,
    ) -> Self {
        let mut lines = Vec::with_capacity(bytes);
        let mut has_date = false;
        while let Some((name, value)) = fields.next_bytes() {
            let is_wanted = is_wanted(name, value);
            match name.len() {
                4 if name.eq_ignore_ascii_case(b"date") && std::mem::replace(&mut has_date, true) => {}
                10 if name.eq_ignore_ascii_case(b"connection") => {}
                14 if name.eq_ignore_ascii_case(b"content-length") => {}
                17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {}
                _ if is_wanted => {
                    let start = lines.len();
                    put_field(name, value, &mut lines);
                    lines[start..start + name.len()].make_ascii_lowercase();
                }
                _ => {}
            }
        }
        Self { status, lines, has_date, map: OnceLock::new() }
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the value of the first field with this name.
    #[must_use]
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        let mut lines = &self.lines[..];
        loop {
            // Most names differ in their first bytes, so the end of their lines is all that is searched for.
            if let Some(value) = lines.strip_prefix(name.as_str().as_bytes())
                && let Some(value) = value.strip_prefix(b": ")
            {
                return value.get(..memchr::memchr(b'\r', value)?);
            }
            lines = &lines[memchr::memchr(b'\n', lines)? + 1..];
        }
    }

    /// Returns the fields in a map, which is made by the first call.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.map.get_or_init(|| Box::new(self.to_map()))
    }

    /// Returns the fields in a map of their own.
    #[must_use]
    pub fn take_headers(&mut self) -> HeaderMap {
        self.map.take().map_or_else(|| self.to_map(), |map| *map)
    }

    fn to_map(&self) -> HeaderMap {
        let lines = Bytes::copy_from_slice(&self.lines);
        let fields = || Fields::new(&lines);
        let mut map = HeaderMap::with_capacity(fields().count());
        for (name, value) in fields() {
            // The lines are valid, and their number is limited, so no field gets lost.
            let value = HeaderValue::from_maybe_shared(lines.slice_ref(value));
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), value) {
                map.append(name, value);
            }
        }
        map
    }

    /// Whether it has a `Date`.
    pub(super) fn has_date(&self) -> bool {
        self.has_date
    }

    /// Returns the lines.
    pub(super) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Returns the fields.
    pub(super) fn fields(&self) -> Fields<'_> {
        Fields::new(&self.lines)
    }
}

#[cfg(test)]
mod tests {
    use http::header::{DATE, SERVER};

    use super::*;

    #[test]
    fn the_lines_of_the_connection_are_neither_sent_nor_in_the_map() {
        let lines = b"Server: a\r\nDate:  Thu\r\nX-A:1\r\nDate: Fri\r\nConnection: x-b\r\nX-B: 2\r\nx-a: \t3 \r\nContent-Length: 5\r\n\
            Transfer-Encoding: chunked\r\n\r\n";
        let is_wanted = |name: &[u8], _: &[u8]| !name.eq_ignore_ascii_case(b"x-b");
        let head = ReceivedHead::new(StatusCode::OK, Fields::new(lines), lines.len(), is_wanted);
        assert_eq!(head.lines(), b"server: a\r\ndate: Thu\r\nx-a: 1\r\nx-a: 3\r\n");
        assert_eq!((head.get(&SERVER), head.get(&DATE)), (Some(&b"a"[..]), Some(&b"Thu"[..])));
        let get = |name: &'static str| head.get(&HeaderName::from_static(name));
        assert_eq!((get("x-a"), get("x"), get("x-b"), get("serve")), (Some(&b"1"[..]), None, None, None));
        let fields: Vec<_> =
            head.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(fields, [("server", &b"a"[..]), ("date", b"Thu"), ("x-a", b"1"), ("x-a", b"3")]);
    }
}

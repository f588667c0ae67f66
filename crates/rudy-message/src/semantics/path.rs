//! Request paths: their canonical form, and their use for folders and applications (RFC 3986 §2.4, §3.3, §5.2.4).

use std::borrow::Cow;
use std::ops::Range;

use super::percent::push_encoded;
use crate::syntax::any_byte;

/// The path of a request target in its canonical form, which routes, handlers and authorizers compare.
///
/// - It is percent-decoded once, except for `%2F`: a slash within a name is not a separator. Bytes that are not ASCII are
///   unchanged, and may not be UTF-8.
/// - It has no empty segments, and dot segments are resolved (RFC 3986 §5.2.4), plain or encoded. A path that leads above the
///   root is an error.
/// - It begins with a slash, and ends with a slash if the last segment was empty, `.` or `..`.
///
/// ```
/// use rudy_message::semantics::path::RequestPath;
///
/// let path = RequestPath::parse("//docs/./%61/../b%2fc").unwrap();
/// assert_eq!(path.as_bytes(), b"/docs/b%2Fc");
/// ```
#[derive(Debug, Clone)]
pub struct RequestPath<'a> {
    bytes: Cow<'a, [u8]>,
    /// The positions of encoded slashes in `bytes`. Any other `%2F` is a decoded `%252F`, which means these three characters.
    encoded_slashes: Vec<usize>,
    /// Whether it is known to have neither backslashes nor parameters.
    is_plain: bool,
}

impl PartialEq for RequestPath<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.encoded_slashes == other.encoded_slashes
    }
}

impl Eq for RequestPath<'_> {}

impl<'a> RequestPath<'a> {
    /// Parses the path of a request target. Allocates nothing if it is already canonical, as most are.
    ///
    /// # Errors
    ///
    /// The path leads above the root, has a NUL or invalid percent-encoding, or has `..` after a segment with an encoded slash.
    pub fn parse(path: &'a (impl AsRef<[u8]> + ?Sized)) -> Result<Self, PathError> {
        let path = path.as_ref();
        if let Some(path) = Self::canonical(path) {
            return Ok(path);
        }
        let mut builder = Builder { bytes: vec![b'/'], encoded_slashes: Vec::new() };
        let mut ends_in_name = false;
        for segment in path.split(|byte| *byte == b'/') {
            let start = builder.bytes.len();
            builder.decode(segment)?;
            ends_in_name = builder.end_segment(start)?;
        }
        Ok(builder.finish(ends_in_name))
    }

    /// Returns the path if it is obviously canonical: it has no percent-encoding, no empty segment, and no segment that begins
    /// with a dot.
    #[must_use]
    pub fn canonical(path: &'a [u8]) -> Option<Self> {
        let begins_name = |slash: usize| !matches!(path.get(slash + 1), Some(b'/' | b'.'));
        let is_canonical = path.first() == Some(&b'/')
            && !any_byte(path, |byte| byte == b'%' || byte == 0)
            && memchr::memchr_iter(b'/', path).all(begins_name);
        let is_plain = !any_byte(path, |byte| byte == b'\\' || byte == b';');
        is_canonical.then_some(Self { bytes: Cow::Borrowed(path), encoded_slashes: Vec::new(), is_plain })
    }

    /// Creates a path from one that is canonical and has no encoded slash, such as the path of a file in a folder.
    #[must_use]
    pub fn from_decoded(path: String) -> Self {
        debug_assert!(path.starts_with('/') && !path.contains("//"), "{path} is canonical");
        Self { bytes: Cow::Owned(path.into_bytes()), encoded_slashes: Vec::new(), is_plain: false }
    }

    /// Returns the canonical form.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the path with a copy of its bytes.
    #[must_use]
    pub fn into_owned(self) -> RequestPath<'static> {
        RequestPath { bytes: Cow::Owned(self.bytes.into_owned()), ..self }
    }

    /// Returns the path as a program sees it that decodes encoded slashes to separators. `None` if it has none.
    ///
    /// # Errors
    ///
    /// The decoded path leads above the root.
    pub fn with_slashes_decoded(&self) -> Result<Option<RequestPath<'static>>, PathError> {
        if self.encoded_slashes.is_empty() {
            return Ok(None);
        }
        let decoded = self.below(0).decode_slashes(0);
        let mut builder = Builder { bytes: vec![b'/'], encoded_slashes: Vec::new() };
        let ends_in_name =
            decoded.split(|byte| *byte == b'/').try_fold(false, |_, name| builder.push_name(name))?;
        Ok(Some(builder.finish(ends_in_name)))
    }

    /// Returns the path as a program sees it that removes the parameters of each segment, from a semicolon on (RFC 3986 §3.3): `/admin/x`
    /// for `/admin;v=1/x`. `None` if it has none.
    ///
    /// # Errors
    ///
    /// That path leads above the root.
    pub fn without_parameters(&self) -> Result<Option<RequestPath<'static>>, PathError> {
        if self.is_plain || memchr::memchr(b';', &self.bytes).is_none() {
            return Ok(None);
        }
        let decoded = self.below(0).decode_slashes(0);
        let mut builder = Builder { bytes: vec![b'/'], encoded_slashes: Vec::new() };
        let mut names = decoded.split(|byte| *byte == b'/').map(without_parameters);
        let ends_in_name = names.try_fold(false, |_, name| builder.push_name(name))?;
        Ok(Some(builder.finish(ends_in_name)))
    }

    /// Checks that programs find no dot segments in the path, even if encoded slashes and backslashes are separators for them, or if
    /// they remove the parameters of a segment first: `..;v=1` is `..` for Tomcat and Jetty.
    ///
    /// # Errors
    ///
    /// The path has a `.` or `..` segment next to such a separator, or one with parameters.
    pub fn check_dot_segments(&self) -> Result<(), PathError> {
        let has_marks = || memchr::memchr2(b'\\', b';', &self.bytes).is_some();
        if self.is_plain || self.encoded_slashes.is_empty() && !has_marks() {
            return Ok(());
        }
        let decoded = self.below(0).decode_slashes(0);
        let mut segments = decoded.split(|byte| matches!(byte, b'/' | b'\\')).map(without_parameters);
        if segments.any(is_dot_segment) { Err(PathError::DotSegment) } else { Ok(()) }
    }

    /// Returns the part after the first `mount` bytes, which must be whole segments. The part is empty or begins with a slash.
    #[must_use]
    pub fn below(&self, mount: usize) -> PathBelow<'_> {
        PathBelow { whole: self, mount: mount.min(self.bytes.len()) }
    }

    /// Returns the path from byte `from` on, percent-encoded for use in a URI. Characters that a path may contain
    /// (RFC 3986 §3.3) are not encoded.
    #[must_use]
    pub fn encoded_from(&self, from: usize) -> String {
        self.encoded(from..self.as_bytes().len())
    }

    /// Returns a part of the path, encoded for a URL.
    #[must_use]
    pub fn encoded(&self, part: Range<usize>) -> String {
        let end = part.end.min(self.bytes.len());
        let mut at = part.start.min(end);
        let mut encoded = String::with_capacity(end - at);
        let is_inside = |slash: &&usize| **slash >= at && **slash + ENCODED_SLASH.len() <= end;
        let slashes: Vec<_> = self.encoded_slashes.iter().filter(is_inside).copied().collect();
        for slash in slashes {
            push_encoded(&self.bytes[at..slash], SAFE_IN_PATH, &mut encoded);
            encoded.push_str(ENCODED_SLASH);
            at = slash + ENCODED_SLASH.len();
        }
        push_encoded(&self.bytes[at..end], SAFE_IN_PATH, &mut encoded);
        encoded
    }

    /// Returns the path for a URL after one level of percent-encoding is removed: `/%C3%A9` for `/%25C3%25A9`. What a URL cannot contain
    /// is encoded, and so is a percent sign that begins no escape.
    #[must_use]
    pub fn decoded(&self) -> String {
        let mut pieces = self.bytes.split(|byte| *byte == b'%');
        let mut decoded = String::with_capacity(self.bytes.len());
        push_encoded(pieces.next().unwrap_or_default(), SAFE_IN_PATH, &mut decoded);
        for piece in pieces {
            let is_escape = piece.get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            decoded.push_str(if is_escape { "%" } else { "%25" });
            push_encoded(piece, SAFE_IN_PATH, &mut decoded);
        }
        decoded
    }
}

/// The characters that a path may contain (RFC 3986 §3.3), except letters and digits.
const SAFE_IN_PATH: &[u8] = b"-._~!$&'()*+,;=:@/";

const ENCODED_SLASH: &str = "%2F";

/// The part of a request path below the folder of a route: `/2026/a.html` in `/blog/2026/a.html` for the route `/blog/*`.
#[derive(Debug, Clone, Copy)]
pub struct PathBelow<'a> {
    whole: &'a RequestPath<'a>,
    /// The length of the folder of the route.
    mount: usize,
}

impl<'a> PathBelow<'a> {
    /// Returns the canonical form, which is empty or begins with a slash.
    #[must_use]
    pub fn as_bytes(self) -> &'a [u8] {
        &self.whole.bytes[self.mount..]
    }

    /// Returns the whole request path.
    #[must_use]
    pub fn whole(self) -> &'a RequestPath<'a> {
        self.whole
    }

    /// Returns the folder of the route, for example `/blog`.
    #[must_use]
    pub fn mount(self) -> &'a [u8] {
        &self.whole.bytes[..self.mount]
    }

    /// Whether a segment begins with a dot. `/.well-known/` at the beginning is public (RFC 8615) and does not count.
    #[must_use]
    pub fn is_hidden(self) -> bool {
        self.is_hidden_until(self.as_bytes().len())
    }

    /// Whether a segment in the first `end` bytes begins with a dot, as [`Self::is_hidden`].
    #[must_use]
    pub fn is_hidden_until(self, end: usize) -> bool {
        let path = &self.as_bytes()[..end];
        let well_known = path.strip_prefix(b"/.well-known").filter(|rest| rest.is_empty() || rest[0] == b'/');
        well_known.unwrap_or(path).windows(2).any(|pair| pair == b"/.")
    }

    /// Whether the path ends with a slash, and so names a folder.
    #[must_use]
    pub fn names_directory(self) -> bool {
        self.as_bytes().ends_with(b"/")
    }

    /// Returns the path relative to a folder of the file system.
    ///
    /// # Errors
    ///
    /// The path is not UTF-8, or [`Self::check_separators`] fails.
    pub fn in_folder(self) -> Result<&'a str, PathError> {
        self.part_in_folder(0..self.as_bytes().len())
    }

    /// Returns a part of the path relative to a folder, as [`Self::in_folder`].
    ///
    /// # Panics
    ///
    /// The range is outside of [`Self::as_bytes`].
    pub fn part_in_folder(self, range: Range<usize>) -> Result<&'a str, PathError> {
        self.check_separators(range.clone())?;
        std::str::from_utf8(&self.as_bytes()[range]).map_err(|_| PathError::NotUtf8)
    }

    /// Checks that all programs split a part of the path into the same segments.
    ///
    /// # Errors
    ///
    /// The part has an encoded slash or a backslash.
    ///
    /// # Panics
    ///
    /// The range is outside of [`Self::as_bytes`].
    pub fn check_separators(self, range: Range<usize>) -> Result<(), PathError> {
        if self.slashes_in(range.clone()).next().is_some() {
            return Err(PathError::EncodedSlash);
        }
        if self.as_bytes()[range].contains(&b'\\') {
            return Err(PathError::Backslash);
        }
        Ok(())
    }

    /// Returns the path from `start` on, with encoded slashes decoded, as an application receives it in `PATH_INFO`
    /// (RFC 3875 §4.1.5).
    ///
    /// # Errors
    ///
    /// The decoded path has a `.` or `..` segment, which could lead an application out of its folder.
    pub fn path_info(self, start: usize) -> Result<Cow<'a, [u8]>, PathError> {
        let decoded = self.decode_slashes(start);
        let is_encoded = matches!(decoded, Cow::Owned(_));
        if is_encoded && decoded.split(|byte| *byte == b'/').any(is_dot_segment) {
            return Err(PathError::DotSegment);
        }
        Ok(decoded)
    }

    fn decode_slashes(self, start: usize) -> Cow<'a, [u8]> {
        let mut slashes = self.slashes_in(start..self.as_bytes().len()).peekable();
        if slashes.peek().is_none() {
            return Cow::Borrowed(&self.as_bytes()[start..]);
        }
        let mut decoded = Vec::with_capacity(self.as_bytes().len() - start);
        let mut at = start;
        for slash in slashes {
            decoded.extend_from_slice(&self.as_bytes()[at..slash]);
            decoded.push(b'/');
            at = slash + 3;
        }
        decoded.extend_from_slice(&self.as_bytes()[at..]);
        Cow::Owned(decoded)
    }

    /// Returns the positions of the encoded slashes in a part of the path.
    fn slashes_in(self, range: Range<usize>) -> impl Iterator<Item = usize> + use<'a> {
        let here = self.whole.encoded_slashes.iter().filter_map(move |slash| slash.checked_sub(self.mount));
        here.filter(move |slash| range.contains(slash))
    }
}

/// Removes the parameters of a segment. (An encoded semicolon begins none, but some programs decode it first.)
fn without_parameters(segment: &[u8]) -> &[u8] {
    segment.split(|byte| *byte == b';').next().unwrap_or(segment)
}

fn is_dot_segment(segment: &[u8]) -> bool {
    matches!(segment, b"." | b"..")
}

struct Builder {
    /// Ends with a slash between segments.
    bytes: Vec<u8>,
    encoded_slashes: Vec<usize>,
}

impl Builder {
    /// Adds a decoded segment. Returns whether it is a name.
    fn push_name(&mut self, name: &[u8]) -> Result<bool, PathError> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.end_segment(start)
    }

    /// Ends the segment that begins at `start`. Returns whether it is a name, and not an empty or dot segment.
    fn end_segment(&mut self, start: usize) -> Result<bool, PathError> {
        match &self.bytes[start..] {
            b"" => return Ok(false),
            b"." => self.bytes.truncate(start),
            b".." => self.leave_folder(start)?,
            _ => {
                self.bytes.push(b'/');
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn finish(mut self, ends_in_name: bool) -> RequestPath<'static> {
        if ends_in_name {
            self.bytes.pop();
        }
        RequestPath { bytes: Cow::Owned(self.bytes), encoded_slashes: self.encoded_slashes, is_plain: false }
    }

    fn decode(&mut self, segment: &[u8]) -> Result<(), PathError> {
        let mut rest = segment.iter();
        while let Some(&byte) = rest.next() {
            let decoded = if byte == b'%' {
                let mut digit =
                    || char::from(*rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let (Some(high), Some(low)) = (digit(), digit()) else { return Err(PathError::BadEscape) };
                high << 4 | low
            } else {
                byte
            };
            match decoded {
                0 => return Err(PathError::Nul),
                b'/' => {
                    self.encoded_slashes.push(self.bytes.len());
                    self.bytes.extend_from_slice(b"%2F");
                }
                other => self.bytes.push(other),
            }
        }
        Ok(())
    }

    /// Removes everything from the last segment before `end` on.
    fn leave_folder(&mut self, end: usize) -> Result<(), PathError> {
        let folder =
            self.bytes[..end - 1].iter().rposition(|byte| *byte == b'/').ok_or(PathError::AboveRoot)?;
        // `/admin%2Fx/../y` is `/y`, but `/admin/y` for a program that decodes before it resolves.
        if self.encoded_slashes.last().is_some_and(|slash| *slash > folder) {
            return Err(PathError::EncodedSlashLeft);
        }
        self.bytes.truncate(folder + 1);
        Ok(())
    }
}

/// The reason why a path is rejected, always with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// `..` segments that lead above the root, plain or encoded.
    #[error("the path leads above the root")]
    AboveRoot,
    /// A backslash, plain or encoded, in the path of a file: a separator for some programs only.
    #[error("the path has a backslash")]
    Backslash,
    /// A percent sign that is not followed by two hexadecimal digits.
    #[error("the path has a percent sign that is not followed by two hexadecimal digits")]
    BadEscape,
    /// A `.` or `..` segment between encoded slashes or backslashes, or with parameters.
    #[error("the path has a \".\" or \"..\" segment")]
    DotSegment,
    /// `%2F` in the path of a file: a slash within a name.
    #[error("the path has an encoded slash (%2F)")]
    EncodedSlash,
    /// A `..` segment after one with `%2F`: programs disagree about the result.
    #[error("the path has a \"..\" segment after an encoded slash (%2F)")]
    EncodedSlashLeft,
    /// The path of a file that is not UTF-8.
    #[error("the path is not UTF-8")]
    NotUtf8,
    /// NUL, plain or encoded: it would end the name in a system call.
    #[error("the path has a NUL")]
    Nul,
    /// Parameters of a segment (`;v=1`), without which the path leads to another route.
    #[error("the path has parameters (;), and without them it is a path of another route of this server")]
    Parameters,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(path: &str) -> Result<String, PathError> {
        RequestPath::parse(path).map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn a_path_has_one_canonical_form() {
        for (path, expected) in [
            ("/", "/"),
            ("", "/"),
            ("a", "/a"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("//a///b//", "/a/b/"),
            ("/a%20b", "/a b"),
            ("/%61", "/a"),
            ("/gr%C3%BC%c3%9fe", "/grüße"),
            ("/grüße", "/grüße"),
            ("/%2561", "/%61"),
            ("/%252e%252e/x", "/%2e%2e/x"),
            ("/a+b;c=d", "/a+b;c=d"),
            ("/a%3Fb%23", "/a?b#"),
            ("/...", "/..."),
            ("/.env", "/.env"),
            ("/a/./b", "/a/b"),
            ("/a/.", "/a/"),
            ("/a/../b", "/b"),
            ("/a/..", "/"),
            ("/a//../b", "/b"),
            ("/a/b/%2e%2E/.%2e/c", "/c"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%2F../b", "/a%2F../b"),
            ("/a%5Cb", "/a\\b"),
            ("/a%252Fb", "/a%2Fb"),
        ] {
            assert_eq!(canonical(path).as_deref(), Ok(expected), "{path}");
        }
        assert_eq!(RequestPath::parse("/caf%E9").unwrap().as_bytes(), b"/caf\xE9");
    }

    #[test]
    fn a_path_without_canonical_form_is_an_error() {
        use PathError::{AboveRoot, BadEscape, EncodedSlashLeft, Nul};
        for (path, expected) in [
            ("/..", AboveRoot),
            ("/../etc/passwd", AboveRoot),
            ("/a/../../b", AboveRoot),
            ("/%2e%2e/a", AboveRoot),
            ("/./.%2E", AboveRoot),
            ("/a%2Fb/../c", EncodedSlashLeft),
            ("/a%2fb/c/../%2e%2E", EncodedSlashLeft),
            ("/a%00", Nul),
            ("/a\0", Nul),
            ("/%", BadEscape),
            ("/%4", BadEscape),
            ("/%4/", BadEscape),
            ("/%zz", BadEscape),
            ("/%+1", BadEscape),
            ("/%u0041", BadEscape),
        ] {
            assert_eq!(canonical(path), Err(expected), "{path}");
        }
    }

    #[test]
    fn paths_that_programs_split_differently_are_rejected_in_folders() {
        use PathError::{Backslash, EncodedSlash, NotUtf8};
        for (path, expected) in [
            ("/m/a/b.txt", Ok("/a/b.txt")),
            ("/m/", Ok("/")),
            ("/m", Ok("")),
            ("/m/a%252Fb", Ok("/a%2Fb")),
            ("/m/a%2Fb", Err(EncodedSlash)),
            ("/m/..%2f..%2fetc", Err(EncodedSlash)),
            ("/m/a\\b", Err(Backslash)),
            ("/m/a%5cb", Err(Backslash)),
            ("/m/%ff", Err(NotUtf8)),
            ("/m/%c0%ae%c0%ae/", Err(NotUtf8)),
            ("/m/%C3/%BC", Err(NotUtf8)),
            ("/m/%ed%a0%80", Err(NotUtf8)),
        ] {
            assert_eq!(RequestPath::parse(path).unwrap().below(2).in_folder(), expected, "{path}");
        }
    }

    #[test]
    fn path_info_is_decoded_without_dot_segments() {
        for (path, expected) in [
            ("/s/a/b", Ok(&b"/a/b"[..])),
            ("/s/A%2FB", Ok(b"/A/B")),
            ("/s/@scope%2fname%5C", Ok(b"/@scope/name\\")),
            ("/s/%252F%2F", Ok(b"/%2F/")),
            ("/s/caf%E9", Ok(b"/caf\xE9")),
            ("/s", Ok(b"")),
            ("/s/a%2F..%2Fb", Err(PathError::DotSegment)),
            ("/s/..%2Fb", Err(PathError::DotSegment)),
            ("/s/.%2Fb", Err(PathError::DotSegment)),
            ("/s/b%2F.", Err(PathError::DotSegment)),
        ] {
            let parsed = RequestPath::parse(path).unwrap();
            assert_eq!(parsed.below(0).path_info(2).as_deref(), expected.as_deref(), "{path}");
            assert_eq!(parsed.below(2).path_info(0).as_deref(), expected.as_deref(), "{path}");
        }
    }

    #[test]
    fn dot_segments_are_found_between_all_separators() {
        for (path, is_accepted) in [
            ("/a/b", true),
            ("/a%2Fb%5Cc\\d", true),
            ("/a%2F..b%5C...", true),
            ("/..%252Fb", true),
            ("/a/..%2Fb", false),
            ("/a%2f%2e", false),
            ("/a/..%5Cb", false),
            ("/a/..\\b", false),
            ("/a%5c.%2Fb", false),
            ("/a;v=1/.b;v/...;/;", true),
            ("/public/..;/admin", false),
            ("/public/..;x=y/admin", false),
            ("/public/.;/admin", false),
            ("/public/%2e%2E;/admin", false),
            ("/public/..%3b/admin", false),
            ("/public/..%3B;x", false),
            ("/public/..;", false),
            ("/public/a%2F..;%2Fb", false),
            ("/public/a\\..;\\b", false),
        ] {
            let expected = if is_accepted { Ok(()) } else { Err(PathError::DotSegment) };
            assert_eq!(RequestPath::parse(path).unwrap().check_dot_segments(), expected, "{path}");
        }
    }

    #[test]
    fn encoded_slashes_can_be_decoded_to_separators() {
        for (path, expected) in [
            ("/a/b", Ok(None)),
            ("/admin%2Fx", Ok(Some(&b"/admin/x"[..]))),
            ("/x%2F..%2Fadmin/", Ok(Some(b"/admin/"))),
            ("/a%2F", Ok(Some(b"/a/"))),
            ("/..%2Fa", Err(PathError::AboveRoot)),
        ] {
            let decoded = RequestPath::parse(path).unwrap().with_slashes_decoded();
            let decoded = decoded.as_ref().map(|path| path.as_ref().map(RequestPath::as_bytes));
            assert_eq!(decoded, expected.as_ref().map(|path| *path), "{path}");
        }
    }

    #[test]
    fn parameters_of_segments_can_be_removed() {
        for (path, expected) in [
            ("/a/b", Ok(None)),
            ("/admin;v=1/x;y;z", Ok(Some(&b"/admin/x"[..]))),
            ("/;/admin%3B/", Ok(Some(b"/admin/"))),
            ("/a/;x%2Fb", Ok(Some(b"/a/b"))),
            ("/..;/a", Err(PathError::AboveRoot)),
        ] {
            let bare = RequestPath::parse(path).unwrap().without_parameters();
            let bare = bare.as_ref().map(|path| path.as_ref().map(RequestPath::as_bytes));
            assert_eq!(bare, expected.as_ref().map(|path| *path), "{path}");
        }
    }

    #[test]
    fn hidden_segments_are_found_anywhere() {
        for (path, hidden) in [
            ("/.git/config", true),
            ("/a/.env", true),
            ("/%2eenv", true),
            ("/a/.b/c", true),
            ("/.well-known/x", false),
            ("/.well-known", false),
            ("/.well-known/.x", true),
            ("/.well-known2", true),
            ("/a/.well-known/x", true),
            ("/a.b", false),
            ("/a./b", false),
        ] {
            assert_eq!(RequestPath::parse(path).unwrap().below(0).is_hidden(), hidden, "{path}");
        }
    }

    #[test]
    fn an_encoded_path_keeps_its_encoded_slashes() {
        for (path, encoded) in [
            ("/a b/c", "/a%20b/c"),
            ("/@scope%2fname", "/@scope%2Fname"),
            ("/a%252Fb%2F", "/a%252Fb%2F"),
            ("/caf%e9%5c", "/caf%E9%5C"),
            ("/old/%0d%0aX:y", "/old/%0D%0AX:y"),
        ] {
            assert_eq!(RequestPath::parse(path).unwrap().encoded_from(0), encoded);
        }
        assert_eq!(RequestPath::parse("/old/a%2fb").unwrap().encoded_from(4), "/a%2Fb");
    }

    #[test]
    fn a_path_can_lose_one_level_of_encoding() {
        for (path, decoded) in [
            ("/caf%25C3%25A9/a%2520b%252Bc", "/caf%C3%A9/a%20b%2Bc"),
            ("/caf%C3%A9 ü/a%3Fb%23", "/caf%C3%A9%20%C3%BC/a%3Fb%23"),
            ("/100%2525/100%25/%25g0/%25", "/100%25/100%25/%25g0/%25"),
            ("/a%2Fb%252Fc", "/a%2Fb%2Fc"),
            ("/%252e%252E/%2500", "/%2e%2E/%00"),
        ] {
            assert_eq!(RequestPath::parse(path).unwrap().decoded(), decoded, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_folder(path in "/[/.%a25eEfFcC0\\\\ü]{0,40}") {
            if let Ok(parsed) = RequestPath::parse(&path) {
                let bytes = parsed.as_bytes();
                prop_assert!(bytes.starts_with(b"/") && !bytes.contains(&0));
                prop_assert!(!bytes.windows(2).any(|pair| pair == b"//"));
                let mut segments = bytes.split(|byte| *byte == b'/');
                prop_assert!(!segments.any(|segment| segment == b"." || segment == b".."));
                if let Ok(inside) = parsed.below(0).in_folder() {
                    prop_assert!(!inside.contains('\\'));
                }
            }
        }

        /// An encoded canonical path parses to itself, so nothing is decoded twice and different paths stay different.
        #[test]
        fn an_encoded_path_parses_back(path in "/[/.%a25eEfF\\\\ü]{0,40}") {
            if let Ok(parsed) = RequestPath::parse(&path) {
                let encoded = parsed.encoded_from(0);
                prop_assert!(encoded.is_ascii());
                prop_assert_eq!(RequestPath::parse(&encoded).unwrap(), parsed);
            }
        }
    }
}

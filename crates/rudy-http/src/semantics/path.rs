//! The path of a request target: its one canonical spelling, and what folders and applications make of it (RFC 3986 §2.4,
//! §3.3, §5.2.4).

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::percent::push_encoded;
use crate::syntax::any_byte;

/// The path of a request target in its canonical spelling, which is what routes, handlers and authorizers compare.
///
/// - It is percent-decoded once, except that `%2F` stays encoded: a slash inside of a name is not a separator. Bytes that are not
///   ASCII are as they are, whether they are UTF-8 or not.
/// - Empty segments are left out and dot segments are resolved (RFC 3986 §5.2.4), plain or encoded. A path that leads above
///   the root is an error.
/// - It begins with one slash, and ends in one if the last segment was empty, `.` or `..`.
///
/// ```
/// use rudy_http::semantics::path::RequestPath;
///
/// let path = RequestPath::parse("//docs/./%61/../b%2fc").unwrap();
/// assert_eq!(path.as_bytes(), b"/docs/b%2Fc");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPath<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where in `bytes` a `%2F` is an encoded slash. Other `%2F`s are a decoded `%252F`, which means these three characters.
    encoded_slashes: Vec<usize>,
}

impl<'a> RequestPath<'a> {
    /// Reads the path of a request target. Allocates nothing if it is canonical already, as most are.
    ///
    /// # Errors
    ///
    /// It leads above the root, has a NUL or a broken escape, or leaves a segment with an encoded slash by `..`.
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

    /// The path of a request target if it is canonical already and shows it at once: nothing encoded, and no segment that is
    /// empty or begins with a dot.
    #[must_use]
    pub fn canonical(path: &'a [u8]) -> Option<Self> {
        let is_plain = |slash: usize| !matches!(path.get(slash + 1), Some(b'/' | b'.'));
        let is_canonical = path.first() == Some(&b'/')
            && !any_byte(path, |byte| byte == b'%' || byte == 0)
            && memchr::memchr_iter(b'/', path).all(is_plain);
        is_canonical.then_some(Self { bytes: Cow::Borrowed(path), encoded_slashes: Vec::new() })
    }

    /// A path that is known to be canonical and has no encoded slash: that of a file in a folder.
    #[must_use]
    pub fn from_decoded(path: String) -> Self {
        debug_assert!(path.starts_with('/') && !path.contains("//"), "{path} is canonical");
        Self { bytes: Cow::Owned(path.into_bytes()), encoded_slashes: Vec::new() }
    }

    /// The canonical spelling.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, independent of the request it was read from.
    #[must_use]
    pub fn into_owned(self) -> RequestPath<'static> {
        RequestPath { bytes: Cow::Owned(self.bytes.into_owned()), encoded_slashes: self.encoded_slashes }
    }

    /// The path as a program reads it that takes encoded slashes for separators; `None` where there are none.
    ///
    /// # Errors
    ///
    /// It leads above the root then.
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

    /// What follows the first `mount` bytes, which are whole segments: empty, or beginning with a slash.
    #[must_use]
    pub fn below(&self, mount: usize) -> PathBelow<'_> {
        PathBelow { whole: self, mount: mount.min(self.bytes.len()) }
    }

    /// The path from byte `from` on, percent-encoded for use in a URI. What may stand in a path (RFC 3986 §3.3) is not
    /// encoded.
    #[must_use]
    pub fn encoded_from(&self, from: usize) -> String {
        let mut encoded = String::with_capacity(self.bytes.len());
        let mut at = from.min(self.bytes.len());
        let slashes = self.encoded_slashes.iter().filter(|slash| **slash >= from);
        for slash in slashes.chain([&self.bytes.len()]) {
            push_encoded(&self.bytes[at..*slash], b"-._~!$&'()*+,;=:@/", &mut encoded);
            at = *slash;
            if at < self.bytes.len() {
                encoded.push_str("%2F");
                at += 3;
            }
        }
        encoded
    }
}

/// The part of a request's path below a route's folder: `/2026/a.html` of `/blog/2026/a.html` for the route `/blog/*`.
#[derive(Debug, Clone, Copy)]
pub struct PathBelow<'a> {
    whole: &'a RequestPath<'a>,
    /// How much of the whole path comes before.
    mount: usize,
}

impl<'a> PathBelow<'a> {
    /// The canonical spelling: empty, or beginning with a slash.
    #[must_use]
    pub fn as_bytes(self) -> &'a [u8] {
        &self.whole.bytes[self.mount..]
    }

    /// The whole path that it is a part of.
    #[must_use]
    pub fn whole(self) -> &'a RequestPath<'a> {
        self.whole
    }

    /// The folder of the route, `/blog`.
    #[must_use]
    pub fn mount(self) -> &'a [u8] {
        &self.whole.bytes[..self.mount]
    }

    /// Whether a segment begins with a dot. `/.well-known/` at the beginning is there to be found (RFC 8615) and does not
    /// count.
    #[must_use]
    pub fn is_hidden(self) -> bool {
        self.is_hidden_until(self.as_bytes().len())
    }

    /// The same of its first `end` bytes.
    #[must_use]
    pub fn is_hidden_until(self, end: usize) -> bool {
        let path = &self.as_bytes()[..end];
        let well_known = path.strip_prefix(b"/.well-known").filter(|rest| rest.is_empty() || rest[0] == b'/');
        well_known.unwrap_or(path).windows(2).any(|pair| pair == b"/.")
    }

    /// Whether it ends in a slash, and so names a folder.
    #[must_use]
    pub fn names_directory(self) -> bool {
        self.as_bytes().ends_with(b"/")
    }

    /// The same as a path in a folder of the file system.
    ///
    /// # Errors
    ///
    /// As [`Self::check_separators`], and for bytes that are not UTF-8.
    pub fn in_folder(self) -> Result<&'a str, PathError> {
        self.part_in_folder(0..self.as_bytes().len())
    }

    /// A part of it as a path in a folder, as [`Self::in_folder`].
    ///
    /// # Panics
    ///
    /// The range is not one of [`Self::as_bytes`].
    pub fn part_in_folder(self, range: Range<usize>) -> Result<&'a str, PathError> {
        self.check_separators(range.clone())?;
        std::str::from_utf8(&self.as_bytes()[range]).map_err(|_| PathError::NotUtf8)
    }

    /// Whether every program reads the same segments in a part of it.
    ///
    /// # Errors
    ///
    /// It has an encoded slash or a backslash.
    ///
    /// # Panics
    ///
    /// The range is not one of [`Self::as_bytes`].
    pub fn check_separators(self, range: Range<usize>) -> Result<(), PathError> {
        if self.slashes_in(range.clone()).next().is_some() {
            return Err(PathError::EncodedSlash);
        }
        if self.as_bytes()[range].contains(&b'\\') {
            return Err(PathError::Backslash);
        }
        Ok(())
    }

    /// The bytes from `start` on with encoded slashes decoded as well: what an application receives as `PATH_INFO`
    /// (RFC 3875 §4.1.5).
    ///
    /// # Errors
    ///
    /// Decoding makes a `.` or `..` segment, which an application would follow out of its folder.
    pub fn path_info(self, start: usize) -> Result<Cow<'a, [u8]>, PathError> {
        let decoded = self.decode_slashes(start);
        let is_encoded = matches!(decoded, Cow::Owned(_));
        let is_dot = |segment: &[u8]| matches!(segment, b"." | b"..");
        if is_encoded && decoded.split(|byte| *byte == b'/').any(is_dot) {
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

    /// The encoded slashes in a part of it.
    fn slashes_in(self, range: Range<usize>) -> impl Iterator<Item = usize> + use<'a> {
        let here = self.whole.encoded_slashes.iter().filter_map(move |slash| slash.checked_sub(self.mount));
        here.filter(move |slash| range.contains(slash))
    }
}

struct Builder {
    /// Ends in a slash between segments.
    bytes: Vec<u8>,
    encoded_slashes: Vec<usize>,
}

impl Builder {
    /// Adds a segment that is decoded already. Whether it is a name.
    fn push_name(&mut self, name: &[u8]) -> Result<bool, PathError> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.end_segment(start)
    }

    /// Ends the segment that begins at `start`. Whether it is a name, and no empty or dot segment.
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
        RequestPath { bytes: Cow::Owned(self.bytes), encoded_slashes: self.encoded_slashes }
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

    /// Takes the segment before `end`, and what follows it, back.
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

/// Why a path is refused. All of it is the client's fault: 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// `..` segments that lead above the root, plain or encoded.
    AboveRoot,
    /// A backslash, plain or encoded, in the path of a file: a separator for some programs, a letter for others.
    Backslash,
    /// A percent sign without two hexadecimal digits after it.
    BadEscape,
    /// A `.` or `..` segment between encoded slashes.
    DotSegment,
    /// `%2F` in the path of a file: a slash inside of a name.
    EncodedSlash,
    /// A `..` segment behind one with `%2F`: programs differ in what it leaves.
    EncodedSlashLeft,
    /// The path of a file whose bytes are not UTF-8.
    NotUtf8,
    /// NUL, plain or encoded: it would end the name for the kernel.
    Nul,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AboveRoot => "the path leads above the root",
            Self::Backslash => "the path has a backslash",
            Self::BadEscape => "the path has a percent sign without two hexadecimal digits after it",
            Self::DotSegment => "the path has a \".\" or \"..\" segment",
            Self::EncodedSlash => "the path has an encoded slash (%2F)",
            Self::EncodedSlashLeft => "the path has a \"..\" segment behind an encoded slash (%2F)",
            Self::NotUtf8 => "the path is not UTF-8",
            Self::Nul => "the path has a NUL",
        })
    }
}

impl std::error::Error for PathError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(path: &str) -> Result<String, PathError> {
        RequestPath::parse(path).map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn a_path_has_one_spelling() {
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
    fn what_has_no_canonical_spelling_is_an_error() {
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
    fn a_folder_refuses_what_programs_read_in_different_ways() {
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
    fn path_info_is_decoded_and_makes_no_dot_segments() {
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
    fn encoded_slashes_can_be_taken_for_separators() {
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
    fn hidden_segments_are_seen_wherever_they_stand() {
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

        /// A canonical path, encoded, is read back as itself: so nothing is decoded twice, and no two paths become one.
        #[test]
        fn an_encoded_path_reads_back(path in "/[/.%a25eEfF\\\\ü]{0,40}") {
            if let Ok(parsed) = RequestPath::parse(&path) {
                let encoded = parsed.encoded_from(0);
                prop_assert!(encoded.is_ascii());
                prop_assert_eq!(RequestPath::parse(&encoded).unwrap(), parsed);
            }
        }
    }
}

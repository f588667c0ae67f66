//! A request's path as a path below a folder (RFC 3986 §2.4, §3.3).

use std::fmt;

/// A path that stays below the folder it is joined to: no `.` or `..`, no empty segment, no slash at either end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativePath {
    segments: String,
    hidden: bool,
    directory: bool,
}

impl RelativePath {
    /// Reads the path of a request target, still percent-encoded, with or without its first slash.
    ///
    /// Decoded exactly once. Slashes that follow each other count as one, as nginx and Apache have it: no file has an empty
    /// name, so `a//b` can only mean `a/b`. What clients resolve before they send it (`.` and `..`, RFC 3986 §5.2.4) and what
    /// means different things to different programs (a backslash, an encoded slash, NUL) is refused, not mended.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let mut segments = String::with_capacity(path.len());
        let mut hidden = false;
        for encoded in path.split('/').filter(|segment| !segment.is_empty()) {
            if !segments.is_empty() {
                segments.push('/');
            }
            let begin = segments.len();
            decode(encoded, &mut segments)?;
            match &segments[begin..] {
                "." | ".." => return Err(PathError::DotSegment),
                segment => hidden |= segment.starts_with('.') && (begin, segment) != (0, WELL_KNOWN),
            }
        }
        Ok(Self { segments, hidden, directory: path.ends_with('/') })
    }

    /// The segments, decoded, with one slash between them; empty for the folder itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.segments
    }

    /// Whether a segment begins with a dot. `/.well-known/` is there to be found (RFC 8615) and does not count.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Whether it ended in a slash, and so names a folder.
    #[must_use]
    pub fn names_directory(&self) -> bool {
        self.directory
    }
}

/// Why a path is refused. All of it is the client's fault: 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// A percent sign without two hexadecimal digits after it.
    BadEscape,
    /// A backslash, plain or encoded: a separator for some programs, a letter for others.
    Backslash,
    /// A `.` or `..` segment, plain or encoded.
    DotSegment,
    /// `%2F`: a slash inside of a name.
    EncodedSlash,
    /// NUL, plain or encoded: it would end the name for the kernel.
    Nul,
    /// The decoded bytes are not UTF-8.
    NotUtf8,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadEscape => "the path has a percent sign without two hexadecimal digits after it",
            Self::Backslash => "the path has a backslash",
            Self::DotSegment => "the path has a \".\" or \"..\" segment",
            Self::EncodedSlash => "the path has an encoded slash (%2F)",
            Self::Nul => "the path has a NUL",
            Self::NotUtf8 => "the path is not UTF-8",
        })
    }
}

impl std::error::Error for PathError {}

/// A decoded file name or path, encoded for use in a URI: everything but unreserved characters (RFC 3986 §2.3) and slashes.
#[must_use]
pub fn encode(decoded: &str) -> String {
    let mut encoded = String::with_capacity(decoded.len());
    for byte in decoded.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(HEX[usize::from(byte >> 4)]));
            encoded.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    encoded
}

/// RFC 3986 §2.1: uppercase digits.
const HEX: &[u8; 16] = b"0123456789ABCDEF";

const WELL_KNOWN: &str = ".well-known";

fn decode(segment: &str, out: &mut String) -> Result<(), PathError> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let byte = if byte == b'%' {
            match (rest.next().and_then(hex_digit), rest.next().and_then(hex_digit)) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(PathError::BadEscape),
            }
        } else {
            byte
        };
        match byte {
            0 => return Err(PathError::Nul),
            b'\\' => return Err(PathError::Backslash),
            // The plain ones are gone: they are what the segments were split at.
            b'/' => return Err(PathError::EncodedSlash),
            byte => bytes.push(byte),
        }
    }
    out.push_str(std::str::from_utf8(&bytes).map_err(|_| PathError::NotUtf8)?);
    Ok(())
}

fn hex_digit(byte: u8) -> Option<u8> {
    // The base is 16, so the digit fits.
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_decoded_once() {
        for (path, expected, directory) in [
            ("/", "", true),
            ("", "", false),
            ("/a", "a", false),
            ("a", "a", false),
            ("/a/", "a", true),
            ("/a/b.txt", "a/b.txt", false),
            ("//a///b//", "a/b", true),
            ("/a%20b", "a b", false),
            ("/%61", "a", false),
            ("/gr%C3%BC%c3%9fe", "grüße", false),
            ("/grüße", "grüße", false),
            ("/%2561", "%61", false),
            ("/%252e%252e/x", "%2e%2e/x", false),
            ("/%255c", "%5c", false),
            ("/a+b", "a+b", false),
            ("/a;b=c", "a;b=c", false),
            ("/...", "...", false),
            ("/a..b", "a..b", false),
        ] {
            let parsed = RelativePath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!((parsed.as_str(), parsed.names_directory()), (expected, directory), "{path}");
        }
    }

    #[test]
    fn what_could_leave_the_folder_or_fool_somebody_is_refused() {
        use PathError::{Backslash, BadEscape, DotSegment, EncodedSlash, NotUtf8, Nul};
        for (path, expected) in [
            ("/..", DotSegment),
            ("/../etc/passwd", DotSegment),
            ("/a/../b", DotSegment),
            ("/a/..", DotSegment),
            ("/./a", DotSegment),
            ("/a/.", DotSegment),
            ("/%2e%2e/a", DotSegment),
            ("/%2E./a", DotSegment),
            ("/.%2e", DotSegment),
            ("/%2e", DotSegment),
            ("/a\\b", Backslash),
            ("/..\\b", Backslash),
            ("/a%5Cb", Backslash),
            ("/a%5cb", Backslash),
            ("/a%2Fb", EncodedSlash),
            ("/..%2f..%2fetc", EncodedSlash),
            ("/a%00", Nul),
            ("/a\0", Nul),
            ("/a.html%00.png", Nul),
            ("/%", BadEscape),
            ("/%4", BadEscape),
            ("/%4/", BadEscape),
            ("/%zz", BadEscape),
            ("/%+1", BadEscape),
            ("/%u0041", BadEscape),
            ("/%ff", NotUtf8),
            ("/%c0%ae%c0%ae/", NotUtf8),
            ("/%C3/%BC", NotUtf8),
            ("/%ed%a0%80", NotUtf8),
        ] {
            assert_eq!(RelativePath::parse(path), Err(expected), "{path}");
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
            assert_eq!(RelativePath::parse(path).unwrap().is_hidden(), hidden, "{path}");
        }
    }

    #[test]
    fn every_error_says_what_is_wrong() {
        assert_eq!(PathError::EncodedSlash.to_string(), "the path has an encoded slash (%2F)");
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_folder(path in "[/.%a25eEfFcC0\\\\ü]{0,40}") {
            if let Ok(parsed) = RelativePath::parse(&path) {
                let relative = std::path::Path::new(parsed.as_str());
                prop_assert!(relative.components().all(|part| matches!(part, std::path::Component::Normal(_))));
                prop_assert!(!parsed.as_str().contains(['\\', '\0']) && !parsed.as_str().contains("//"));
            }
        }

        #[test]
        fn an_encoded_path_reads_back(path in "[^/\\\\\0]{1,10}(/[^/\\\\\0]{1,10}){0,3}") {
            prop_assume!(path.split('/').all(|segment| segment != "." && segment != ".."));
            let encoded = encode(&path);
            prop_assert!(encoded.is_ascii());
            let parsed = RelativePath::parse(&encoded).unwrap();
            prop_assert_eq!(parsed.as_str(), path);
        }
    }
}

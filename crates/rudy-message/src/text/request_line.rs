//! `method SP request-target SP HTTP-version` (RFC 9112 §3).

use std::ops::Range;

use http::{Method, Version};

use crate::{MessageLimits, Rejection};

/// The positions of the parts of a request line within the head, and its version.
#[derive(Debug, Clone)]
pub(crate) struct RequestLine {
    start: u32,
    method_length: u32,
    target_length: u32,
    pub(crate) version: Version,
}

impl RequestLine {
    /// Splits the line at `line` in `head`.
    pub(crate) fn split(head: &[u8], line: Range<usize>, limits: &MessageLimits) -> Result<Self, Rejection> {
        let bytes = &head[line.clone()];
        let (method, rest) = split_at_space(bytes).ok_or(Rejection::BadRequestLine)?;
        let Some((target, version)) = split_at_space(rest) else {
            // RFC 1945 §4.1, a Simple-Request: "GET" SP Request-URI CRLF.
            let is_simple = method == b"GET" && rest.first() == Some(&b'/');
            return Err(if is_simple { Rejection::Http09 } else { Rejection::BadRequestLine });
        };
        if target.len() > limits.target_bytes {
            return Err(Rejection::TargetTooLong);
        }
        Ok(Self {
            start: narrow(line.start)?,
            method_length: narrow(method.len())?,
            target_length: narrow(target.len())?,
            version: parse_version(version)?,
        })
    }

    /// Returns the start of the next line.
    pub(crate) fn end(&self) -> usize {
        // Two spaces, eight characters of version, CRLF.
        (self.start + self.method_length + self.target_length) as usize + 2 + 8 + 2
    }

    /// Returns the method, which can be any token: handlers decide which methods they support, and a gateway forwards unknown
    /// ones (RFC 9110 §9.1).
    pub(crate) fn method(&self, head: &[u8]) -> Result<Method, Rejection> {
        let start = self.start as usize;
        Method::from_bytes(&head[start..start + self.method_length as usize])
            .map_err(|_| Rejection::BadMethod)
    }

    /// Returns the position of the target.
    pub(crate) fn target(&self) -> Range<usize> {
        let start = (self.start + self.method_length + 1) as usize;
        start..start + self.target_length as usize
    }
}

/// Splits a line at the first space.
fn split_at_space(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', line)?;
    Some((&line[..at], &line[at + 1..]))
}

/// Parses `HTTP/` DIGIT `.` DIGIT. A higher minor version counts as HTTP/1.1 (RFC 9110 §2.5).
fn parse_version(version: &[u8]) -> Result<Version, Rejection> {
    match version {
        b"HTTP/1.1" => Ok(Version::HTTP_11),
        b"HTTP/1.0" => Ok(Version::HTTP_10),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            match major {
                b'0' => Err(Rejection::Http09),
                b'1' => Ok(Version::HTTP_11),
                _ => Err(Rejection::UnsupportedVersion),
            }
        }
        _ => Err(Rejection::BadRequestLine),
    }
}

/// Converts a length within a head, which is far smaller than 4 GiB.
fn narrow(length: usize) -> Result<u32, Rejection> {
    u32::try_from(length).map_err(|_| Rejection::HeadTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &[u8]) -> Result<RequestLine, Rejection> {
        RequestLine::split(line, 0..line.len(), &MessageLimits::default())
    }

    #[test]
    fn only_http_1_is_supported() {
        let version = |text: &str| split(format!("GET / {text}").as_bytes()).map(|line| line.version);
        assert_eq!(version("HTTP/1.0"), Ok(Version::HTTP_10));
        for minor in 1..=9 {
            assert_eq!(version(&format!("HTTP/1.{minor}")), Ok(Version::HTTP_11));
        }
        assert_eq!(version("HTTP/0.9"), Err(Rejection::Http09));
        assert_eq!(version("HTTP/2.0"), Err(Rejection::UnsupportedVersion));
        assert_eq!(version("HTTP/9.9"), Err(Rejection::UnsupportedVersion));
        for wrong in [
            "",
            "http/1.1",
            "HTTP/1",
            "HTTP/1.",
            "HTTP/11.1",
            "HTTP/1.1x",
            "HTTP/a.1",
            "HTTP 1.1",
            "HTTPS/1.1",
        ] {
            assert_eq!(version(wrong), Err(Rejection::BadRequestLine), "{wrong}");
        }
    }

    #[test]
    fn a_method_is_any_token() {
        for byte in 0..=u8::MAX {
            let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let head = [b'A', byte, b' ', b'/', b' ', b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'];
            let method = split(&head).and_then(|line| line.method(&head));
            // A space ends the method, which leaves a line of four words.
            assert_eq!(method.is_ok(), is_token, "{}", byte.escape_ascii());
        }
        let head = format!("\r\n{} / HTTP/1.1\r\n", "A".repeat(4000));
        let line = RequestLine::split(head.as_bytes(), 2..head.len() - 2, &MessageLimits::default())
            .expect("a line");
        assert_eq!(line.method(head.as_bytes()).map(|method| method.as_str().len()), Ok(4000));
        assert_eq!((&head[line.target()], line.end()), ("/", head.len()));
    }
}

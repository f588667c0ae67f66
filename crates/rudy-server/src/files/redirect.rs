//! The address of a folder, with its slash.

use http::{HeaderValue, Uri};

/// Where a request for a folder without its slash is sent: the same path with one, and the same query.
///
/// It is a path and never begins with two slashes: `//host/` would be the address of another host (RFC 3986 §4.2).
pub(super) fn with_slash(uri: &Uri) -> HeaderValue {
    let mut location = Vec::with_capacity(uri.path().len() + 2);
    for segment in uri.path().split('/').filter(|segment| !segment.is_empty()) {
        location.push(b'/');
        push_encoded(segment, &mut location);
    }
    location.push(b'/');
    if let Some(query) = uri.query() {
        location.push(b'?');
        push_encoded(query, &mut location);
    }
    // All that is left is visible ASCII; if that were wrong, the site's first page is a place to go on from.
    HeaderValue::from_bytes(&location).unwrap_or(HeaderValue::from_static("/"))
}

/// What is encoded already stays as it is; what a URI may not hold (RFC 3986 §2) is encoded now.
fn push_encoded(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_location_is_a_path_on_this_host() {
        for (uri, expected) in [
            ("/a", "/a/"),
            ("/a/b?x=1&y=%20", "/a/b/?x=1&y=%20"),
            ("//evil.example/a", "/evil.example/a/"),
            ("///evil.example", "/evil.example/"),
            ("http://here.example//evil.example", "/evil.example/"),
            ("/a%20b", "/a%20b/"),
            ("/a//b", "/a/b/"),
            ("/", "/"),
            ("/a?", "/a/?"),
        ] {
            assert_eq!(with_slash(&uri.parse().unwrap()), expected, "{uri}");
        }
    }
}

//! The four forms of a request target (RFC 9112 §3.2).

use std::ops::Range;

use bytes::Bytes;
use http::{Method, Uri};

use super::split_authority;
use crate::RawTarget;
use crate::syntax::any_byte;

/// The positions of the parts of a target within the head.
#[derive(Debug, Clone)]
pub(crate) struct TargetParts {
    /// The authority of an absolute form.
    pub(crate) authority: Option<Range<usize>>,
    /// The path, or `*`. The query follows it.
    pub(crate) path: Range<usize>,
    /// Whether the Host field must not be empty.
    pub(crate) needs_host: bool,
}

impl TargetParts {
    /// Finds the parts of the target at `place`. `None` if [`parse_target`] rejects it.
    pub(crate) fn find(head: &[u8], place: Range<usize>, method: &Method) -> Option<Self> {
        let target = &head[place.clone()];
        if target.first() != Some(&b'/') || method == Method::CONNECT || target.len() > URI_BYTES_MAX / 3 {
            return Self::find_slow(head, place, method);
        }
        if any_byte(target, |byte| byte <= b' ' || byte == b'#' || byte == 0x7f) {
            return None;
        }
        let path = memchr::memchr(b'?', target).unwrap_or(target.len());
        Some(Self { authority: None, path: place.start..place.start + path, needs_host: true })
    }

    /// Finds the parts of rare targets, with the general parser.
    #[cold]
    fn find_slow(head: &[u8], place: Range<usize>, method: &Method) -> Option<Self> {
        let target = Bytes::copy_from_slice(&head[place.clone()]);
        let (uri, _) = parse_target(&target, 0..target.len(), method)?;
        let authority = uri.scheme().is_some().then(|| {
            let start = memchr::memmem::find(&target, b"://").map_or(0, |at| at + 3);
            start..memchr::memchr2(b'/', b'?', &target[start..]).map_or(target.len(), |at| start + at)
        });
        let path = authority.as_ref().map_or(0, |authority| authority.end);
        let path = path..memchr::memchr(b'?', &target[path..]).map_or(target.len(), |at| path + at);
        let shift = |part: Range<usize>| place.start + part.start..place.start + part.end;
        Some(Self { authority: authority.map(shift), path: shift(path), needs_host: needs_host(&uri) })
    }
}

/// The longest target that a [`Uri`] can hold. Percent-encoding can triple the length of a target.
const URI_BYTES_MAX: usize = (1 << 16) - 2;

/// Parses the target at `place` in `head`, in the form that the method requires. If a [`Uri`] cannot hold the target, it
/// returns an equivalent URI and the original bytes.
///
/// The path and the query may contain visible ASCII except `#`, and all bytes beyond ASCII. RFC 3986 allows less, but nginx,
/// lighttpd and Apache accept these. Clients do not send fragments (RFC 9112 §3.2), and Apache rejects them too.
pub(crate) fn parse_target(
    head: &Bytes,
    place: Range<usize>,
    method: &Method,
) -> Option<(Uri, Option<RawTarget>)> {
    let target = &head[place.clone()];
    let first = target.first().copied();
    // `Uri` would drop a fragment silently.
    if memchr::memchr(b'#', target).is_some() {
        return None;
    }
    let (uri, raw) = if let Ok(uri) = Uri::from_maybe_shared(head.slice(place.clone())) {
        (uri, None)
    } else {
        let raw = RawTarget::new(head.slice(place));
        (Uri::from_maybe_shared(raw.escaped()?).ok()?, Some(raw))
    };
    let allowed = match (method, first) {
        (&Method::CONNECT, _) => is_authority_form(&uri),
        (_, Some(b'/')) => true,
        (&Method::OPTIONS, Some(b'*')) => uri.path() == "*",
        _ => is_absolute_form(&uri),
    };
    allowed.then_some((uri, raw))
}

/// Whether the Host field must not be empty: `*` needs no host, and an absolute form has one (RFC 9112 §3.2.2).
pub(crate) fn needs_host(uri: &Uri) -> bool {
    uri.scheme().is_none() && uri.path() != "*"
}

/// Whether the target is `uri-host ":" port`, the only form for CONNECT (RFC 9112 §3.2.3).
fn is_authority_form(uri: &Uri) -> bool {
    let has_port = matches!(authority(uri), Some((_, Some(port))) if !port.is_empty());
    uri.scheme().is_none() && uri.path_and_query().is_none() && has_port
}

/// Whether the target is an absolute http URI (RFC 9112 §3.2.2).
fn is_absolute_form(uri: &Uri) -> bool {
    matches!(uri.scheme_str(), Some("http" | "https")) && authority(uri).is_some()
}

/// Returns the authority of an http URI: a host that is not empty (RFC 9110 §4.2.1), without user information (§4.2.4).
fn authority(uri: &Uri) -> Option<(&[u8], Option<&[u8]>)> {
    split_authority(uri.authority()?.as_str().as_bytes()).filter(|(host, _)| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses a target within a head, and checks that [`TargetParts`] finds the parts of the URI.
    fn parse(method: &str, target: &[u8]) -> Option<(Uri, Option<RawTarget>)> {
        let head = Bytes::from([b"? ", target, b" ?"].concat());
        let (place, method) = (2..target.len() + 2, Method::try_from(method).expect("a token"));
        let parsed = parse_target(&head, place.clone(), &method);
        let parts = TargetParts::find(&head, place.clone(), &method);
        assert_eq!(parts.is_some(), parsed.is_some(), "{}", target.escape_ascii());
        let (Some(parts), Some((uri, raw))) = (parts, &parsed) else { return None };
        let text = |part: Range<usize>| head[part].to_vec();
        if let (Some(authority), None) = (&parts.authority, raw) {
            assert_eq!(
                text(authority.clone()),
                uri.authority().expect("the target has an authority").as_str().as_bytes()
            );
        }
        let (path, rest) = (text(parts.path.clone()), text(parts.path.end..place.end));
        assert!(!path.contains(&b'?') && matches!(rest.first(), None | Some(b'?')));
        match raw {
            Some(raw) => assert_eq!([path, rest].concat(), raw.path_and_query()),
            None if method == Method::CONNECT => {}
            None => {
                let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
                let path = if path.is_empty() { b"/".to_vec() } else { path };
                assert_eq!((&path[..], &rest[..]), (uri.path().as_bytes(), query.as_bytes()));
            }
        }
        assert_eq!(parts.needs_host, needs_host(uri));
        parsed
    }

    #[test]
    fn a_long_target_is_accepted_if_a_uri_can_hold_it() {
        for (length, is_accepted) in [(20_000, true), (30_000, false), (65_533, false)] {
            assert_eq!(
                parse("GET", &[b"/", &b"<".repeat(length)[..]].concat()).is_some(),
                is_accepted,
                "{length}"
            );
        }
        assert!(parse("GET", &[b"/", &b"a".repeat(65_533)[..]].concat()).is_some());
        assert!(parse("GET", &[b"/", &b"a".repeat(65_534)[..]].concat()).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_parts_are_those_of_the_uri(
            method in proptest::sample::select(vec!["GET", "OPTIONS", "CONNECT", "PURGE"]),
            start in proptest::sample::select(vec!["", "/", "*", "http://", "HTTPS://a", "a:80", "//"]),
            rest in proptest::collection::vec(prop_oneof![4 => b'!'..=b'~', 1 => any::<u8>()], 0..20),
        ) {
            parse(method, &[start.as_bytes(), &rest].concat());
        }
    }

    #[test]
    fn a_target_has_one_of_four_forms() {
        let valid = [
            ("GET", "/"),
            ("GET", "//a"),
            ("GET", "/a?b=c&d"),
            ("GET", "/?"),
            ("OPTIONS", "*"),
            ("OPTIONS", "/"),
            ("GET", "http://a"),
            ("GET", "https://[::1]:443/b"),
            ("GET", "HTTP://a/"),
            ("GET", "http://[v1.fe:x]/"),
            ("CONNECT", "a:443"),
            ("CONNECT", "[::1]:443"),
        ];
        for (method, target) in valid {
            assert!(parse(method, target.as_bytes()).is_some(), "{method} {target}");
        }
        let invalid = [
            ("GET", "*"),
            ("POST", "*"),
            ("OPTIONS", "*a"),
            ("GET", "a"),
            ("GET", "a:80"),
            ("GET", "http://"),
            ("GET", "http:///a"),
            ("GET", "http:/a"),
            ("GET", "http://u@a/"),
            ("GET", "http://a:x/"),
            ("GET", "ftp://a/"),
            ("GET", "http://a<b/"),
            ("GET", "a<b:80"),
            ("OPTIONS", "*<"),
            ("GET", "/#"),
            ("GET", "/<#"),
            ("GET", "/?#"),
            ("GET", "/a#b"),
            ("CONNECT", "/"),
            ("CONNECT", "*"),
            ("CONNECT", "a"),
            ("CONNECT", "a:"),
            ("CONNECT", ":443"),
            ("CONNECT", "http://a:443/"),
            ("CONNECT", "a:443/b"),
            ("CONNECT", "a:443/<"),
        ];
        for (method, target) in invalid {
            assert!(parse(method, target.as_bytes()).is_none(), "{method} {target}");
        }
    }

    #[test]
    fn a_path_and_a_query_allow_the_same_bytes_and_stay_unchanged() {
        for byte in 0..=u8::MAX {
            for before in [&b"/a"[..], b"/?a", b"http://a/b", b"http://a?"] {
                let target = [before, &[byte], b"c"].concat();
                let parsed = parse("GET", &target);
                let is_accepted = (byte > b' ' && byte != b'#' && byte != 0x7f) || byte >= 0x80;
                assert_eq!(parsed.is_some(), is_accepted, "{}", target.escape_ascii());
                let Some((uri, raw)) = parsed else { continue };
                match raw {
                    None => assert_eq!(uri.to_string().as_bytes(), uri_text(&target)),
                    Some(raw) => {
                        assert_eq!(raw.as_bytes(), target);
                        let escape = format!("%{byte:02X}");
                        assert!(uri.to_string().contains(&escape), "{uri}");
                    }
                }
            }
        }
    }

    /// Returns the text of the [`Uri`], which adds a path to `http://a?`.
    fn uri_text(target: &[u8]) -> Vec<u8> {
        let text = target.strip_prefix(b"http://a?").map(|query| [b"http://a/?", query].concat());
        text.unwrap_or_else(|| target.to_vec())
    }
}

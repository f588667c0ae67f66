//! The four forms of a request target (RFC 9112 §3.2).

use std::ops::Range;

use bytes::Bytes;
use http::{Method, Uri};

use super::host::split_authority;
use crate::RawTarget;

/// The target at `place` in `head`, in the form that goes with the method. It is a URI's equivalent and the bytes themselves
/// where a [`Uri`] cannot hold them.
///
/// A target holds visible ASCII but `#`, and the bytes beyond ASCII, in its path as in its query: RFC 3986 has fewer, but
/// nginx, lighttpd and Apache all take these. Clients do not send fragments (RFC 9112 §3.2), and Apache rejects them, too.
pub(super) fn parse_target(
    head: &Bytes,
    place: Range<usize>,
    method: &Method,
) -> Option<(Uri, Option<RawTarget>)> {
    let target = &head[place.clone()];
    let first = target.first().copied();
    // `Uri` would drop a fragment without a word.
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

/// Whether Host has to name the host: `*` is about no host in particular, and an absolute form names it (RFC 9112 §3.2.2).
pub(super) fn needs_host(uri: &Uri) -> bool {
    uri.scheme().is_none() && uri.path() != "*"
}

/// `uri-host ":" port`: only CONNECT has it, and it has nothing else (RFC 9112 §3.2.3).
fn is_authority_form(uri: &Uri) -> bool {
    let has_port = matches!(authority(uri), Some((_, Some(port))) if !port.is_empty());
    uri.scheme().is_none() && uri.path_and_query().is_none() && has_port
}

/// A whole http URI (RFC 9112 §3.2.2).
fn is_absolute_form(uri: &Uri) -> bool {
    matches!(uri.scheme_str(), Some("http" | "https")) && authority(uri).is_some()
}

/// The authority of an http URI: a host that is not empty (RFC 9110 §4.2.1), and no user information (§4.2.4).
fn authority(uri: &Uri) -> Option<(&[u8], Option<&[u8]>)> {
    split_authority(uri.authority()?.as_str().as_bytes()).filter(|(host, _)| !host.is_empty())
}

//! The four forms of a request target (RFC 9112 §3.2).

use bytes::Bytes;
use http::{Method, Uri};

use super::host::split_authority;

/// A target in the form that goes with the method.
pub(super) fn parse_target(target: Bytes, method: &Method) -> Option<Uri> {
    let first = target.first().copied();
    // A fragment is not sent to a server (RFC 9112 §3.2); `Uri` would drop it without a word.
    if target.contains(&b'#') {
        return None;
    }
    let uri = Uri::from_maybe_shared(target).ok()?;
    let allowed = match (method, first) {
        (&Method::CONNECT, _) => is_authority_form(&uri),
        (_, Some(b'/')) => true,
        (&Method::OPTIONS, Some(b'*')) => uri.path() == "*",
        _ => is_absolute_form(&uri),
    };
    allowed.then_some(uri)
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

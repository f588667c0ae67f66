//! The target of the request to the upstream.
//!
//! The path is passed on as the client has spelled it, because signed URLs and applications depend on the spelling. Only dot segments
//! are resolved first: routes and authorizers have seen the resolved path, and the upstream must not see another one. (Empty segments
//! and percent-encoding are passed on: whether an application decodes them or not, it does not leave the path that was authorized, because
//! the handler has rejected paths with dot segments between encoded slashes or backslashes, or with parameters.)

use http::{HeaderMap, StatusCode, Uri};
use rudy_http::semantics::path::RequestPath;
use rudy_http::semantics::percent::encode_query;
use rudy_net::Response;

use crate::handlers::Call;
use crate::pages;

/// What the path of a request loses and gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prefixes {
    /// Whether the folder of the route is removed.
    pub(crate) strips: bool,
    /// The prefix that is added: `/v1`.
    pub(crate) added: String,
}

/// Rejects a request whose path has a dot segment for an upstream that decodes slashes or backslashes, or removes parameters; or whose
/// path without parameters is one of another route. (A files route is an exception: applications write session ids into the URLs of
/// their static files, which the server may send itself.)
pub(crate) fn reject_other_path(call: &Call<'_>, fields: &HeaderMap) -> Option<Response> {
    let checked = call.path.check_dot_segments();
    let checked =
        checked.and_then(|()| call.route.check_parameters(call.path, |target| target.handler.serves_files()));
    let error = checked.err()?;
    Some(pages::error(StatusCode::BAD_REQUEST, fields, &format!("Bad request: {error}.")))
}

/// Returns the target for a request with this URI, whose canonical path is `path`; `mount` is the length of the folder of the route.
/// `None` if it is that of the client.
pub(crate) fn target(uri: &Uri, path: &RequestPath<'_>, mount: usize, prefixes: &Prefixes) -> Option<String> {
    let mount = if prefixes.strips { mount } else { 0 };
    let has_dots = has_dot_segments(uri.path());
    let is_ascii = uri.path_and_query().is_none_or(|target| target.as_str().is_ascii());
    if mount == 0 && prefixes.added.is_empty() && !has_dots && is_ascii {
        return None;
    }
    let canonical = path.as_bytes();
    let rest = match uri.path().as_bytes().strip_prefix(&canonical[..mount]) {
        // The prefix is spelled as in the configuration.
        Some([] | [b'/', ..]) if !has_dots => uri.path()[mount..].to_owned(),
        _ => path.encoded_from(mount),
    };
    let mut target = format!("{}{rest}", prefixes.added);
    if !target.starts_with('/') {
        target.insert(0, '/');
    }
    if let Some(query) = uri.query() {
        target.push('?');
        target.push_str(query);
    }
    // Clients send characters that a URI cannot contain (RFC 3986 §2). A path may contain what a query may.
    Some(if target.is_ascii() { target } else { encode_query(&target).into_owned() })
}

/// Returns the folder of the route of a request, the first `mount` bytes of its canonical path, as it is spelled in a URL.
pub(super) fn folder(uri: &Uri, mount: usize) -> String {
    let Ok(path) = RequestPath::parse(uri.path()) else { return String::new() };
    let (path, below) = (path.encoded_from(0), path.encoded_from(mount));
    path.strip_suffix(below.as_str()).unwrap_or_default().to_owned()
}

/// Returns whether a path has a segment `.` or `..`, plain or percent-encoded.
fn has_dot_segments(path: &str) -> bool {
    let is_dot = |segment: &str| {
        let plain = || segment.to_ascii_lowercase().replace("%2e", ".");
        segment.starts_with(['.', '%']) && matches!(plain().as_str(), "." | "..")
    };
    path.split('/').any(is_dot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_spelled_as_in_a_url() {
        for (path, mount, expected) in
            [("/app/a", 4, "/app"), ("/a%20b/c", 4, "/a%20b"), ("/app", 4, "/app"), ("/a", 0, "")]
        {
            assert_eq!(folder(&path.parse().unwrap(), mount), expected, "{path}");
        }
    }

    #[test]
    fn the_spelling_of_the_client_is_passed_on_without_dot_segments() {
        let strip = Prefixes { strips: true, added: String::new() };
        let add = Prefixes { strips: false, added: "/v1".to_owned() };
        let both = Prefixes { strips: true, added: "/v1".to_owned() };
        let none = Prefixes::default();
        for (prefixes, uri, expected) in [
            (&none, "/app/a?b", "/app/a?b"),
            (&none, "/app//https://a%2Fb/%61", "/app//https://a%2Fb/%61"),
            (&none, "/app/x/../a?b", "/app/a?b"),
            (&none, "/app/x/%2E%2e/a%20b", "/app/a%20b"),
            (&none, "/app/.hidden/..a", "/app/.hidden/..a"),
            (&none, "/app/é%C3%A9?ü=/€", "/app/%C3%A9%C3%A9?%C3%BC=/%E2%82%AC"),
            (&both, "/app/é?ü", "/v1/%C3%A9?%C3%BC"),
            (&strip, "/app/a//b?c", "/a//b?c"),
            (&strip, "/app", "/"),
            (&strip, "/app?x", "/?x"),
            (&strip, "/%61pp/a%2Fb", "/a%2Fb"),
            (&strip, "/app/../app/a", "/a"),
            (&add, "/app/a", "/v1/app/a"),
            (&both, "/app/a", "/v1/a"),
            (&both, "/app", "/v1"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let path = RequestPath::parse(uri.path()).unwrap();
            let target = target(&uri, &path, "/app".len(), prefixes);
            let as_sent = uri.path_and_query().unwrap().as_str();
            assert_eq!(target.as_deref().unwrap_or(as_sent), expected, "{uri}");
        }
    }
}

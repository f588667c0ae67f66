//! The target of the request to the upstream.
//!
//! The path is passed on as the client has spelled it, because signed URLs and applications depend on the spelling, with three
//! exceptions. Dot segments are resolved: routes and authorizers have seen the resolved path, and the upstream must not see another one.
//! (Empty segments and percent-encoding are passed on: whether an application decodes them or not, it does not leave the path that was
//! authorized, because the handler has rejected paths with dot segments between encoded slashes or backslashes, or with parameters.)
//! Characters that a URI cannot contain are encoded, wherever they are: upstreams reject them, or read them in different ways. And after an
//! internal redirect, such as one to an error page, the path is that of the redirect: the route and its authorizer have seen no other.

use std::borrow::Cow;

use http::{StatusCode, Uri};
use rudy_message::LazyHead;
use rudy_message::semantics::path::{PathError, RequestPath};
use rudy_message::semantics::percent::{encode_query, fits_query};
use rudy_message::syntax::any_byte;
use rudy_pipeline::{Call, pages};
use rudy_service::{Request, Response};

/// What the path of a request loses and gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// Whether the folder of the route is removed.
    pub strips: bool,
    /// The prefix that is added: `/v1`.
    pub added: String,
    /// Whether one level of percent-encoding is removed.
    pub decodes: bool,
}

/// Rejects a request whose path has a dot segment for an upstream that decodes slashes or backslashes, or removes parameters; or whose
/// path without parameters is one of another route. (A files route is an exception: applications write session ids into the URLs of
/// their static files, which the server may send itself.)
pub fn reject_other_path(call: &Call<'_>, request: &Request<'_>) -> Option<Response> {
    let checked = call.path.check_dot_segments();
    let checked =
        checked.and_then(|()| call.route.check_parameters(call.path, |target| target.handler.serves_files()));
    Some(bad_path(checked.err()?, request))
}

/// As [`reject_other_path`], also for a path that has a dot segment or a NUL after one level of percent-encoding is removed: the route has
/// seen neither.
pub(super) fn reject_path(call: &Call<'_>, request: &Request<'_>, prefixes: &Prefixes) -> Option<Response> {
    let rejected = reject_other_path(call, request);
    if rejected.is_some() || !prefixes.decodes {
        return rejected;
    }
    let decoded = call.path.decoded();
    let has_dots = decoded.split('/').any(|segment| dots(segment).is_some());
    let checked = if has_dots { Err(PathError::DotSegment) } else { RequestPath::parse(&decoded) };
    Some(bad_path(checked.and_then(|path| path.check_dot_segments()).err()?, request))
}

fn bad_path(error: PathError, request: &Request<'_>) -> Response {
    pages::error(StatusCode::BAD_REQUEST, request.headers(), &format!("Bad request: {error}."))
}

/// Returns the target for a request whose canonical path is `path`; `mount` is the length of the folder of the route. `None` if it is
/// that of the client.
pub(super) fn target(
    head: &LazyHead<'_>,
    path: &RequestPath<'_>,
    mount: usize,
    prefixes: &Prefixes,
) -> Option<String> {
    let keeps_path = prefixes.added.is_empty() && (mount == 0 || !prefixes.strips);
    // Then it has neither an empty nor a dot segment.
    let is_canonical = || head.path() == path.as_bytes() && !any_byte(path.as_bytes(), |byte| byte == b'%');
    // Nearly all requests, for which no URI is made.
    if keeps_path && is_canonical() && fits_query(head.path_and_query()) {
        return None;
    }
    let target = target_of_uri(head.uri(), path, mount, prefixes);
    // What a URI cannot hold is encoded in it.
    let of_uri = || head.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
    Some(target.unwrap_or_else(of_uri))
}

/// As [`target`], for a URI.
pub fn target_of_uri(uri: &Uri, path: &RequestPath<'_>, mount: usize, prefixes: &Prefixes) -> Option<String> {
    let spelled = if prefixes.decodes { Cow::Owned(path.decoded()) } else { spelled(uri, path) };
    let mount = if prefixes.strips { mount } else { 0 };
    if mount == 0 && prefixes.added.is_empty() && matches!(spelled, Cow::Borrowed(_)) {
        let as_sent = uri.path_and_query().map_or("/", |target| target.as_str());
        if !spelled.split('/').any(|segment| dots(segment).is_some()) && fits_query(as_sent.as_bytes()) {
            return None;
        }
    }
    let folders = memchr::memchr_iter(b'/', &path.as_bytes()[..mount]).count();
    let mut target = format!("{}{}", prefixes.added, resolved(&spelled, folders));
    if !target.starts_with('/') {
        target.insert(0, '/');
    }
    if let Some(query) = uri.query() {
        target.push('?');
        target.push_str(query);
    }
    Some(encode_query(&target).into_owned())
}

/// Returns the path as the client has spelled it, unless an internal redirect has led to another one.
fn spelled<'u>(uri: &'u Uri, path: &RequestPath<'_>) -> Cow<'u, str> {
    let sent = uri.path();
    let is_sent =
        sent.as_bytes() == path.as_bytes() || RequestPath::parse(sent).is_ok_and(|parsed| parsed == *path);
    if is_sent { Cow::Borrowed(sent) } else { Cow::Owned(path.encoded_from(0)) }
}

/// Resolves the dot segments of a path as [`RequestPath::parse`] does, but leaves the spelling of everything else. Then removes the first
/// `folders` names.
fn resolved(path: &str, folders: usize) -> String {
    let mut resolved = String::with_capacity(path.len());
    // Where each name begins, with the slashes before it.
    let mut starts = Vec::new();
    let (mut slashes, mut ends_in_name) = (1, false);
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        ends_in_name = false;
        match dots(segment) {
            Some(1) => {}
            Some(_) => {
                resolved.truncate(starts.pop().unwrap_or(0));
                slashes = 1;
            }
            None if segment.is_empty() => slashes += usize::from(segments.peek().is_some()),
            None => {
                starts.push(resolved.len());
                resolved.extend(std::iter::repeat_n('/', slashes));
                resolved.push_str(segment);
                (slashes, ends_in_name) = (1, true);
            }
        }
    }
    let start = starts.get(folders).copied().unwrap_or(resolved.len());
    if !ends_in_name {
        resolved.extend(std::iter::repeat_n('/', slashes));
    }
    resolved.split_off(start)
}

/// Returns the number of dots of a dot segment, plain or percent-encoded.
fn dots(segment: &str) -> Option<usize> {
    if !segment.starts_with(['.', '%']) {
        return None;
    }
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    matches!(plain.as_str(), "." | "..").then_some(plain.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spelling_of_the_client_is_passed_on_without_dot_segments() {
        let strip = Prefixes { strips: true, added: String::new(), decodes: false };
        let add = Prefixes { strips: false, added: "/v1".to_owned(), decodes: false };
        let both = Prefixes { strips: true, added: "/v1".to_owned(), decodes: false };
        let decode = Prefixes { strips: true, decodes: true, ..Prefixes::default() };
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
            (&strip, "/a%70p//a%2Bb;c/%7e/", "//a%2Bb;c/%7e/"),
            (&strip, "/app/", "/"),
            (&strip, "/app/../app/a", "/a"),
            (&none, "/app//%7Ea/./b%2B/../c%20//", "/app//%7Ea/c%20//"),
            (&none, "/app/a//.././b/.", "/app/b/"),
            (&strip, "/x/..//app//a%2B/%2e", "//a%2B/"),
            (&decode, "/app/caf%25C3%25A9/a%2Fb%20é?c=%2525", "/caf%C3%A9/a%2Fb%20%C3%A9?c=%2525"),
            (&decode, "/app/a%253Fb%2523/100%25", "/a%3Fb%23/100%25"),
            (&add, "/app/a", "/v1/app/a"),
            (&both, "/app/a", "/v1/a"),
            (&both, "/app", "/v1"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let path = RequestPath::parse(uri.path()).unwrap();
            let target = target_of_uri(&uri, &path, "/app".len(), prefixes);
            let as_sent = uri.path_and_query().unwrap().as_str();
            assert_eq!(target.as_deref().unwrap_or(as_sent), expected, "{uri}");
        }
    }

    #[test]
    fn characters_that_a_uri_cannot_contain_are_encoded_wherever_they_are() {
        let strip = Prefixes { strips: true, added: String::new(), decodes: false };
        for (uri, expected) in [
            ("/app/{a}", "/app/%7Ba%7D"),
            ("/app/a|b?c^d", "/app/a%7Cb?c%5Ed"),
            ("/app/é?{}", "/app/%C3%A9?%7B%7D"),
            ("/app/a[1]?b[]=%5B'*", "/app/a[1]?b[]=%5B'*"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let path = RequestPath::parse(uri.path()).unwrap();
            let as_sent = || uri.path_and_query().unwrap().to_string();
            let whole = target_of_uri(&uri, &path, 0, &Prefixes::default()).unwrap_or_else(as_sent);
            assert_eq!(whole, expected);
            assert_eq!(
                target_of_uri(&uri, &path, "/app".len(), &strip).as_deref(),
                expected.strip_prefix("/app"),
                "{uri}"
            );
        }
    }

    #[test]
    fn after_an_internal_redirect_the_path_is_that_of_the_redirect() {
        let uri: Uri = "/secret/../a%20b?c".parse().unwrap();
        let page = RequestPath::from_decoded("/errors/not found.html".to_owned());
        let of = |prefixes: &Prefixes| target_of_uri(&uri, &page, "/errors".len(), prefixes);
        assert_eq!(of(&Prefixes::default()).as_deref(), Some("/errors/not%20found.html?c"));
        let strip = Prefixes { strips: true, added: String::new(), decodes: false };
        assert_eq!(of(&strip).as_deref(), Some("/not%20found.html?c"));
    }

    proptest::proptest! {
        #[test]
        fn the_upstream_sees_the_path_that_was_authorized(path in "/([ab%2Fe./;+]|%2[eEfFbB]|\\.\\.?/|//){0,12}") {
            let Ok(uri) = path.parse::<Uri>() else { return Ok(()) };
            let Ok(canonical) = RequestPath::parse(uri.path()) else { return Ok(()) };
            let sent = target_of_uri(&uri, &canonical, 0, &Prefixes::default()).unwrap_or(path.clone());
            let seen = RequestPath::parse(&sent);
            proptest::prop_assert_eq!(seen.as_ref(), Ok(&canonical), "{} {}", path, sent);
        }
    }
}

//! Internal redirects: the server responds with another path of the site, invisibly to the client.
//!
//! Applications cause them (local redirects, RFC 3875 §6.2.2), and the `files` handler if its index, its fallback, a file of
//! `try_files` or an error page has a path that another route matches. The access rules of that route apply.

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH,
    CONTENT_LOCATION, CONTENT_TYPE, ETAG, EXPECT, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE, TRANSFER_ENCODING, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::uri::PathAndQuery;
use http::{HeaderName, Method, StatusCode, Uri};
use rudy_message::semantics::path::RequestPath;
use rudy_service::{Body, Reply, Request, RequestBody, Response};

use crate::patterns::template::{Subject, Template};
use crate::request_state::{HasRequestState, HasResponseState};

/// Maximum number of internal redirects for one request, as in nginx.
pub const REDIRECTS_MAX: u32 = 10;

/// Header fields that describe a request body.
pub const BODY_FIELDS: [HeaderName; 5] =
    [CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING];

/// Header fields that make a request conditional or select a range of the resource.
pub const CONDITIONAL_FIELDS: [HeaderName; 6] =
    [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE];

/// Whether an internal redirect led to a request.
pub fn is_redirected(request: &Request<'_>) -> bool {
    request.state().redirects > 0
}

/// Marks a response to a request that was internally redirected.
pub fn mark(mut response: Response) -> Response {
    response.state_mut().is_redirected = true;
    response
}

/// Replaces the URI of a request, whose target the client does not see change.
pub fn rewrite(request: &mut Request<'_>, uri: Uri) {
    if request.state().original_target.is_none() {
        let sent = Bytes::copy_from_slice(request.path_and_query());
        request.state_mut().original_target = Some(sent);
    }
    request.set_uri(uri);
}

/// Replaces the query of a request, as [`rewrite`] does. `query` has its question mark.
///
/// # Errors
///
/// A query cannot contain a character.
pub fn set_query(request: &mut Request<'_>, query: &str) -> Result<(), String> {
    let target = format!("{}{query}", request.uri().path());
    let uri = with_target(request.uri(), &target).ok_or_else(|| "The new query is not valid.".to_owned())?;
    rewrite(request, uri);
    Ok(())
}

/// Returns a URI with another path and query. `None` if they are not valid.
fn with_target(uri: &Uri, target: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns the URI and the canonical path that a template leads to. The query of the request stays, unless the template has one.
///
/// # Errors
///
/// An explanation for the client: the request has no valid host, or the new path is not valid.
pub fn rewritten(template: &Template, subject: &Subject<'_>) -> Result<(Uri, RequestPath<'static>), String> {
    let uri = subject.request.uri();
    let mut target = template.fill(subject)?;
    if let (false, Some(query)) = (target.contains('?'), uri.query()) {
        target = format!("{target}?{query}");
    }
    let path = RequestPath::parse(target.split('?').next().unwrap_or_default());
    let path = path.map_err(|error| format!("Bad request: {error}."))?.into_owned();
    let uri = with_target(uri, &target).ok_or_else(|| "The new path is not valid in a URL.".to_owned())?;
    Ok((uri, path))
}

/// Counts an internal redirect of a request; `None` after [`REDIRECTS_MAX`] of them.
pub fn same_request(mut request: Request<'_>) -> Option<Request<'_>> {
    let state = request.state_mut();
    *state = std::mem::take(state).redirected();
    (state.redirects <= REDIRECTS_MAX).then_some(request)
}

/// Returns the request for the target of a local redirect; `None` after [`REDIRECTS_MAX`] internal redirects.
///
/// It is a GET without a body, as RFC 3875 §6.2.2 requires, or a HEAD if the request was one. Host and other fields are copied.
pub fn for_target(request: &Request<'_>, target: &str) -> Option<Request<'static>> {
    let mut other = copy_head(request);
    // Invalid targets were rejected when the response was parsed.
    let uri = with_target(other.uri(), target)?;
    other.set_uri(uri);
    let state = other.state_mut();
    *state = std::mem::take(state).for_target();
    without_body(other).map(Request::into_owned)
}

/// Copies a request without its body.
pub fn copy_head<'a>(request: &Request<'a>) -> Request<'a> {
    let mut copy = request.copy_head();
    if request.state.is_some() {
        *copy.state_mut() = request.state().clone();
    }
    copy
}

/// Returns the request for an error page; `None` after [`REDIRECTS_MAX`] internal redirects, or if an error page failed.
pub fn for_page(mut request: Request<'_>, error: StatusCode) -> Option<Request<'_>> {
    if request.state().error_page_for.is_some() {
        return None;
    }
    for name in &CONDITIONAL_FIELDS {
        request.remove(name);
    }
    let state = request.state_mut();
    *state = std::mem::take(state).for_page(error);
    without_body(request)
}

fn without_body(mut request: Request<'_>) -> Option<Request<'_>> {
    if *request.method() != Method::HEAD {
        request.set_method(Method::GET);
    }
    for name in &BODY_FIELDS {
        request.remove(name);
    }
    *request.body_mut() = RequestBody::empty();
    (request.state().redirects <= REDIRECTS_MAX).then_some(request)
}

/// Header fields that describe the content of a response. The error page provides them, not the failed response.
const CONTENT_FIELDS: [HeaderName; 8] = [
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_TYPE,
    VARY,
    X_CONTENT_TYPE_OPTIONS,
    // RFC 9530.
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// Header fields that are valid only for the page's own URL, or for the content that it replaces: with them, a cache could store the
/// error instead of the resource.
const URL_FIELDS: [HeaderName; 4] = [ACCEPT_RANGES, CONTENT_LOCATION, ETAG, LAST_MODIFIED];

/// Replaces the content of a failed response with an error page. The page is ignored if its status is neither 200 nor that of the
/// error, because then the page has failed itself. A page that ends the connection (444) does so, as in nginx.
pub fn with_page(failed: Response, page: Reply) -> Reply {
    page.map(move |page| {
        if matches!(page.body, Body::Silence) {
            return page;
        }
        if ![StatusCode::OK, failed.status()].contains(&page.status()) {
            return failed;
        }
        apply_page(&failed, page)
    })
}

fn apply_page(failed: &Response, mut page: Response) -> Response {
    page.set_status(failed.status());
    // The route of the error changes the fields too, after that of the page.
    let state = page.state_mut();
    (state.is_redirected, state.has_page) = (false, true);
    let fields = page.headers_mut();
    let is_file = fields.contains_key(ETAG);
    for name in &URL_FIELDS {
        fields.remove(name);
    }
    if is_file {
        // The value is from a `cache_control` rule for the file, not for the error. An application sets its own.
        fields.remove(CACHE_CONTROL);
    }
    let of_content = |name: &HeaderName| CONTENT_FIELDS.contains(name) || URL_FIELDS.contains(name);
    for name in failed.headers().keys().filter(|name| !of_content(name)) {
        fields.remove(name);
        for value in failed.headers().get_all(name) {
            fields.append(name, value.clone());
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_state::RequestState;

    fn head(method: &str, uri: &str) -> Request<'static> {
        let request = http::Request::builder().method(method).uri(uri).header("content-length", "3");
        let request = request.header("host", "a.org").header("cookie", "a=1");
        request.body(RequestBody::empty()).map(Request::from).unwrap()
    }

    #[test]
    fn a_local_redirect_is_a_get_without_a_body_for_the_same_host() {
        for (method, uri, expected_method, expected_uri) in [
            ("POST", "/form?x", "GET", "/thanks?id=1"),
            ("HEAD", "/form", "HEAD", "/thanks?id=1"),
            ("GET", "http://b.org/form", "GET", "http://b.org/thanks?id=1"),
        ] {
            let other = for_target(&head(method, uri), "/thanks?id=1").unwrap();
            assert_eq!(
                (other.method().as_str(), other.uri().to_string().as_str()),
                (expected_method, expected_uri)
            );
            let mut names: Vec<_> = other.headers().keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, ["cookie", "host"]);
        }
    }

    #[test]
    fn a_page_has_no_field_of_the_content_that_it_replaces() {
        let response = |status, fields: &[(&'static str, &'static str)]| {
            let mut response = Response::text(status, "text/plain", "text");
            for (name, value) in fields {
                let name = HeaderName::from_static(name);
                response.headers_mut().append(name, http::HeaderValue::from_static(value));
            }
            response
        };
        let failed = [
            ("etag", "\"failed\""),
            ("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("accept-ranges", "bytes"),
            ("content-encoding", "br"),
            ("content-disposition", "attachment"),
            ("repr-digest", "x"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("x-both", "failed"),
        ];
        let page = [("etag", "\"page\""), ("x-both", "page"), ("content-language", "en")];
        let page = response(StatusCode::OK, &page);
        let response = apply_page(&response(StatusCode::NOT_FOUND, &failed), page);
        assert_eq!(response.status(), 404);
        let fields = response.headers().iter();
        let mut lines: Vec<_> =
            fields.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        let expected = [
            "content-language: en",
            "content-type: text/plain",
            "set-cookie: a=1",
            "set-cookie: b=2",
            "x-both: failed",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_known_of_a_client_stays_and_what_was_for_the_route_ends() {
        let mut head = head("GET", "/");
        *head.state_mut() = RequestState {
            is_in_flight: true,
            came_through_proxy: Some(HeaderName::from_static("x-real-ip")),
            was_allowed: true,
            follows_storing: true,
            ..RequestState::default()
        };
        for other in [
            for_target(&head, "/other"),
            same_request(copy_head(&head)),
            for_page(copy_head(&head), StatusCode::NOT_FOUND),
        ] {
            let other = other.unwrap();
            let state = other.state();
            assert!(state.is_in_flight && state.came_through_proxy.is_some() && state.is_of_user());
            assert!(!state.follows_storing);
        }
    }

    #[test]
    fn a_redirect_loop_ends() {
        let mut head = head("GET", "/");
        let mut count = 0;
        while let Some(other) = for_target(&head, "/again") {
            count += 1;
            head = other;
        }
        assert_eq!(count, REDIRECTS_MAX);
    }
}

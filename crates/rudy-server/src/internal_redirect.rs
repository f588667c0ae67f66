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
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderName, Method, StatusCode, Uri};
use rudy_http::RawTarget;
use rudy_net::{Reply, Request, RequestBody, Response};

use crate::cache::InFlight;
use crate::pages::HasPage;
use crate::steps::{Counted, IsOfUser, LoggedIn, is_of_user};

/// Maximum number of internal redirects for one request, as in nginx.
pub(crate) const REDIRECTS_MAX: u32 = 10;

/// The number of internal redirects that led to a request, in its extensions.
#[derive(Debug, Clone, Copy)]
struct RedirectCount(u32);

/// The status of the error that a request fetches the page for, in its extensions. An application reads it as `REDIRECT_STATUS`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorPageFor(pub(crate) StatusCode);

/// Header fields that describe a request body.
pub(crate) const BODY_FIELDS: [HeaderName; 5] =
    [CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING];

/// Header fields that make a request conditional or select a range of the resource.
pub(crate) const CONDITIONAL_FIELDS: [HeaderName; 6] =
    [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE];

/// Marks a response to a request that was internally redirected, in its extensions: its fields are final.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Redirected;

/// Whether an internal redirect led to a request.
pub(crate) fn is_redirected(request: &Request) -> bool {
    request.extensions().get::<RedirectCount>().is_some()
}

/// Marks a response with [`Redirected`].
pub(crate) fn mark(mut response: Response) -> Response {
    response.extensions.insert(Redirected);
    response
}

/// The target of a request as the client sent it, in the extensions of a request whose URI a rewrite has changed. An application
/// reads it as `REQUEST_URI`.
#[derive(Debug, Clone)]
pub(crate) struct OriginalTarget(pub(crate) Bytes);

/// Replaces the URI of a request, whose target the client does not see change.
pub(crate) fn rewrite(request: &mut Request, uri: Uri) {
    if request.extensions().get::<OriginalTarget>().is_none() {
        let sent = match request.extensions().get::<RawTarget>() {
            Some(target) => Bytes::copy_from_slice(target.path_and_query()),
            None => {
                request.uri().path_and_query().map_or_else(Bytes::new, |target| target.to_string().into())
            }
        };
        request.extensions_mut().insert(OriginalTarget(sent));
    }
    request.extensions_mut().remove::<RawTarget>();
    *request.uri_mut() = uri;
}

/// Counts an internal redirect of a request; `None` after [`REDIRECTS_MAX`] of them.
pub(crate) fn same_request(mut request: Request) -> Option<Request> {
    let extensions = request.extensions_mut();
    let count = extensions.get::<RedirectCount>().map_or(0, |count| count.0);
    let (page_of, target) = (extensions.remove::<ErrorPageFor>(), extensions.remove::<RawTarget>());
    let (original, counted) = (extensions.remove::<OriginalTarget>(), extensions.remove::<Counted>());
    let (in_flight, login) = (extensions.remove::<InFlight>(), extensions.remove::<LoggedIn>());
    let is_of_user = is_of_user(extensions);
    // The variables from the authorizer of the previous route must not reach this one.
    extensions.clear();
    extensions.insert(RedirectCount(count + 1));
    page_of.map(|page_of| extensions.insert(page_of));
    target.map(|target| extensions.insert(target));
    original.map(|original| extensions.insert(original));
    counted.map(|counted| extensions.insert(counted));
    in_flight.map(|in_flight| extensions.insert(in_flight));
    login.map(|login| extensions.insert(login));
    if is_of_user {
        // Only the previous route has verified the user: a cache of this one must not share the response.
        extensions.insert(IsOfUser);
    }
    (count < REDIRECTS_MAX).then_some(request)
}

/// Returns the request for the target of a local redirect; `None` after [`REDIRECTS_MAX`] internal redirects.
///
/// It is a GET without a body, as RFC 3875 §6.2.2 requires, or a HEAD if the request was one. Host and other fields are copied.
pub(crate) fn for_target(head: &Parts, target: &str) -> Option<Request> {
    // Invalid targets were rejected when the response was parsed.
    let target: PathAndQuery = target.parse().ok()?;
    let mut request = without_body(head, &[]);
    let mut uri = head.uri.clone().into_parts();
    uri.path_and_query = Some(target);
    *request.uri_mut() = Uri::from_parts(uri).ok()?;
    same_request(request)
}

/// Copies what the request for an error page needs.
pub(crate) fn copy_for_page(request: &Request) -> Request {
    let mut copy = Request::new(RequestBody::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    let (from, to) = (request.extensions(), copy.extensions_mut());
    from.get::<RedirectCount>().map(|count| to.insert(*count));
    from.get::<ErrorPageFor>().map(|page_of| to.insert(*page_of));
    Counted::copy(from, to);
    from.get::<RawTarget>().map(|target| to.insert(target.clone()));
    from.get::<OriginalTarget>().map(|target| to.insert(target.clone()));
    copy
}

/// Returns the request for an error page; `None` after [`REDIRECTS_MAX`] internal redirects, or if an error page failed.
pub(crate) fn for_page(request: Request, status: StatusCode) -> Option<Request> {
    let (head, _) = request.into_parts();
    if head.extensions.get::<ErrorPageFor>().is_some() {
        return None;
    }
    let mut request = without_body(&head, &CONDITIONAL_FIELDS);
    request.extensions_mut().insert(ErrorPageFor(status));
    LoggedIn::copy(&head.extensions, request.extensions_mut());
    head.extensions.get::<RawTarget>().map(|target| request.extensions_mut().insert(target.clone()));
    head.extensions.get::<OriginalTarget>().map(|target| request.extensions_mut().insert(target.clone()));
    same_request(request)
}

fn without_body(head: &Parts, dropped: &[HeaderName]) -> Request {
    let mut request = Request::new(RequestBody::empty());
    *request.method_mut() = if head.method == Method::HEAD { Method::HEAD } else { Method::GET };
    *request.uri_mut() = head.uri.clone();
    *request.version_mut() = head.version;
    *request.headers_mut() = head.headers.clone();
    for name in BODY_FIELDS.iter().chain(dropped) {
        request.headers_mut().remove(name);
    }
    let (from, to) = (&head.extensions, request.extensions_mut());
    from.get::<RedirectCount>().map(|count| to.insert(*count));
    from.get::<Counted>().map(|counted| to.insert(counted.clone()));
    from.get::<InFlight>().map(|in_flight| to.insert(*in_flight));
    if is_of_user(from) {
        to.insert(IsOfUser);
    }
    request
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
/// error, because then the page has failed itself.
pub(crate) fn with_page(failed: Response, page: Reply) -> Reply {
    page.map(move |page| {
        if ![StatusCode::OK, failed.status()].contains(&page.status()) {
            return failed;
        }
        apply_page(&failed, page)
    })
}

fn apply_page(failed: &Response, mut page: Response) -> Response {
    page.set_status(failed.status());
    // The route of the error changes the fields too, after that of the page.
    page.extensions.remove::<Redirected>();
    page.extensions.insert(HasPage);
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

    fn head(method: &str, uri: &str) -> Parts {
        let request = http::Request::builder().method(method).uri(uri).header("content-length", "3");
        request.header("host", "a.org").header("cookie", "a=1").body(()).unwrap().into_parts().0
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
    fn a_request_of_a_flight_remains_one() {
        let mut head = head("GET", "/");
        head.extensions.insert(InFlight);
        let other = for_target(&head, "/other").and_then(same_request).unwrap();
        assert!(other.extensions().get::<InFlight>().is_some());
    }

    #[test]
    fn a_redirect_loop_ends() {
        let mut head = head("GET", "/");
        let mut count = 0;
        while let Some(other) = for_target(&head, "/again") {
            count += 1;
            head = other.into_parts().0;
        }
        assert_eq!(count, REDIRECTS_MAX);
    }
}

//! Internal redirects: another path of the site answers, and the client does not see it.
//!
//! They come from applications (local redirects, RFC 3875 §6.2.2) and from the `files` handler, where its index, its fallback,
//! its `try_files` or its error page is a path that another route takes. The access rules of that route apply.

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION,
    CONTENT_TYPE, ETAG, EXPECT, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED, RANGE, TRANSFER_ENCODING, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderName, Method, StatusCode, Uri};
use rudy_http::RawTarget;
use rudy_net::{Reply, Request, RequestBody, Response};

/// How many follow each other at most: as many as nginx allows, and more than any site needs.
pub(crate) const REDIRECTS_MAX: u32 = 10;

/// How many internal redirects have led to a request, in its extensions.
#[derive(Debug, Clone, Copy)]
struct RedirectCount(u32);

/// The status that an error page is sent with, in the extensions of the request for it. An application reads it as
/// `REDIRECT_STATUS`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorPageFor(pub(crate) StatusCode);

/// What describes a body.
const OF_BODY: [HeaderName; 5] = [CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING];

/// What asks for a version or a part of the resource that the client named.
const OF_RESOURCE: [HeaderName; 6] =
    [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE];

/// The same request, one internal redirect later; `None` after [`REDIRECTS_MAX`] of them.
pub(crate) fn same_request(mut request: Request) -> Option<Request> {
    let extensions = request.extensions_mut();
    let hops = extensions.get::<RedirectCount>().map_or(0, |hops| hops.0);
    let (page_of, target) = (extensions.remove::<ErrorPageFor>(), extensions.remove::<RawTarget>());
    // What the authorizer of the route before has said of the request is not for this one.
    extensions.clear();
    extensions.insert(RedirectCount(hops + 1));
    page_of.map(|page_of| extensions.insert(page_of));
    target.map(|target| extensions.insert(target));
    (hops < REDIRECTS_MAX).then_some(request)
}

/// The request for the target of a local redirect; `None` after [`REDIRECTS_MAX`] internal redirects.
///
/// It is a GET without a body, as the section has it, or a HEAD if that was asked; its host and its other fields are those of
/// the client.
pub(crate) fn for_target(head: &Parts, target: &str) -> Option<Request> {
    // What is no target was refused when the response was read.
    let target: PathAndQuery = target.parse().ok()?;
    let mut request = without_body(head, &[]);
    let mut uri = head.uri.clone().into_parts();
    uri.path_and_query = Some(target);
    *request.uri_mut() = Uri::from_parts(uri).ok()?;
    same_request(request)
}

/// The request for the page of an error; `None` after [`REDIRECTS_MAX`] internal redirects, or if the error is that of a page.
pub(crate) fn for_page(request: Request, status: StatusCode) -> Option<Request> {
    let (head, _) = request.into_parts();
    if head.extensions.get::<ErrorPageFor>().is_some() {
        return None;
    }
    let mut request = without_body(&head, &OF_RESOURCE);
    request.extensions_mut().insert(ErrorPageFor(status));
    head.extensions.get::<RawTarget>().map(|target| request.extensions_mut().insert(target.clone()));
    same_request(request)
}

fn without_body(head: &Parts, dropped: &[HeaderName]) -> Request {
    let mut request = Request::new(RequestBody::empty());
    *request.method_mut() = if head.method == Method::HEAD { Method::HEAD } else { Method::GET };
    *request.uri_mut() = head.uri.clone();
    *request.version_mut() = head.version;
    *request.headers_mut() = head.headers.clone();
    for name in OF_BODY.iter().chain(dropped) {
        request.headers_mut().remove(name);
    }
    if let Some(hops) = head.extensions.get::<RedirectCount>() {
        request.extensions_mut().insert(*hops);
    }
    request
}

/// What describes the content of a response, and so comes with the page and not from the response that failed.
const OF_CONTENT: [HeaderName; 5] =
    [CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, VARY, X_CONTENT_TYPE_OPTIONS];

/// What holds for the page at its own address only: a cache that kept an error under these would show it in place of the resource.
const OF_ADDRESS: [HeaderName; 4] = [ACCEPT_RANGES, CONTENT_LOCATION, ETAG, LAST_MODIFIED];

/// Puts the response to the request for an error's page in the place of the content of the response that failed. A page with
/// another status than 200 or that of the error has failed itself.
pub(crate) fn with_page(failed: Response, page: Reply) -> Reply {
    let apply = move |page: Response| {
        if ![StatusCode::OK, failed.status()].contains(&page.status()) {
            return failed;
        }
        apply_page(&failed, page)
    };
    match page {
        Reply::Now(page) => Reply::Now(apply(page)),
        Reply::Later(page) => Reply::Later(Box::pin(async move { apply(page.await) })),
    }
}

fn apply_page(failed: &Response, mut page: Response) -> Response {
    page.set_status(failed.status());
    let fields = page.headers_mut();
    let is_file = fields.contains_key(ETAG);
    for name in &OF_ADDRESS {
        fields.remove(name);
    }
    if is_file {
        // A rule for files by their names; an application says what holds for the error.
        fields.remove(CACHE_CONTROL);
    }
    for name in failed.headers().keys().filter(|name| !OF_CONTENT.contains(name)) {
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
    fn the_other_request_is_a_get_without_a_body_for_the_same_host() {
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
    fn what_goes_round_in_circles_ends() {
        let mut head = head("GET", "/");
        let mut hops = 0;
        while let Some(other) = for_target(&head, "/again") {
            hops += 1;
            head = other.into_parts().0;
        }
        assert_eq!(hops, REDIRECTS_MAX);
    }
}

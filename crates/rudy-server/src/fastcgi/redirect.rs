//! Local redirections: the server answers as if it had been asked for another path (RFC 3875 §6.2.2).

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Uri};
use rudy_net::{Request, RequestBody};

/// How many follow each other at most: as many as nginx allows, and more than any app means.
pub(super) const HOPS_MAX: u32 = 10;

/// How many redirections have led to a request. Stands among its extensions.
#[derive(Debug, Clone, Copy)]
struct Hops(u32);

/// The request for `target` that takes the place of the one with this head; `None` where there were too many before it.
///
/// It is a GET without a body, as the section has it, or a HEAD if that was asked; its host and its other fields are those of
/// the client.
pub(super) fn instead(head: &Parts, target: &str) -> Option<Request> {
    let hops = head.extensions.get::<Hops>().map_or(0, |hops| hops.0);
    // What is no target was refused when the answer was read.
    let target: PathAndQuery = target.parse().ok()?;
    if hops >= HOPS_MAX {
        return None;
    }
    let mut uri = head.uri.clone().into_parts();
    uri.path_and_query = Some(target);
    let mut request = Request::new(RequestBody::empty());
    *request.method_mut() = if head.method == Method::HEAD { Method::HEAD } else { Method::GET };
    *request.uri_mut() = Uri::from_parts(uri).ok()?;
    *request.version_mut() = head.version;
    *request.headers_mut() = head.headers.clone();
    for of_body in [CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING] {
        request.headers_mut().remove(of_body);
    }
    request.extensions_mut().insert(Hops(hops + 1));
    Some(request)
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
            let other = instead(&head(method, uri), "/thanks?id=1").unwrap();
            assert_eq!(
                (other.method().as_str(), other.uri().to_string().as_str()),
                (expected_method, expected_uri)
            );
            let mut names: Vec<_> = other.headers().keys().map(http::HeaderName::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, ["cookie", "host"]);
        }
    }

    #[test]
    fn what_goes_round_in_circles_ends() {
        let mut head = head("GET", "/");
        let mut hops = 0;
        while let Some(other) = instead(&head, "/again") {
            hops += 1;
            head = other.into_parts().0;
        }
        assert_eq!(hops, HOPS_MAX);
    }
}

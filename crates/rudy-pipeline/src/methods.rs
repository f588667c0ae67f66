//! The responses for HTTP methods that a handler does not support, for all handlers, and the method by which rules decide.
//!
//! The state machine of HTTP accepts any token as a method (RFC 9110 §9.1), so that a gateway can pass on unknown ones.

use http::{HeaderValue, Method, StatusCode, header};
use rudy_service::{Request, Response};

use crate::pages;

/// The methods of read-only resources.
pub const READ_METHODS: &str = "GET, HEAD, OPTIONS";

/// The methods that are passed to applications: those of RFC 9110 and PATCH, without CONNECT and TRACE.
pub const APP_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The IANA HTTP Method Registry without the reserved `*`, sorted.
const REGISTERED: [&str; 40] = [
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// Returns whether a method is registered. Methods are case-sensitive (RFC 9110 §9.1): `get` is not GET.
#[must_use]
pub fn is_known(method: &Method) -> bool {
    REGISTERED.binary_search(&method.as_str()).is_ok()
}

/// Returns the method by which rules and authorizers decide: GET for a tunnel over HTTP/2 (RFC 8441), which clients of HTTP/1.1 open
/// with GET, and which applications get as such. No other request has CONNECT.
#[must_use]
pub fn decisive(method: &Method) -> &Method {
    if *method == Method::CONNECT { &Method::GET } else { method }
}

/// Returns the response of a read-only resource to methods other than GET and HEAD, and `None` for those two.
///
/// It is 204 with Allow for OPTIONS, 405 with Allow for other registered methods, and 501 for the rest
/// (RFC 9110 §9.1, §15.5.6, §15.6.2).
pub fn respond_unless_read(request: &Request<'_>) -> Option<Response> {
    match *request.method() {
        Method::GET | Method::HEAD => None,
        _ => Some(method_not_allowed(request, READ_METHODS, "Method not allowed. Use GET or HEAD.")),
    }
}

/// Returns the response to an unsupported method, as [`respond_unless_read`] does. `allow` lists the supported methods and
/// OPTIONS; `explanation` is the text of the error page.
pub fn method_not_allowed(request: &Request<'_>, allow: &'static str, explanation: &str) -> Response {
    let mut response = match *request.method() {
        Method::OPTIONS => Response::new(StatusCode::NO_CONTENT),
        ref other if !is_known(other) => return not_implemented(request),
        _ => pages::error(StatusCode::METHOD_NOT_ALLOWED, request.headers(), explanation),
    };
    // RFC 9110 §15.5.6: MUST be in a 405.
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// Returns a 501 for an unregistered method, and `None` for the others.
pub fn reject_unknown_method(request: &Request<'_>) -> Option<Response> {
    (!is_known(request.method())).then(|| not_implemented(request))
}

fn not_implemented(request: &Request<'_>) -> Response {
    pages::error(StatusCode::NOT_IMPLEMENTED, request.headers(), "The server does not support this method.")
}

#[cfg(test)]
mod tests {
    use rudy_service::RequestBody;

    use super::*;

    #[test]
    fn the_registry_is_sorted() {
        assert!(REGISTERED.is_sorted());
    }

    #[test]
    fn a_read_only_resource_responds_to_every_method() {
        for (method, status, allow) in [
            ("GET", None, false),
            ("HEAD", None, false),
            ("OPTIONS", Some(204), true),
            ("POST", Some(405), true),
            ("PROPFIND", Some(405), true),
            ("QUERY", Some(405), true),
            ("BREW", Some(501), false),
            ("get", Some(501), false),
        ] {
            let request = http::Request::builder()
                .method(method)
                .body(RequestBody::empty())
                .map(Request::from)
                .unwrap();
            let response = respond_unless_read(&request);
            assert_eq!(response.as_ref().map(|response| response.status().as_u16()), status, "{method}");
            let has_allow = response.is_some_and(|response| response.headers().contains_key(header::ALLOW));
            assert_eq!(has_allow, allow, "{method}");
        }
    }
}

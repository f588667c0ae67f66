//! Which methods a resource answers, and what the others get: the one place for every handler.
//!
//! The protocol machine lets any token pass (RFC 9110 §9.1), so that a gateway can hand on what it does not know.

use http::{HeaderValue, Method, StatusCode, header};
use rudy_net::{Request, Response};

use crate::pages;

/// The methods of everything here that has a state to read and none to change.
pub(crate) const READ_METHODS: &str = "GET, HEAD, OPTIONS";

/// What an application may be asked, which decides itself: the methods of RFC 9110 and PATCH, without those of tunnels and
/// traces.
pub(crate) const APP_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The IANA HTTP Method Registry but for `*`, which is reserved; sorted.
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

/// Whether a method is one that anybody has heard of. Methods are case-sensitive (RFC 9110 §9.1): `get` is not GET.
pub(crate) fn is_known(method: &Method) -> bool {
    REGISTERED.binary_search(&method.as_str()).is_ok()
}

/// The answer for a resource that is only read, where the method already decides it; `None` for GET and HEAD.
///
/// OPTIONS gets 204 with Allow, a method that exists 405 with Allow, any other 501 (RFC 9110 §9.1, §15.5.6, §15.6.2).
pub(crate) fn respond_unless_read(request: &Request) -> Option<Response> {
    match *request.method() {
        Method::GET | Method::HEAD => None,
        _ => Some(method_not_allowed(request, READ_METHODS, "This is read: GET and HEAD.")),
    }
}

/// The answer to a method other than those that do something here, as for [`respond_unless_read`]. `allow` names those,
/// OPTIONS among them; `explanation` says it in words.
pub(crate) fn method_not_allowed(request: &Request, allow: &'static str, explanation: &str) -> Response {
    let mut response = match *request.method() {
        Method::OPTIONS => Response::new(StatusCode::NO_CONTENT),
        ref other if !is_known(other) => return unknown(request),
        _ => pages::error(StatusCode::METHOD_NOT_ALLOWED, request.headers(), explanation),
    };
    // RFC 9110 §15.5.6: MUST be in a 405.
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// The answer to a method that nobody has heard of, 501; `None` for the others.
pub(crate) fn reject_unknown_method(request: &Request) -> Option<Response> {
    (!is_known(request.method())).then(|| unknown(request))
}

fn unknown(request: &Request) -> Response {
    pages::error(StatusCode::NOT_IMPLEMENTED, request.headers(), "This method is not known here.")
}

#[cfg(test)]
mod tests {
    use rudy_net::RequestBody;

    use super::*;

    #[test]
    fn the_registry_is_sorted() {
        assert!(REGISTERED.is_sorted());
    }

    #[test]
    fn methods_meet_a_resource_that_is_only_read() {
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
            let request = http::Request::builder().method(method).body(RequestBody::empty()).unwrap();
            let answer = respond_unless_read(&request);
            assert_eq!(answer.as_ref().map(|answer| answer.status().as_u16()), status, "{method}");
            let has_allow = answer.is_some_and(|answer| answer.headers().contains_key(header::ALLOW));
            assert_eq!(has_allow, allow, "{method}");
        }
    }
}

//! Which methods a resource answers, and what the others get: the one place for every handler.
//!
//! The protocol machine lets any token pass (RFC 9110 §9.1), so that a gateway can hand on what it does not know.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rudy_http::h1::Prepared;
use rudy_net::{Body, Response};

/// The methods of everything here that has a state to read and none to change.
pub(crate) const READ_METHODS: &str = "GET, HEAD, OPTIONS";

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

/// The answer for a resource that is only read, where the method already decides it; `None` for GET and HEAD.
///
/// OPTIONS gets 204 with Allow, a method that exists 405 with Allow, any other 501 (RFC 9110 §9.1, §15.5.6, §15.6.2).
pub(crate) fn answer_unless_read(method: &Method) -> Option<Response> {
    match *method {
        Method::GET | Method::HEAD => None,
        Method::OPTIONS => Some(Response::prepared(ALLOW_READ.clone(), Body::Empty)),
        ref other => Some(answer_unless_known(other).unwrap_or_else(|| {
            Response::prepared(
                NOT_ALLOWED.clone(),
                Body::Bytes(Bytes::from_static(b"405 Method Not Allowed\n")),
            )
        })),
    }
}

/// The answer to a method that nobody has heard of, 501; `None` for the others.
pub(crate) fn answer_unless_known(method: &Method) -> Option<Response> {
    // Methods are case-sensitive (RFC 9110 §9.1): `get` is not GET.
    let known = REGISTERED.binary_search(&method.as_str()).is_ok();
    (!known).then(|| {
        Response::prepared(NOT_IMPLEMENTED.clone(), Body::Bytes(Bytes::from_static(b"501 Not Implemented\n")))
    })
}

static ALLOW_READ: LazyLock<Arc<Prepared>> = LazyLock::new(|| prepared(StatusCode::NO_CONTENT, true));
// RFC 9110 §15.5.6: a 405 MUST have Allow.
static NOT_ALLOWED: LazyLock<Arc<Prepared>> =
    LazyLock::new(|| prepared(StatusCode::METHOD_NOT_ALLOWED, true));
static NOT_IMPLEMENTED: LazyLock<Arc<Prepared>> =
    LazyLock::new(|| prepared(StatusCode::NOT_IMPLEMENTED, false));

fn prepared(status: StatusCode, allow: bool) -> Arc<Prepared> {
    let mut fields = HeaderMap::new();
    if allow {
        fields.insert(header::ALLOW, HeaderValue::from_static(READ_METHODS));
    }
    if status != StatusCode::NO_CONTENT {
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    Arc::new(Prepared::new(status, fields))
}

#[cfg(test)]
mod tests {
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
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let answer = answer_unless_read(&method);
            assert_eq!(answer.as_ref().map(|answer| answer.status().as_u16()), status, "{method}");
            let has_allow = answer.is_some_and(|answer| answer.headers().contains_key(header::ALLOW));
            assert_eq!(has_allow, allow, "{method}");
        }
    }
}

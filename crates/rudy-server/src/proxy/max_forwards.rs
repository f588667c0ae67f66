//! `Max-Forwards` (RFC 9110 §7.6.2): how many proxies an OPTIONS or a TRACE may still pass.

use http::Method;
use http::header::{HeaderMap, HeaderValue, MAX_FORWARDS};
use rudy_http::syntax::parse_digits_saturating;
use rudy_net::{Request, Response};

use crate::methods::{APP_METHODS, method_not_allowed};

/// Returns the response to a request that must not be passed on.
pub(super) fn response(request: &Request) -> Option<Response> {
    let explanation =
        "Method not allowed. Max-Forwards is 0, and this proxy does not respond to TRACE itself.";
    let is_last = hops(request.method(), request.headers()) == Some(0);
    is_last.then(|| method_not_allowed(request, APP_METHODS, explanation))
}

/// Counts this proxy.
pub(super) fn count_hop(method: &Method, fields: &mut HeaderMap) {
    if let Some(hops) = hops(method, fields) {
        fields.insert(MAX_FORWARDS, HeaderValue::from(hops.saturating_sub(1)));
    }
}

/// Other methods may ignore the field, and a value that is not a number means nothing.
fn hops(method: &Method, fields: &HeaderMap) -> Option<u64> {
    if !matches!(*method, Method::OPTIONS | Method::TRACE) {
        return None;
    }
    parse_digits_saturating(fields.get(MAX_FORWARDS)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use rudy_net::RequestBody;

    use super::*;

    #[test]
    fn options_and_trace_pass_as_many_proxies_as_they_may() {
        for (method, value, status, passed_on) in [
            ("OPTIONS", "0", Some(204), ""),
            ("TRACE", "0", Some(405), ""),
            ("OPTIONS", "1", None, "0"),
            ("TRACE", "10", None, "9"),
            ("OPTIONS", "many", None, "many"),
            ("OPTIONS", "-1", None, "-1"),
            ("GET", "0", None, "0"),
        ] {
            let request = http::Request::builder().method(method).header(MAX_FORWARDS, value);
            let mut request = request.body(RequestBody::empty()).unwrap();
            let responded = response(&request).map(|response| response.status().as_u16());
            assert_eq!(responded, status, "{method} {value}");
            if responded.is_none() {
                let method = request.method().clone();
                count_hop(&method, request.headers_mut());
                assert_eq!(request.headers()[MAX_FORWARDS], passed_on, "{method} {value}");
            }
        }
    }
}

//! `Max-Forwards` (RFC 9110 §7.6.2): how many proxies an OPTIONS or a TRACE may still pass.

use http::Method;
use http::header::{HeaderValue, MAX_FORWARDS};
use rudy_message::LazyHead;
use rudy_message::syntax::parse_digits_saturating;
use rudy_pipeline::methods::{APP_METHODS, method_not_allowed};
use rudy_service::{Request, Response};

/// Returns the response to a request that must not be passed on.
pub(super) fn response(request: &Request<'_>) -> Option<Response> {
    let explanation =
        "Method not allowed. Max-Forwards is 0, and this proxy does not respond to TRACE itself.";
    let is_last = hops(request) == Some(0);
    is_last.then(|| method_not_allowed(request, APP_METHODS, explanation))
}

/// Counts this proxy.
pub(super) fn count_hop(head: &mut LazyHead<'_>) {
    if let Some(hops) = hops(head) {
        head.set(MAX_FORWARDS, HeaderValue::from(hops.saturating_sub(1)));
    }
}

/// Other methods may ignore the field, and a value that is not a number means nothing.
fn hops(head: &LazyHead<'_>) -> Option<u64> {
    if !matches!(*head.method(), Method::OPTIONS | Method::TRACE) {
        return None;
    }
    parse_digits_saturating(head.get(&MAX_FORWARDS)?)
}

#[cfg(test)]
mod tests {
    use rudy_service::RequestBody;

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
            let mut request = request.body(RequestBody::empty()).map(Request::from).unwrap();
            let responded = response(&request).map(|response| response.status().as_u16());
            assert_eq!(responded, status, "{method} {value}");
            if responded.is_none() {
                count_hop(&mut request);
                assert_eq!(request.headers()[MAX_FORWARDS], passed_on, "{method} {value}");
            }
        }
    }
}

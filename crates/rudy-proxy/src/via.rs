//! `Via` (RFC 9110 §7.6.3): names this proxy to the upstream, and detects loops.

use std::sync::LazyLock;

use http::header::VIA;
use http::{HeaderMap, StatusCode, Version};
use rudy_client::with_proxy_status;
use rudy_message::LazyHead;
use rudy_message::semantics::field::{FieldLines, KnownField};
use rudy_message::syntax::members;
use rudy_pipeline::pages;
use rudy_runtime::random;
use rudy_service::Response;

/// How often a request may pass this process. Proxies of several sites on one machine may lead to each other; a loop does not end.
const PASSES_MAX: usize = 4;

/// The name of this process in `Via`. A random one tells nothing about the machine, and differs from that of every other proxy.
static PSEUDONYM: LazyLock<String> = LazyLock::new(|| format!("rudy-{:08x}", random::lasting_bits() >> 32));

/// The members for requests of HTTP/1.0, HTTP/1.1, HTTP/2 and HTTP/3.
static MEMBERS: LazyLock<[String; 4]> =
    LazyLock::new(|| ["1.0", "1.1", "2", "3"].map(|version| format!("{version} {}", *PSEUDONYM)));

/// Returns whether a request has passed this process too often.
pub(super) fn is_loop(head: &LazyHead<'_>) -> bool {
    let is_ours = |member: &&[u8]| member.ends_with(PSEUDONYM.as_bytes());
    head.has(KnownField::Via)
        && head.lines(KnownField::Via).flat_map(members).filter(is_ours).count() > PASSES_MAX
}

/// Returns the response to a request, with these fields, that leads to this server again and again.
pub(super) fn loop_detected(fields: &HeaderMap) -> Response {
    let explanation = "The request has passed this proxy too often: the proxy leads to itself.";
    let response = pages::error(StatusCode::LOOP_DETECTED, fields, explanation);
    with_proxy_status(response, "proxy_loop_detected")
}

/// Adds this process to `Via` of a request.
pub(super) fn add_via(head: &mut LazyHead<'_>) {
    let [http10, http11, http2, http3] = &*MEMBERS;
    let member = match head.version() {
        Version::HTTP_10 => http10,
        Version::HTTP_2 => http2,
        Version::HTTP_3 => http3,
        _ => http11,
    };
    head.add_text(&VIA, member.as_bytes());
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_that_has_passed_five_times_is_a_loop() {
        let mut head = LazyHead::default();
        head.set(VIA, HeaderValue::from_static("1.1 other, 1.1 rudy-other"));
        for pass in 1..=5 {
            assert!(!is_loop(&head), "{pass}");
            add_via(&mut head);
        }
        assert!(is_loop(&head));
    }
}

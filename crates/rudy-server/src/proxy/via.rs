//! `Via` (RFC 9110 §7.6.3): names this proxy to the upstream, and detects loops.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use http::Version;
use http::header::{HeaderMap, HeaderValue, VIA};
use rudy_http::syntax::members;

/// How often a request may pass this process. Proxies of several sites on one machine may lead to each other; a loop does not end.
const PASSES_MAX: usize = 4;

/// The name of this process in `Via`. A random one tells nothing about the machine, and differs from that of every other proxy.
static PSEUDONYM: LazyLock<String> =
    LazyLock::new(|| format!("rudy-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32));

/// The members for requests of HTTP/1.0, HTTP/1.1 and HTTP/2. Static, because all workers would count the clones of another value at
/// one place.
static MEMBERS: LazyLock<[HeaderValue; 3]> = LazyLock::new(|| {
    ["1.0", "1.1", "2"].map(|version| HeaderValue::from_static(format!("{version} {}", *PSEUDONYM).leak()))
});

/// Returns whether a request has passed this process too often.
pub(super) fn is_loop(fields: &HeaderMap) -> bool {
    let is_ours = |member: &&[u8]| member.ends_with(PSEUDONYM.as_bytes());
    fields.get_all(VIA).iter().flat_map(|line| members(line.as_bytes())).filter(is_ours).count() > PASSES_MAX
}

/// Adds this process to `Via` of a request that was received with `version`.
pub(super) fn add_via(fields: &mut HeaderMap, version: Version) {
    let [http10, http11, http2] = &*MEMBERS;
    let member = match version {
        Version::HTTP_10 => http10,
        Version::HTTP_2 => http2,
        _ => http11,
    };
    fields.append(VIA, member.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_has_passed_five_times_is_a_loop() {
        let mut fields = HeaderMap::new();
        fields.insert(VIA, HeaderValue::from_static("1.1 other, 1.1 rudy-other"));
        for pass in 1..=5 {
            assert!(!is_loop(&fields), "{pass}");
            add_via(&mut fields, Version::HTTP_11);
        }
        assert!(is_loop(&fields));
    }
}

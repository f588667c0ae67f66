//! The fields that pass a mirror, in both directions. All others are dropped: those of a client may be about the client, and those of
//! the repository may be about the origin that a browser sees, which is that of the mirror.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_RANGES, AGE, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING,
    CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    DATE, ETAG, EXPIRES, HOST, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER, SERVER, USER_AGENT, VARY, VIA, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The fields of a request that the repository receives. What is stored is for all clients.
static OF_CLIENT: [HeaderName; 13] = [
    ACCEPT,
    ACCEPT_ENCODING,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    HOST,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    RANGE,
    USER_AGENT,
    VIA,
];

/// The fields of a response that a client receives: those that describe the content, and those for caches. The repository would set
/// others for the mirror: cookies, `Strict-Transport-Security`, `Clear-Site-Data`, `Alt-Svc`, permissions.
static OF_REPOSITORY: [HeaderName; 28] = [
    ACCEPT_RANGES,
    AGE,
    ALLOW,
    CACHE_CONTROL,
    HeaderName::from_static("cache-status"),
    HeaderName::from_static("cdn-cache-control"),
    HeaderName::from_static("content-digest"),
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LENGTH,
    CONTENT_LOCATION,
    HeaderName::from_static("content-md5"),
    CONTENT_RANGE,
    CONTENT_TYPE,
    DATE,
    HeaderName::from_static("digest"),
    ETAG,
    EXPIRES,
    LAST_MODIFIED,
    LOCATION,
    HeaderName::from_static("npm-notice"),
    HeaderName::from_static("repr-digest"),
    RETRY_AFTER,
    SERVER,
    VARY,
    VIA,
    WARNING,
];

/// The starts of further names: checksums of Maven repositories, which Maven and Gradle verify, and the serial numbers of `PyPI`.
const STARTS_OF_REPOSITORY: [&str; 2] = [CHECKSUMS, "x-pypi-"];

/// The start of the names of fields with checksums of the content.
pub(super) const CHECKSUMS: &str = "x-checksum-";

/// A page of a package is no page of the mirror: it runs no scripts, and loads nothing. Links and downloads work.
const POLICY: HeaderValue =
    HeaderValue::from_static("sandbox allow-downloads; default-src 'none'; style-src 'unsafe-inline'");

/// Returns the fields of a client's request for the repository.
pub(super) fn of_client(fields: &HeaderMap) -> HeaderMap {
    let lines = OF_CLIENT.iter().flat_map(|name| fields.get_all(name).iter().map(move |value| (name, value)));
    let mut passed_on = HeaderMap::new();
    for (name, value) in lines {
        passed_on.append(name, value.clone());
    }
    passed_on
}

/// Keeps the fields of a response that are about its content, and makes the content passive in browsers.
pub(super) fn protect(fields: &mut HeaderMap) {
    remove(fields, |name| {
        let is_kept = OF_REPOSITORY.contains(name)
            || STARTS_OF_REPOSITORY.iter().any(|start| name.as_str().starts_with(start));
        !is_kept
    });
    fields.insert(CONTENT_SECURITY_POLICY, POLICY);
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Removes fields by their names.
pub(super) fn remove(fields: &mut HeaderMap, is_removed: impl Fn(&HeaderName) -> bool) {
    let removed: Vec<_> = fields.keys().filter(|name| is_removed(name)).cloned().collect();
    for name in removed {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_about_the_origin_of_a_repository_do_not_reach_clients() {
        let names = |text: &'static str| {
            text.split_whitespace().map(|name| (HeaderName::from_static(name), HeaderValue::from_static("x")))
        };
        let kept = "content-type etag x-checksum-sha1 x-pypi-last-serial npm-notice cache-status location";
        let dropped = "set-cookie strict-transport-security clear-site-data alt-svc public-key-pins nel report-to \
                       reporting-endpoints service-worker-allowed link refresh access-control-allow-origin \
                       content-security-policy-report-only permissions-policy www-authenticate x-accel-redirect \
                       x-sendfile origin-agent-cluster accept-ch critical-ch sourcemap speculation-rules x-unknown";
        let mut fields: HeaderMap = names(kept).chain(names(dropped)).collect();
        fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("script-src *"));
        protect(&mut fields);
        let policy = fields.remove(CONTENT_SECURITY_POLICY);
        assert!(policy.is_some_and(|policy| policy.to_str().unwrap().starts_with("sandbox")));
        assert_eq!(fields.remove(X_CONTENT_TYPE_OPTIONS).unwrap(), "nosniff");
        assert_eq!(fields, names(kept).collect::<HeaderMap>());
    }
}

//! The fields that are stored (RFC 9111 §3.1), and their update (§3.2).

use http::header::{
    AGE, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use rudy_message::syntax::members;

use crate::directives::ResponseDirectives;
use crate::policy::Policy;

/// Fields that are not stored, whatever they contain.
///
/// §3.1: those of the connection, of RFC 9110 §7.6.1, and of a proxy. `Age` is generated for each response (§4), and trailers are
/// not stored. All other fields are, also unknown ones, and `Warning`, which §5.5 made an ordinary field.
static NEVER_STORED: [HeaderName; 11] = [
    AGE,
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Whether a field is about the connection, or about the transfer of the content, which the cache repeats in its own way.
fn is_framing(name: &HeaderName) -> bool {
    NEVER_STORED.contains(name) || *name == CONTENT_LENGTH || *name == CONTENT_RANGE
}

/// Returns the fields of a response that a shared cache may store. A `Set-Cookie` among them forbids to store it.
pub(crate) fn stored_fields(fields: &HeaderMap, directives: &ResponseDirectives) -> HeaderMap {
    let mut stored = fields.clone();
    for line in fields.get_all(CONNECTION) {
        for option in members(line.as_bytes()) {
            if let Ok(name) = HeaderName::from_bytes(option) {
                stored.remove(name);
            }
        }
    }
    for name in &NEVER_STORED {
        stored.remove(name);
    }
    remove_qualified(&mut stored, directives);
    stored
}

/// §5.2.2.4 and §5.2.2.7: fields that `no-cache` or `private` name MUST NOT be sent without validation, or stored at all. None
/// of them is stored.
pub(crate) fn remove_qualified(fields: &mut HeaderMap, directives: &ResponseDirectives) {
    for name in directives.no_cache.fields().iter().chain(directives.private.fields()) {
        fields.remove(name);
    }
}

impl Policy {
    /// Returns the lines of a response that are for the client of its request alone: it receives them, but they are not stored, and no
    /// other client gets them. They are the fields that `no-cache` or `private` names, and a `Set-Cookie`, also of a 304, unless the settings
    /// remove it. `stored` has the directives beside those of the response: those of the object that a 304 has updated.
    #[must_use]
    pub fn unshared_fields(&self, response: &HeaderMap, stored: &HeaderMap) -> HeaderMap {
        let mut unshared = HeaderMap::new();
        for directives in [self.of_origin(response), self.of_origin(stored)] {
            let named = directives.no_cache.fields().iter().chain(directives.private.fields());
            let own = named.chain([&SET_COOKIE]);
            let is_removed = |name: &HeaderName| self.remove_set_cookie && *name == SET_COOKIE;
            for name in own.filter(|name| !is_framing(name) && !is_removed(name)) {
                unshared.remove(name);
                unshared.extend(response.get_all(name).iter().map(|line| (name.clone(), line.clone())));
            }
        }
        unshared
    }

    /// Updates stored fields with those of a newer response, which replace all lines of the same name (§3.2). What says how to read the
    /// stored bytes remains: their length, part and coding, as in Varnish. A `Content-Type` may be corrected.
    pub(crate) fn update_fields(stored: &mut HeaderMap, newer: &HeaderMap) {
        let newer = stored_fields(newer, &ResponseDirectives::default());
        let is_kept =
            |name: &HeaderName| [CONTENT_LENGTH, CONTENT_RANGE, CONTENT_ENCODING, SET_COOKIE].contains(name);
        for name in newer.keys().filter(|name| !is_kept(name)) {
            stored.remove(name);
            for line in newer.get_all(name) {
                stored.append(name, line.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter();
        lines.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn section_3_1_all_fields_are_stored_except_those_of_the_connection_and_the_proxy() {
        let received = fields(&[
            ("age", "5"),
            ("connection", "close, X-Hop"),
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic"),
            ("set-cookie", "a=1"),
            ("te", "trailers"),
            ("trailer", "x-late"),
            ("transfer-encoding", "chunked"),
            ("warning", "199 - \"a\""),
            ("x-hop", "1"),
            ("x-private", "1"),
            ("x-unknown", "1"),
            ("x-unknown", "2"),
            ("cache-control", "private=\"x-private\", no-cache=\"set-cookie\""),
        ]);
        let stored = stored_fields(&received, &ResponseDirectives::parse(&received, &[]));
        let expected = fields(&[
            ("warning", "199 - \"a\""),
            ("x-unknown", "1"),
            ("x-unknown", "2"),
            ("cache-control", "private=\"x-private\", no-cache=\"set-cookie\""),
        ]);
        assert_eq!(stored, expected);
    }

    #[test]
    fn section_5_2_2_the_client_of_the_request_receives_what_is_not_stored() {
        let received = fields(&[
            ("cache-control", "private=\"x-user, connection, content-length\""),
            ("connection", "x"),
            ("content-length", "5"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=1"),
            ("x-shared", "1"),
            ("x-stored", "2"),
            ("x-user", "1"),
        ]);
        let stored = fields(&[("cache-control", "no-cache=\"x-stored\"")]);
        let unshared = Policy::default().unshared_fields(&received, &stored);
        let expected =
            fields(&[("set-cookie", "a=1"), ("set-cookie", "b=1"), ("x-stored", "2"), ("x-user", "1")]);
        assert_eq!(unshared, expected);
        let removing = Policy { remove_set_cookie: true, ..Policy::default() };
        let expected = fields(&[("x-stored", "2"), ("x-user", "1")]);
        assert_eq!(removing.unshared_fields(&received, &stored), expected);
        let named = fields(&[("cache-control", "private=\"set-cookie\""), ("set-cookie", "a=1")]);
        assert!(removing.unshared_fields(&named, &stored).is_empty());
    }

    #[test]
    fn section_3_2_newer_fields_replace_all_lines_except_those_about_the_stored_bytes() {
        let mut stored = fields(&[
            ("x-a", "1"),
            ("x-a", "2"),
            ("x-b", "1"),
            ("content-length", "5"),
            ("content-type", "a/b"),
        ]);
        let newer = fields(&[
            ("x-a", "3"),
            ("x-c", "1"),
            ("x-c", "2"),
            ("content-length", "0"),
            ("content-range", "bytes 0-0/5"),
            ("content-encoding", "gzip"),
            ("content-type", "a/c"),
            ("age", "5"),
            ("set-cookie", "a=1"),
            ("connection", "x-d"),
            ("x-d", "1"),
        ]);
        Policy::update_fields(&mut stored, &newer);
        let expected = fields(&[
            ("x-a", "3"),
            ("x-b", "1"),
            ("x-c", "1"),
            ("x-c", "2"),
            ("content-length", "5"),
            ("content-type", "a/c"),
        ]);
        assert_eq!(stored, expected);
    }
}

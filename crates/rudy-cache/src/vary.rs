//! The fields by which a response was selected (RFC 9111 §4.1).

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};
use rudy_message::semantics::field::{FieldLines, KnownField};
use rudy_message::semantics::negotiation::{AcceptedCodings, Coding};
use rudy_message::syntax::members;

/// The part of a request that `Vary` names: only requests with the same values can use the response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variant {
    /// Sorted, without repetitions.
    pub(crate) names: Vec<HeaderName>,
    /// The values of these fields in the request that led to the response.
    pub(crate) key: Vec<u8>,
}

impl Variant {
    /// Returns the variant of a response to a request. `None` if no other request can use the response: `Vary` has a member `*`,
    /// or one that is not a field name. A response with a content coding depends on `Accept-Encoding` even if its `Vary` omits that:
    /// clients that do not accept the coding cannot use it.
    #[must_use]
    pub fn new(request: &HeaderMap, response: &HeaderMap) -> Option<Self> {
        let lines = response.get_all(VARY).iter();
        let names = lines.flat_map(|line| members(line.as_bytes())).map(|name| {
            // "*" is a token too.
            HeaderName::from_bytes(name).ok().filter(|_| name != b"*")
        });
        let mut names = names.collect::<Option<Vec<_>>>()?;
        if codings(response).next().is_some() {
            names.push(ACCEPT_ENCODING);
        }
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        let key = key(&names, request);
        Some(Self { names, key })
    }

    /// Returns the variant of a request by fields with these names, which [`Variant::names`] returned.
    #[must_use]
    pub fn of_request(names: &[HeaderName], request: &HeaderMap) -> Self {
        Self { names: names.to_vec(), key: key(names, request) }
    }

    /// Returns the names of the fields, sorted.
    #[must_use]
    pub fn names(&self) -> &[HeaderName] {
        &self.names
    }

    /// Returns the variant of another request, by the same fields.
    #[must_use]
    pub fn select(&self, request: &HeaderMap) -> Self {
        Self::of_request(&self.names, request)
    }

    /// Whether the request has the same values.
    #[must_use]
    pub fn matches(&self, request: &HeaderMap) -> bool {
        !self.is_specific() || key(&self.names, request) == self.key
    }

    /// As [`Variant::matches`], for a response that an earlier version of Rudy may have stored: its coding, which `Vary` did not
    /// name, has to be acceptable.
    pub(crate) fn suits(&self, request: &HeaderMap, response: &HeaderMap) -> bool {
        let is_by_coding = self.names.contains(&ACCEPT_ENCODING);
        self.matches(request) && (is_by_coding || accepts_codings(request, response))
    }

    /// As [`Variant::matches`], for a view of a request. `None` if the response depends on another field than `Accept-Encoding`.
    #[must_use]
    pub fn matches_view(&self, fields: &impl FieldLines) -> Option<bool> {
        match self.names.as_slice() {
            [] => Some(true),
            [name] if *name == ACCEPT_ENCODING => {
                let accepted = canonical_codings(fields).as_bytes();
                // See `push_value`.
                let key = self.key.strip_prefix(b"\x01").and_then(|key| key.strip_suffix(b"\0"));
                Some(key == Some(accepted))
            }
            _ => None,
        }
    }

    /// Whether the response depends on any field.
    pub(crate) fn is_specific(&self) -> bool {
        !self.names.is_empty()
    }
}

/// Returns the values of the fields in a request.
///
/// §4.1: values match if they differ only in the division into lines. A missing field matches only a missing one. Nothing else is
/// normalised except `Accept-Encoding`: whitespace and case have a meaning in some fields.
fn key(names: &[HeaderName], request: &HeaderMap) -> Vec<u8> {
    let mut key = Vec::new();
    for name in names {
        if *name == ACCEPT_ENCODING {
            push_value(&mut key, [&accept_encoding(request)]);
        } else {
            push_value(&mut key, request.get_all(name));
        }
    }
    key
}

/// Appends the lines of a field as one value (RFC 9110 §5.3). A value has no control characters, so the marks around it are clear.
fn push_value<'a>(key: &mut Vec<u8>, lines: impl IntoIterator<Item = &'a HeaderValue>) {
    let mut separator: &[u8] = b"\x01";
    for line in lines {
        key.extend_from_slice(separator);
        key.extend_from_slice(line.as_bytes());
        separator = b", ";
    }
    key.push(0);
}

/// Returns `Accept-Encoding` reduced to the codings that Rudy knows, without weights and in one order.
///
/// Browsers send a dozen spellings of the same set. The request to the origin has this value too, so the response is acceptable to
/// the client, and one stored response serves all these spellings.
#[must_use]
pub fn accept_encoding(request: &HeaderMap) -> HeaderValue {
    HeaderValue::from_static(canonical_codings(request))
}

/// Returns the content codings of a response (RFC 9110 §8.4). Some origins list identity, which is none.
fn codings(response: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = response.get_all(CONTENT_ENCODING).iter();
    lines.flat_map(|line| members(line.as_bytes())).filter(|name| !name.eq_ignore_ascii_case(b"identity"))
}

/// Adds `Accept-Encoding` to the `Vary` of a response with a content coding, for the caches of clients.
pub(crate) fn add_coding(response: &mut HeaderMap) {
    let names_coding = |line: &HeaderValue| {
        members(line.as_bytes()).any(|name| name.eq_ignore_ascii_case(ACCEPT_ENCODING.as_str().as_bytes()))
    };
    let is_named = response.get_all(VARY).iter().any(names_coding);
    if !is_named && codings(response).next().is_some() {
        response.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

/// Whether a client accepts the codings of a response, all of which have to be known.
fn accepts_codings(request: &HeaderMap, response: &HeaderMap) -> bool {
    let accepted = AcceptedCodings::parse(request.get_all(ACCEPT_ENCODING));
    codings(response).all(|name| {
        let is = |coding: &Coding| name.eq_ignore_ascii_case(coding.name().as_bytes());
        // RFC 9110 §8.4.1.3.
        let gzip = name.eq_ignore_ascii_case(b"x-gzip").then_some(Coding::Gzip);
        let coding = gzip.or_else(|| Coding::COMPRESSED.into_iter().find(is));
        coding.is_some_and(|coding| accepted.accepts(coding))
    })
}

fn canonical_codings(fields: &impl FieldLines) -> &'static str {
    let accepted = AcceptedCodings::parse(fields.lines(KnownField::AcceptEncoding));
    let [brotli, zstd, gzip] =
        [Coding::Brotli, Coding::Zstd, Coding::Gzip].map(|coding| accepted.accepts(coding));
    match (brotli, zstd, gzip) {
        (false, false, false) => "identity",
        (false, false, true) => "gzip",
        (false, true, false) => "zstd",
        (false, true, true) => "zstd, gzip",
        (true, false, false) => "br",
        (true, false, true) => "br, gzip",
        (true, true, false) => "br, zstd",
        (true, true, true) => "br, zstd, gzip",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter();
        lines.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn variant(vary: &'static str, request: &[(&'static str, &'static str)]) -> Option<Variant> {
        Variant::new(&fields(request), &fields(&[("vary", vary)]))
    }

    #[test]
    fn section_4_1_a_request_matches_if_all_named_fields_match() {
        for (vary, first, second, expected) in [
            ("", &[("a", "1")][..], &[][..], true),
            ("a", &[("a", "1"), ("b", "1")], &[("a", "1"), ("b", "2")], true),
            ("a", &[("a", "1")], &[("a", "2")], false),
            ("A, b", &[("a", "1"), ("b", "1")], &[("a", "1"), ("b", "2")], false),
            ("a", &[("a", "1")], &[], false),
            ("a", &[], &[], true),
            ("a", &[("a", "")], &[], false),
            ("a, b", &[("a", "1")], &[("b", "1")], false),
            ("a", &[("a", "1"), ("a", "2")], &[("a", "1, 2")], true),
            ("a", &[("a", "1"), ("a", "2")], &[("a", "2, 1")], false),
            ("a", &[("a", "x y")], &[("a", "X y")], false),
        ] {
            let variant = variant(vary, first).unwrap();
            assert_eq!(variant.matches(&fields(second)), expected, "{vary}: {first:?} {second:?}");
        }
    }

    #[test]
    fn section_4_1_an_asterisk_matches_no_request() {
        for vary in ["*", "a, *", "a b", "\u{e9}"] {
            let line = HeaderValue::from_bytes(vary.as_bytes()).unwrap();
            let response = HeaderMap::from_iter([(VARY, line)]);
            assert_eq!(Variant::new(&HeaderMap::new(), &response), None, "{vary}");
        }
    }

    #[test]
    fn the_names_in_vary_are_a_set() {
        assert_eq!(variant("a, B,,a", &[("a", "1")]), variant("b, A", &[("a", "1")]));
    }

    #[test]
    fn accept_encoding_is_reduced_to_a_set() {
        for (first, second, same) in [
            ("gzip, deflate, br", "br;q=1.0, gzip;q=0.8, *;q=0.1, zstd;q=0", true),
            ("gzip", "x-gzip", true),
            ("gzip", "gzip, br", false),
            ("deflate", "identity", true),
            ("", "gzip;q=0", true),
        ] {
            let variant = variant("accept-encoding", &[("accept-encoding", first)]).unwrap();
            assert_eq!(variant.matches(&fields(&[("accept-encoding", second)])), same, "{first} | {second}");
        }
        let none = variant("accept-encoding", &[]).unwrap();
        assert!(none.matches(&fields(&[("accept-encoding", "identity")])));
        assert_eq!(accept_encoding(&fields(&[("accept-encoding", "gzip, zstd;q=0.5")])), "zstd, gzip");
    }

    #[test]
    fn a_response_with_a_coding_is_only_for_those_that_get_it_from_the_origin() {
        for (coding, vary, first, second, expected) in [
            ("gzip", "", "gzip", "gzip;q=0.5", true),
            ("gzip", "", "gzip", "", false),
            ("gzip", "", "gzip", "identity", false),
            ("GZIP", "a", "gzip", "br", false),
            ("br", "", "br, gzip", "gzip", false),
            ("zstd", "accept-encoding", "zstd", "", false),
            ("x-gzip", "", "identity", "", true),
            ("custom, gzip", "", "gzip", "", false),
            ("identity", "", "gzip", "", true),
            ("", "", "gzip", "", true),
        ] {
            let response = [("content-encoding", coding), ("vary", vary)];
            let [first, second] = [first, second].map(|accepted| fields(&[("accept-encoding", accepted)]));
            let mut response = fields(&response);
            let variant = Variant::new(&first, &response).unwrap();
            assert_eq!(variant.matches(&second), expected, "{coding} {vary}: {first:?} {second:?}");
            assert_eq!(variant.matches_view(&second), (vary != "a").then_some(expected), "{coding} {vary}");
            add_coding(&mut response);
            assert_eq!(Variant::new(&first, &response), Some(variant), "its Vary names the coding");
        }
    }

    #[test]
    fn a_coding_that_an_earlier_version_has_stored_for_all_has_to_be_acceptable() {
        for (coding, accepted, expected) in [
            ("gzip", "gzip", true),
            ("x-gzip", "*", true),
            ("gzip", "", false),
            ("gzip", "gzip;q=0, br", false),
            ("gzip, br", "gzip", false),
            ("gzip, br", "br, gzip", true),
            ("custom", "gzip, custom", false),
            ("identity", "", true),
        ] {
            let request = fields(&[("accept-encoding", accepted)]);
            let response = fields(&[("content-encoding", coding)]);
            assert_eq!(Variant::default().suits(&request, &response), expected, "{coding} {accepted}");
        }
    }

    #[test]
    fn a_view_of_a_request_matches_as_the_request_does() {
        for accepted in ["", "gzip", "br, gzip", "identity"] {
            let stored = variant("accept-encoding", &[("accept-encoding", accepted)]).unwrap();
            for other in ["", "gzip", "gzip, br;q=0.5"] {
                let request = fields(&[("accept-encoding", other)]);
                assert_eq!(
                    stored.matches_view(&request),
                    Some(stored.matches(&request)),
                    "{accepted} | {other}"
                );
            }
        }
        assert_eq!(variant("", &[]).unwrap().matches_view(&fields(&[])), Some(true));
        assert_eq!(variant("accept-encoding, a", &[]).unwrap().matches_view(&fields(&[])), None);
    }
}

//! A request as the decisions of the cache see it.

use std::sync::Arc;

use http::header::{ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE, RANGE, UPGRADE, VARY};
use http::uri::Scheme;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body::Body as _;
use rudy_cache::{Key, Policy};
use rudy_http::RawTarget;
use rudy_http::semantics::negotiation::preferred_language;
use rudy_net::{Client, Observer, RequestBody};

use super::flights::InFlight;
use super::table::{CacheTable, names};
use crate::internal_redirect::{ErrorPageFor, OriginalTarget};
use crate::routing::request_host;
use crate::steps::is_of_user;

/// A field of no request: its value is what the response depends on besides the URL and the fields in `Vary`.
static KEY_FIELD: HeaderName = HeaderName::from_static("rudy-cache-key");

/// What a stored response depends on besides the URL and its own `Vary`.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyRules {
    headers: Vec<HeaderName>,
    cookies: Vec<String>,
    bypass: Vec<String>,
    /// Empty if `Accept-Language` is left as it is.
    languages: Vec<String>,
}

/// The URL of the origin, in the extensions of a request whose key it is: clients may have different names for a mirror.
#[derive(Debug, Clone)]
pub(crate) struct KeyUrl {
    is_secure: bool,
    authority: String,
    target: String,
}

impl KeyUrl {
    /// `origin` is a scheme with a host, `https://repo.example`.
    pub(crate) fn new(origin: &str, target: &str) -> Self {
        let (scheme, authority) = origin.split_once("://").unwrap_or(("http", origin));
        Self { is_secure: scheme == "https", authority: authority.to_owned(), target: target.to_owned() }
    }
}

/// Returns the key of a request.
pub(super) fn key(policy: &Policy, request: &Request<RequestBody>, client: &Client<'_>) -> Key {
    if let Some(url) = request.extensions().get::<KeyUrl>() {
        return policy.key(url.is_secure, url.authority.as_bytes(), url.target.as_bytes());
    }
    let is_secure = client.scheme() == Scheme::HTTPS;
    policy.key(is_secure, request_host(request), target(request.uri(), request.extensions()))
}

/// A request: its key, and its fields for the decisions.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) key: Key,
    /// The request with the fields that the decisions need. It is not sent to the origin.
    pub(super) head: Request<()>,
    /// Whether no other request waits for the response to this one, which is probably not for others, and this one waits for no other.
    pub(super) is_exclusive: bool,
    /// The observer of the exchange with the client.
    pub(super) observer: Option<Arc<dyn Observer>>,
}

impl KeyRules {
    pub(super) fn new(table: &CacheTable) -> Self {
        let headers = table.key_headers.as_ref().map_or(&[][..], |names| names.as_slice());
        let languages = table.languages.as_ref().map_or(&[][..], |languages| languages.as_slice());
        Self {
            headers: headers.iter().map(|field| field.0.clone()).collect(),
            cookies: names(table.key_cookies.as_ref()),
            bypass: names(table.bypass_cookies.as_ref()),
            languages: languages.iter().map(|language| language.0.clone()).collect(),
        }
    }

    /// Whether a request must not use the cache.
    pub(super) fn bypasses(&self, request: &Request<RequestBody>) -> bool {
        let (fields, extensions) = (request.headers(), request.extensions());
        // The method is checked by the decisions. The page of an error depends on the error.
        fields.contains_key(UPGRADE)
            || !request.body().is_end_stream()
            || extensions.get::<ErrorPageFor>().is_some()
            || self.has_bypass_cookie(fields)
    }

    pub(super) fn has_bypass_cookie(&self, fields: &HeaderMap) -> bool {
        let is_listed = |name: &[u8]| self.bypass.iter().any(|pattern| matches(pattern, name));
        !self.bypass.is_empty()
            && fields
                .get_all(COOKIE)
                .iter()
                .any(|line| cookies(line.as_bytes()).any(|(name, _)| is_listed(name)))
    }

    /// Reduces `Accept-Language` to the best of the languages, if there is a list of them.
    pub(super) fn reduce_languages(&self, fields: &mut HeaderMap) {
        if self.languages.is_empty() {
            return;
        }
        let lines = fields.get_all(ACCEPT_LANGUAGE).iter().map(HeaderValue::as_bytes);
        match preferred_language(lines, &self.languages).map(HeaderValue::from_str) {
            Some(Ok(language)) => drop(fields.insert(ACCEPT_LANGUAGE, language)),
            _ => drop(fields.remove(ACCEPT_LANGUAGE)),
        }
    }

    /// Whether a request without its fields is enough to find the response.
    pub(super) fn need_cookies(&self) -> bool {
        !self.bypass.is_empty() || !self.cookies.is_empty()
    }

    /// Adds what the response depends on by these rules to its `Vary`, for the decisions only.
    pub(super) fn add_vary(&self, subject: &Subject, response: &mut HeaderMap) {
        for name in &self.headers {
            response.append(VARY, HeaderValue::from_name(name.clone()));
        }
        if subject.head.headers().contains_key(&KEY_FIELD) {
            response.append(VARY, HeaderValue::from_name(KEY_FIELD.clone()));
        }
    }

    /// Returns a request as a subject.
    pub(super) fn subject(
        &self,
        policy: &Policy,
        request: &Request<RequestBody>,
        client: &Client<'_>,
    ) -> Subject {
        let (uri, extensions) = (request.uri(), request.extensions());
        let key = key(policy, request, client);
        let mut head = Request::new(());
        *head.method_mut() = request.method().clone();
        *head.headers_mut() = request.headers().clone();
        let has_identity =
            is_of_user(extensions) || client.tls.as_ref().is_some_and(|tls| tls.client_certificate.is_some());
        let fields = head.headers_mut();
        fields.remove(&KEY_FIELD);
        if has_identity && !fields.contains_key(AUTHORIZATION) {
            // For the decisions, it is a request with credentials (RFC 9111 §3.5).
            fields.insert(AUTHORIZATION, HeaderValue::from_static("-"));
        }
        let is_rewritten = extensions.get::<OriginalTarget>().is_some();
        let rewritten = uri.path_and_query().filter(|_| is_rewritten);
        let rewritten = rewritten.map(|target| policy.query.apply(target.as_str().as_bytes()));
        if let Some(value) = self.key_value(fields, rewritten) {
            fields.insert(&KEY_FIELD, value);
        }
        let is_exclusive = *head.method() != Method::GET
            || head.headers().contains_key(RANGE)
            || (!policy.ignore_authorization && head.headers().contains_key(AUTHORIZATION))
            || (!policy.ignore_client && has_no_store(head.headers()))
            || extensions.get::<InFlight>().is_some();
        Subject { key, head, is_exclusive, observer: client.observer.clone() }
    }

    /// Returns the value of [`KEY_FIELD`]: the cookies, and the target after a rewrite, which may depend on fields of the request.
    fn key_value(&self, fields: &HeaderMap, rewritten: Option<Vec<u8>>) -> Option<HeaderValue> {
        if self.cookies.is_empty() && rewritten.is_none() {
            return None;
        }
        let mut value = rewritten.unwrap_or_default();
        let lines = fields.get_all(COOKIE).iter();
        for (name, content) in lines.flat_map(|line| cookies(line.as_bytes())) {
            if self.cookies.iter().any(|pattern| matches(pattern, name)) {
                value.extend_from_slice(b";");
                value.extend_from_slice(name);
                value.extend_from_slice(b"=");
                value.extend_from_slice(content);
            }
        }
        // Parts of fields and of a URI, which are field characters.
        HeaderValue::from_bytes(&value).ok()
    }
}

/// Returns the target as the client sent it.
pub(super) fn target<'a>(uri: &'a Uri, extensions: &'a Extensions) -> &'a [u8] {
    if let Some(original) = extensions.get::<OriginalTarget>() {
        return &original.0;
    }
    match extensions.get::<RawTarget>() {
        Some(raw) => raw.path_and_query(),
        None => uri.path_and_query().map_or(b"/", |target| target.as_str().as_bytes()),
    }
}

/// Replaces the lines of `Vary` that [`KeyRules::add_vary`] added by what clients and other caches understand.
pub(super) fn public_vary(fields: &mut HeaderMap) {
    let is_ours = |line: &HeaderValue| line == KEY_FIELD.as_str();
    if !fields.get_all(VARY).iter().any(is_ours) {
        return;
    }
    let lines: Vec<_> = fields.get_all(VARY).iter().filter(|line| !is_ours(line)).cloned().collect();
    fields.insert(VARY, HeaderValue::from_static("Cookie"));
    for line in lines {
        fields.append(VARY, line);
    }
}

/// Whether a response depends on fields that the proxy sets itself, so that those of the client are not what the origin received.
pub(super) fn varies_by_client(response: &HeaderMap) -> bool {
    let lines = response.get_all(VARY).iter();
    let mut names = lines.flat_map(|line| rudy_http::syntax::members(line.as_bytes()));
    names.any(|name| {
        let name = name.to_ascii_lowercase();
        ["forwarded", "via", "x-real-ip"].iter().any(|own| name == own.as_bytes())
            || name.starts_with(b"x-forwarded-")
            || name.starts_with(b"client-cert")
    })
}

/// Whether the client forbids to store the response (RFC 9111 §5.2.1.5).
fn has_no_store(fields: &HeaderMap) -> bool {
    let lines = fields.get_all(http::header::CACHE_CONTROL).iter();
    let mut members = lines.flat_map(|line| rudy_http::syntax::members(line.as_bytes()));
    members.any(|member| member.eq_ignore_ascii_case(b"no-store"))
}

/// Iterates over the cookies in a line, each a name and a value (RFC 6265 §4.2.1).
fn cookies(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|byte| *byte == b';').map(|pair| {
        let pair = pair.trim_ascii();
        let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (pair[..equals].trim_ascii_end(), pair[equals..].strip_prefix(b"=").unwrap_or_default())
    })
}

/// Whether a name matches a pattern, which may end with `*`.
fn matches(pattern: &str, name: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(table: &str) -> KeyRules {
        KeyRules::new(&crate::config::from_text::<CacheTable>(table).unwrap())
    }

    fn subject(rules: &KeyRules, target: &str, fields: &[(&str, &str)]) -> Subject {
        let mut request = Request::get(target).header("host", "A.org");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(RequestBody::empty()).unwrap();
        rules.subject(&Policy::default(), &request, &Client::new(rudy_net::Peer::Unix, 1, 1))
    }

    #[test]
    fn listed_cookies_bypass_the_cache() {
        let rules = rules("bypass_cookies = ['session*', 'user']");
        for (cookie, expected) in [
            ("a=b", false),
            ("a=b; session_id=1", true),
            ("sessio=1; users=2", false),
            ("user=", true),
            (" user =1", true),
            ("a=session", false),
        ] {
            let fields = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(cookie))]);
            assert_eq!(rules.has_bypass_cookie(&fields), expected, "{cookie}");
        }
    }

    #[test]
    fn chosen_fields_and_cookies_select_the_response() {
        let rules = rules("key_headers = ['X-A']\nkey_cookies = ['lang']");
        let first = subject(&rules, "/", &[("x-a", "1"), ("cookie", "lang=de; id=1")]);
        let mut response = HeaderMap::new();
        rules.add_vary(&first, &mut response);
        let variant = rudy_cache::Variant::new(first.head.headers(), &response).unwrap();
        for (a, cookie, expected) in [
            ("1", "id=2; lang=de", true),
            ("1", "lang=en", false),
            ("2", "lang=de", false),
            ("1", "a=1", false),
        ] {
            let other = subject(&rules, "/", &[("x-a", a), ("cookie", cookie)]);
            assert_eq!(variant.matches(other.head.headers()), expected, "{a} {cookie}");
        }
        public_vary(&mut response);
        let lines: Vec<_> = response.get_all(VARY).iter().collect();
        assert_eq!(lines, ["Cookie", "x-a"]);
    }

    #[test]
    fn a_client_cannot_choose_the_key_field() {
        let with = subject(&rules("key_cookies = ['a']"), "/", &[("rudy-cache-key", "x"), ("cookie", "a=1")]);
        assert_eq!(with.head.headers().get(&KEY_FIELD).unwrap(), ";a=1");
        let without = subject(&KeyRules::default(), "/", &[("rudy-cache-key", "x")]);
        assert_eq!(without.head.headers().get(&KEY_FIELD), None);
    }

    #[test]
    fn requests_for_responses_that_are_not_for_others_are_exclusive() {
        let is_exclusive = |name, value| subject(&KeyRules::default(), "/", &[(name, value)]).is_exclusive;
        assert!(is_exclusive("range", "bytes=0-1"));
        assert!(is_exclusive("authorization", "Basic x"));
        assert!(is_exclusive("cache-control", "max-age=0, No-Store"));
        assert!(!is_exclusive("cache-control", "no-cache"));
    }

    #[test]
    fn fields_that_the_proxy_sets_cannot_select_a_response() {
        for (vary, expected) in [
            ("X-Forwarded-For", true),
            ("accept, Forwarded", true),
            ("Client-Cert", true),
            ("x-forward", false),
        ] {
            let fields = HeaderMap::from_iter([(VARY, HeaderValue::from_static(vary))]);
            assert_eq!(varies_by_client(&fields), expected, "{vary}");
        }
    }
}

//! A request as the decisions of the cache see it.

use std::sync::Arc;

use http::header::{ACCEPT_LANGUAGE, AUTHORIZATION, CONNECTION, COOKIE, HOST, RANGE, TE, UPGRADE, VARY};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request as HttpRequest, Uri};
use http_body::Body as _;
use rudy_cache::{Key, Policy, VariableName};
use rudy_message::semantics::negotiation::preferred_language;
use rudy_message::syntax::members;
use rudy_pipeline::request_state::HasRequestState;
use rudy_service::{Client, Observer, Request};

use super::table::{CacheTable, names};

/// The parameters of a connection.
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// A field of no request: its value is what the response depends on besides the URL and the fields in `Vary`.
static KEY_FIELD: HeaderName = HeaderName::from_static("rudy-cache-key");

/// A field of no request: its value is the route.
static ROUTE_FIELD: HeaderName = HeaderName::from_static("rudy-cache-route");

/// What a stored response depends on besides the URL and its own `Vary`.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyRules {
    headers: Vec<HeaderName>,
    cookies: Vec<VariableName>,
    bypass: Vec<VariableName>,
    /// Whether requests with a query in their key bypass the cache.
    bypass_query: bool,
    /// Empty if `Accept-Language` is left as it is.
    languages: Vec<String>,
    /// The route, if conditions choose it among others for the same URL.
    route: Option<HeaderValue>,
}

/// Returns the key of a request.
pub(super) fn key(policy: &Policy, request: &Request<'_>, client: &Client<'_>) -> Key {
    if let Some(url) = &request.state().key_url {
        return policy.key(url.is_secure, url.authority.as_bytes(), url.target.as_bytes());
    }
    let is_secure = client.scheme() == Scheme::HTTPS;
    policy.key(is_secure, request.host(), target(request))
}

/// Replaces the host of a request by the form in its key: the application may make it a part of a response, such as a redirect, which
/// clients with other spellings of the host receive too.
pub(super) fn normalize_host(policy: &Policy, request: &mut Request<'_>, client: &Client<'_>) {
    let may_differ = request.host().iter().any(|byte| byte.is_ascii_uppercase() || *byte == b':');
    // A mirror sends the host of the repository.
    if !may_differ || request.state().key_url.is_some() {
        return;
    }
    let key = key(policy, request, client);
    if key.authority() == request.host() {
        return;
    }
    let Ok(host) = HeaderValue::from_bytes(key.authority()) else { return };
    if request.is_absolute() {
        let mut parts = request.uri().clone().into_parts();
        parts.authority = Authority::try_from(host.as_bytes()).ok();
        parts.scheme = parts.scheme.filter(|_| parts.authority.is_some());
        // The parts were valid, and the host is a spelling of the same one.
        if let Ok(uri) = Uri::from_parts(parts) {
            request.set_uri(uri);
        }
    }
    request.set(HOST, host);
}

/// A request: its key, and its fields for the decisions.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) key: Key,
    /// The request with the fields that the decisions need. It is not sent to the origin.
    pub(super) head: HttpRequest<()>,
    /// Whether no other request waits for the response to this one, which is probably not for others, and this one waits for no other.
    pub(super) is_exclusive: bool,
    /// The observer of the exchange with the client.
    pub(super) observer: Option<Arc<dyn Observer>>,
}

impl KeyRules {
    pub(super) fn new(table: &CacheTable, route: Option<HeaderValue>) -> Self {
        let cookies = |list| names(list).iter().map(|name| VariableName::new(name)).collect();
        let headers = table.key_headers.as_ref().map_or(&[][..], |names| names.as_slice());
        let languages = table.languages.as_ref().map_or(&[][..], |languages| languages.as_slice());
        Self {
            headers: headers.iter().map(|field| field.0.clone()).collect(),
            cookies: cookies(table.key_cookies.as_ref()),
            bypass: cookies(table.bypass_cookies.as_ref()),
            bypass_query: table.bypass_query,
            languages: languages.iter().map(|language| language.0.clone()).collect(),
            route,
        }
    }

    /// Whether a request must not use the cache.
    pub(super) fn bypasses(&self, policy: &Policy, request: &Request<'_>) -> bool {
        let fields = request.headers();
        // The method is checked by the decisions. The page of an error depends on the error.
        fields.contains_key(UPGRADE)
            || names_fields(fields)
            || !request.body().is_end_stream()
            || request.state().error_page_for.is_some()
            || self.has_bypass_cookie(fields)
            || (self.bypass_query && policy.query.apply(target(request)).contains(&b'?'))
    }

    pub(super) fn has_bypass_cookie(&self, fields: &HeaderMap) -> bool {
        let mut lines = fields.get_all(COOKIE).iter();
        !self.bypass.is_empty()
            && lines.any(|line| pieces(line.as_bytes()).any(|piece| has_cookie(piece, &self.bypass)))
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
        if self.route.is_some() {
            response.append(VARY, HeaderValue::from_name(ROUTE_FIELD.clone()));
        }
    }

    /// Returns a request as a subject.
    pub(super) fn subject(&self, policy: &Policy, request: &Request<'_>, client: &Client<'_>) -> Subject {
        let state = request.state();
        let key = key(policy, request, client);
        let mut head = HttpRequest::new(());
        *head.method_mut() = request.method().clone();
        *head.headers_mut() = request.headers().clone();
        let has_identity =
            state.is_of_user() || client.tls.as_ref().is_some_and(|tls| tls.client_certificate.is_some());
        let fields = head.headers_mut();
        fields.remove(&KEY_FIELD);
        fields.remove(&ROUTE_FIELD);
        if let Some(route) = &self.route {
            fields.insert(&ROUTE_FIELD, route.clone());
        }
        if has_identity && !fields.contains_key(AUTHORIZATION) {
            // For the decisions, it is a request with credentials (RFC 9111 §3.5).
            fields.insert(AUTHORIZATION, HeaderValue::from_static("-"));
        }
        let is_rewritten = state.original_target.is_some();
        let rewritten = request.uri().path_and_query().filter(|_| is_rewritten);
        let rewritten = rewritten.map(|target| policy.query.apply(target.as_str().as_bytes()));
        if let Some(value) = self.key_value(fields, rewritten) {
            fields.insert(&KEY_FIELD, value);
        }
        let is_exclusive = *head.method() != Method::GET
            || head.headers().contains_key(RANGE)
            || (!policy.ignore_authorization && head.headers().contains_key(AUTHORIZATION))
            || (!policy.ignore_client && has_no_store(head.headers()))
            || state.is_in_flight;
        Subject { key, head, is_exclusive, observer: client.observer.get().cloned() }
    }

    /// Returns the value of [`KEY_FIELD`]: the cookies, and the target after a rewrite, which may depend on fields of the request.
    fn key_value(&self, fields: &HeaderMap, rewritten: Option<Vec<u8>>) -> Option<HeaderValue> {
        if self.cookies.is_empty() && rewritten.is_none() {
            return None;
        }
        let mut value = rewritten.unwrap_or_default();
        let lines = fields.get_all(COOKIE).iter();
        for piece in lines.flat_map(|line| pieces(line.as_bytes())) {
            if has_cookie(piece, &self.cookies) {
                value.extend_from_slice(b";");
                value.extend_from_slice(piece);
            }
        }
        // Parts of fields and of a URI, which are field characters.
        HeaderValue::from_bytes(&value).ok()
    }
}

/// Returns the target as the client sent it.
pub(super) fn target<'r>(request: &'r Request<'_>) -> &'r [u8] {
    request.state().original_target.as_deref().unwrap_or_else(|| request.path_and_query())
}

/// Replaces the lines of `Vary` that [`KeyRules::add_vary`] added by what clients and other caches understand.
pub(super) fn public_vary(fields: &mut HeaderMap) {
    let is_key = |line: &HeaderValue| line == KEY_FIELD.as_str();
    // What chooses the route is in `Vary` of all its responses.
    let is_ours = |line: &HeaderValue| is_key(line) || line == ROUTE_FIELD.as_str();
    if !fields.get_all(VARY).iter().any(is_ours) {
        return;
    }
    let has_key = fields.get_all(VARY).iter().any(is_key);
    let lines: Vec<_> = fields.get_all(VARY).iter().filter(|line| !is_ours(line)).cloned().collect();
    fields.remove(VARY);
    for line in has_key.then(|| HeaderValue::from_static("Cookie")).into_iter().chain(lines) {
        fields.append(VARY, line);
    }
}

/// Whether a response depends on fields that the proxy sets itself, so that those of the client are not what the origin received.
pub(super) fn varies_by_client(response: &HeaderMap) -> bool {
    let lines = response.get_all(VARY).iter();
    let mut names = lines.flat_map(|line| members(line.as_bytes()));
    names.any(|name| {
        let name = name.to_ascii_lowercase();
        ["forwarded", "via", "x-real-ip"].iter().any(|own| name == own.as_bytes())
            || name.starts_with(b"x-forwarded-")
            || name.starts_with(b"client-cert")
    })
}

/// Whether `Connection` names a field of the request. A proxy does not pass it on (RFC 9110 §7.6.1), so a response that is selected by the
/// field was made without it: a client could store that of one language for the clients of another one.
fn names_fields(fields: &HeaderMap) -> bool {
    let lines = fields.get_all(CONNECTION).iter();
    let names = lines.flat_map(|line| members(line.as_bytes()));
    let mut names = names.filter_map(|name| HeaderName::from_bytes(name).ok());
    names.any(|name| fields.contains_key(&name) && ![TE, KEEP_ALIVE].contains(&name))
}

/// Whether the client forbids to store the response (RFC 9111 §5.2.1.5).
fn has_no_store(fields: &HeaderMap) -> bool {
    let lines = fields.get_all(http::header::CACHE_CONTROL).iter();
    let mut directives = lines.flat_map(|line| members(line.as_bytes()));
    directives.any(|member| member.eq_ignore_ascii_case(b"no-store"))
}

/// Iterates over the cookies in a line, each `name=value` (RFC 6265 §4.2.1).
fn pieces(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii)
}

/// Whether an application may read a cookie with one of these names. Some also separate cookies by commas or whitespace.
fn has_cookie(piece: &[u8], patterns: &[VariableName]) -> bool {
    let cookies = piece.split(|byte| b", \t".contains(byte)).chain([piece]);
    let mut names = cookies.map(|cookie| cookie.split(|byte| *byte == b'=').next().unwrap_or_default());
    names.any(|name| !name.is_empty() && patterns.iter().any(|pattern| pattern.matches(name)))
}

#[cfg(test)]
mod tests {
    use rudy_service::RequestBody;

    use super::*;

    fn rules(table: &str) -> KeyRules {
        KeyRules::new(&rudy_config::from_text::<CacheTable>(table).unwrap(), None)
    }

    fn subject(rules: &KeyRules, target: &str, fields: &[(&str, &str)]) -> Subject {
        let mut request = HttpRequest::get(target).header("host", "A.org");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(RequestBody::empty()).map(Request::from).unwrap();
        rules.subject(&Policy::default(), &request, &Client::new(rudy_service::Peer::Unix, 1, 1))
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
            // Spellings that PHP and others read as the same name.
            ("session.id=1", true),
            ("a=b,session=1", true),
            ("a=b session=1", true),
            ("%73ession=1", true),
            ("+session=1", true),
            ("user[a]=1", true),
            ("User=1", true),
            ("user =1", true),
            ("user.a=1", false),
        ] {
            let fields = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(cookie))]);
            assert_eq!(rules.has_bypass_cookie(&fields), expected, "{cookie}");
        }
    }

    #[test]
    fn a_listed_cookie_is_found_in_every_spelling_that_php_reads_as_its_name() {
        let rules = rules("bypass_cookies = ['my.id', 'a_b[c]']\nkey_cookies = ['my_lang']");
        for cookie in ["my_id=1", "my id=1", "my.id=1", "my[id=1", "my%5Fid=1", "a.b[d]=1", "a_b=1"] {
            let fields = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(cookie))]);
            assert!(rules.has_bypass_cookie(&fields), "{cookie}");
        }
        let keys = ["my_lang=de", "my.lang=de", "my%20lang=de"].map(|cookie| {
            subject(&rules, "/", &[("cookie", cookie)]).head.headers().get(&KEY_FIELD).unwrap().clone()
        });
        assert_eq!(keys, [";my_lang=de", ";my.lang=de", ";my%20lang=de"]);
    }

    #[test]
    fn the_application_receives_the_host_that_is_in_the_key() {
        let client = Client::new(rudy_service::Peer::Unix, 1, 1);
        for (target, host, expected) in [
            ("/a", "A.Test", "a.test"),
            ("/a", "a.test:80", "a.test"),
            ("/a", "a.test:", "a.test"),
            ("/a", "A.test:8080", "a.test:8080"),
            ("/a", "a.test:443", "a.test:443"),
            ("/a", "a.test.", "a.test."),
            ("/a", "[::FF]:80", "[::ff]"),
            ("http://A.test:80/a", "b.test", "a.test"),
            ("http://a.test/a", "A.test", "a.test"),
        ] {
            let request = HttpRequest::get(target).header("host", host);
            let mut request = request.body(RequestBody::empty()).map(Request::from).unwrap();
            normalize_host(&Policy::default(), &mut request, &client);
            let key = key(&Policy::default(), &request, &client);
            assert_eq!(key.authority(), expected.as_bytes(), "{target} {host}");
            assert_eq!(request.host(), expected.as_bytes(), "{target} {host}");
            // A URI has precedence over the field for all handlers.
            let is_absolute = request.uri().authority().is_some();
            assert!(is_absolute || request.headers().get(HOST).unwrap() == expected, "{target} {host}");
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
    fn routes_that_conditions_choose_have_responses_of_their_own() {
        let rules =
            |route| KeyRules { route: Some(HeaderValue::from_static(route)), ..rules("key_cookies = ['a']") };
        let fields = [("rudy-cache-route", "2"), ("cookie", "a=1")];
        let (first, other) = (subject(&rules("1"), "/", &fields), subject(&rules("2"), "/", &fields));
        let mut response = HeaderMap::new();
        rules("1").add_vary(&first, &mut response);
        let variant = rudy_cache::Variant::new(first.head.headers(), &response).unwrap();
        assert!(variant.matches(subject(&rules("1"), "/", &fields).head.headers()));
        assert_eq!((variant.matches(other.head.headers()), first.key == other.key), (false, true));
        public_vary(&mut response);
        assert!(response.get_all(VARY).iter().eq(["Cookie"]));
        response = HeaderMap::from_iter([(VARY, HeaderValue::from(ROUTE_FIELD.clone()))]);
        public_vary(&mut response);
        assert!(response.is_empty());
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

//! The settings of conditions, and whether a request meets them.

use std::fmt;
use std::str::FromStr;

use http::uri::Scheme;
use http::{HeaderName, Method};
use rudy_config::{
    FieldName, Invalid, OneOrMany, Setting, Shape, Table, Value, Words, field_table, written_as_text,
};

use super::Examined;
use super::clients::AllowedClient;
use crate::methods::decisive;
use crate::parts::{self, CookieName};
use crate::patterns::PathPattern;
use crate::wildcard::Wildcard;

/// What a request is like. It meets the conditions if it meets each of them.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct Conditions {
    /// Clients: addresses, networks, `loopback` (this machine, without a proxy) or `anyone`.
    #[setting(example = ["10.0.0.0/8", "loopback"])]
    pub clients: Option<OneOrMany<AllowedClient>>,
    /// Parts of the request.
    #[setting(part)]
    pub parts: RequestConditions,
}

/// What a request is like, by its parts.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct RequestConditions {
    /// Methods of the requests. The default is all methods.
    #[setting(example = ["GET", "HEAD"])]
    pub methods: Option<OneOrMany<MethodName>>,
    /// Paths of the requests, in the notation of `path` of a route.
    #[setting(name = "path", example = "/api/*")]
    pub paths: Option<OneOrMany<PathPattern>>,
    /// Header fields of the requests, each with a pattern of its value or a list of patterns, in which `*` matches any characters. A
    /// request without the field does not match.
    #[setting(example = { "User-Agent" = "*bot*" })]
    pub headers: FieldPatterns,
    /// Cookies of the requests, as `headers`.
    #[setting(example = { beta = "1" })]
    pub cookies: CookiePatterns,
    /// Parameters in the query of the requests, percent-decoded, as `headers`.
    #[setting(example = { version = ["1", "2"] })]
    pub query: ParameterPatterns,
    /// The scheme that the client used, also to a trusted proxy.
    #[setting(example = "https")]
    pub scheme: Option<SchemeName>,
    /// Patterns of the subject of the client certificate, as in the log: `CN=alice,O=Example`. `*` matches any certificate
    /// that the site accepts (`client_certificates`).
    #[setting(example = "CN=alice,*")]
    pub certificate: Option<OneOrMany<Wildcard>>,
    /// Conditions that requests must not meet: a table, or a list of tables of which they must meet none.
    #[setting(example = { headers = { "X-Api-Key" = "*" } })]
    pub not: Option<OneOrMany<Conditions>>,
}

impl Conditions {
    /// Whether a request meets all conditions, without doubt: a client whose address is unknown is in no network, and in `not` in every
    /// one.
    #[must_use]
    pub fn are_met(&self, examined: &Examined<'_>) -> bool {
        self.meets(examined, false)
    }

    fn meets(&self, examined: &Examined<'_>, in_doubt: bool) -> bool {
        let Examined { request, client, listeners, .. } = examined;
        let is_client = |group: &AllowedClient| group.is_client(request, client, listeners, in_doubt);
        self.clients.as_ref().is_none_or(|clients| clients.as_slice().iter().any(is_client))
            && self.parts.are_met(examined, in_doubt)
    }

    /// Calls `visit` for the fields on which the conditions depend, for `Vary`.
    pub fn fields(&self, visit: &mut impl FnMut(HeaderName)) {
        self.parts.fields(visit);
    }
}

impl RequestConditions {
    /// Whether a request meets all conditions. `in_doubt` is the result for a client of which that is unclear.
    #[must_use]
    pub fn are_met(&self, examined: &Examined<'_>, in_doubt: bool) -> bool {
        let Examined { request, path, .. } = examined;
        let Self { methods, paths, headers, cookies, query, scheme, certificate, not } = self;
        let method = decisive(request.method());
        methods.as_ref().is_none_or(|methods| methods.as_slice().iter().any(|one| one.0 == *method))
            && paths
                .as_ref()
                .is_none_or(|paths| paths.as_slice().iter().any(|pattern| pattern.matches(path.as_bytes())))
            && scheme.is_none_or(|scheme| scheme.is(&examined.client.scheme()))
            && headers.0.iter().all(|(name, patterns)| any_matches(patterns, request.get_all(name)))
            && cookies.0.iter().all(|(name, patterns)| any_matches(patterns, parts::cookies(request, name)))
            && query.0.iter().all(|(name, patterns)| any_matches(patterns, parts::parameters(request, name)))
            && certificate.as_ref().is_none_or(|patterns| any_matches(patterns, examined.certificate()))
            && !not.iter().flat_map(OneOrMany::as_slice).any(|not| not.meets(examined, !in_doubt))
    }

    fn fields(&self, visit: &mut impl FnMut(HeaderName)) {
        self.headers.0.iter().for_each(|(name, _)| visit(name.clone()));
        if !self.cookies.0.is_empty() {
            visit(http::header::COOKIE);
        }
        self.not.iter().flat_map(OneOrMany::as_slice).for_each(|not| not.fields(visit));
    }
}

/// Whether a pattern matches a value.
fn any_matches<V: AsRef<[u8]>>(patterns: &OneOrMany<Wildcard>, mut values: impl Iterator<Item = V>) -> bool {
    values.any(|value| patterns.as_slice().iter().any(|pattern| pattern.matches(value.as_ref(), |_| true)))
}

/// Patterns of values by the names of header fields: `{ User-Agent = "*bot*" }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldPatterns(Vec<(HeaderName, OneOrMany<Wildcard>)>);

/// Patterns of values by the names of cookies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CookiePatterns(Vec<(String, OneOrMany<Wildcard>)>);

/// Patterns of values by the names of parameters in a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParameterPatterns(Vec<(String, OneOrMany<Wildcard>)>);

const PATTERNS: Shape = Shape::Map(&<OneOrMany<Wildcard>>::SHAPE, None);

impl Setting for FieldPatterns {
    const SHAPE: Shape = PATTERNS;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let patterns = field_table(value)?.into_iter();
        Ok(Self(patterns.map(|(FieldName(_, name), patterns)| (name, patterns)).collect()))
    }
}

impl Setting for CookiePatterns {
    const SHAPE: Shape = PATTERNS;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let patterns = value.entries::<CookieName, _>()?.into_iter();
        Ok(Self(patterns.map(|(name, patterns)| (name.0, patterns)).collect()))
    }
}

impl Setting for ParameterPatterns {
    const SHAPE: Shape = PATTERNS;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.entries().map(Self)
    }
}

/// A scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum SchemeName {
    /// Without encryption.
    Http,
    /// With encryption.
    Https,
}

impl SchemeName {
    fn is(self, scheme: &Scheme) -> bool {
        (self == Self::Https) == (*scheme == Scheme::HTTPS)
    }
}

/// A method: `GET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodName(pub Method);

impl FromStr for MethodName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let method = Method::from_str(text).ok().filter(|method| method.as_str() == text);
        match method {
            Some(Method::CONNECT) => {
                Err("no request matches CONNECT: a WebSocket is a GET, also over HTTP/2".to_owned())
            }
            // Methods are case-sensitive (RFC 9110 §9.1).
            Some(method) if !text.contains(|letter: char| letter.is_ascii_lowercase()) => Ok(Self(method)),
            _ => Err("expected a method in capital letters, such as \"GET\"".to_owned()),
        }
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

written_as_text!(MethodName, "a method (\"GET\")", {
    doc: "A method of HTTP.",
    pattern: "^[^a-z]+$",
    examples: ["GET", "POST"],
});

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clients = self.clients.iter().map(|clients| format!("client {}", join(clients, " or ")));
        f.write_str(&clients.chain(self.parts.texts()).collect::<Vec<_>>().join(", "))
    }
}

impl RequestConditions {
    /// Returns a text for each condition.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        let Self { methods, paths, headers, cookies, query, scheme, certificate, not } = self;
        let named = |kind: &'static str, name: &str, patterns: &OneOrMany<Wildcard>| {
            format!("{kind} {name}: {}", join(patterns, " or "))
        };
        let methods = methods.iter().map(|methods| format!("method {}", join(methods, " or ")));
        let paths = paths.iter().map(|paths| format!("path {}", join(paths, " or ")));
        let headers = headers.0.iter().map(move |(name, patterns)| named("field", name.as_str(), patterns));
        let cookies = cookies.0.iter().map(move |(name, patterns)| named("cookie", name, patterns));
        let query = query.0.iter().map(move |(name, patterns)| named("parameter", name, patterns));
        let scheme = scheme.iter().map(|scheme| format!("scheme {}", scheme.word()));
        let certificate =
            certificate.iter().map(|patterns| format!("certificate {}", join(patterns, " or ")));
        let not = not.iter().flat_map(OneOrMany::as_slice).map(|not| format!("not ({not})"));
        methods
            .chain(paths)
            .chain(headers)
            .chain(cookies)
            .chain(query)
            .chain(scheme)
            .chain(certificate)
            .chain(not)
    }
}

/// Returns the values of a list in a text.
fn join<T: fmt::Display>(list: &OneOrMany<T>, between: &str) -> String {
    list.as_slice().iter().map(T::to_string).collect::<Vec<_>>().join(between)
}

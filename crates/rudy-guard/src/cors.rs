//! Cross-origin requests (CORS, Fetch Standard §3.3): which other sites' scripts may read responses.
//!
//! Two steps share the settings: one sets the fields of every response, errors too, so that scripts can read them; the other
//! responds to preflight requests, which have no credentials, before a login is required.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
};
use http::{HeaderValue, Method, StatusCode};
use rudy_config::{HeaderFieldName, Location, OneOrMany, Problem, Table};
use rudy_message::semantics::field::ChangeFields;
use rudy_pipeline::conditions::MethodName;
use rudy_pipeline::request_state::HasResponseState;
use rudy_pipeline::vary;
use rudy_pipeline::wildcard::Wildcard;
use rudy_pipeline::{Call, Flow, Kept, Passage, ResponseStep, Step};
use rudy_service::{Reply, Request, Response};
use rudy_units::Time;

/// Which scripts of other sites may read responses.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
pub struct CorsTable {
    /// Origins of the sites: `https://example.org`, `https://*.example.org`, or `*` for all.
    #[setting(example = ["https://example.org", "https://*.example.org"])]
    pub origins: OneOrMany<Wildcard>,
    /// Methods of the requests. The default is GET, HEAD and POST.
    #[setting(example = ["GET", "PUT", "DELETE"])]
    pub methods: Option<OneOrMany<MethodName>>,
    /// Header fields that scripts may set in requests, besides those that need no permission.
    #[setting(example = ["Authorization", "Content-Type"])]
    pub headers: Option<OneOrMany<HeaderFieldName>>,
    /// Header fields of responses that scripts may read, besides those that need no permission.
    #[setting(example = ["ETag"])]
    pub expose: Option<OneOrMany<HeaderFieldName>>,
    /// Allows requests with cookies and logins. Not possible for all origins.
    #[setting(default)]
    pub credentials: bool,
    /// Time for which browsers remember the permissions.
    #[setting(default = Time(std::time::Duration::from_mins(10)), reason = "Long enough to save most requests, and short enough that a change is soon in effect.", example = "1h")]
    pub max_age: Time,
}

impl CorsTable {
    /// Reports origins that no browser sends, and settings that no browser accepts.
    #[must_use]
    pub fn problems(&self, location: &Location) -> Vec<Problem> {
        let origins = location.key("origins");
        let invalid =
            self.origins.as_slice().iter().filter(|origin| !is_origin(origin.as_str())).map(|origin| {
                let problem = Problem::value(&origins, format!("\"{origin}\" is not an origin"));
                problem.label("expected a scheme and a host, as in \"https://example.org\", or \"*\"")
            });
        let all = (self.credentials && self.is_for_all()).then(|| {
            let problem =
                Problem::value(&location.key("credentials"), "all sites would get the data of users");
            problem
                .label("needs `origins`")
                .help("name the origins whose scripts may use the logins of users")
        });
        invalid.chain(all).collect()
    }

    fn is_for_all(&self) -> bool {
        self.origins.as_slice().iter().any(|origin| origin.as_str() == "*")
    }
}

/// Returns whether a browser may send an origin that matches a pattern: without a path, in small letters (RFC 6454 §6.2).
fn is_origin(pattern: &str) -> bool {
    if matches!(pattern, "*" | "null") {
        return true;
    }
    let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@']);
    let is_small = !pattern.contains(|letter: char| letter.is_ascii_uppercase());
    is_small && pattern.split_once("://").is_some_and(|(scheme, host)| !scheme.is_empty() && is_host(host))
}

/// The fields of responses, prepared.
#[derive(Debug)]
pub struct Cors {
    origins: Vec<Wildcard>,
    /// Whether every origin is allowed, so that responses do not depend on it.
    is_for_all: bool,
    credentials: bool,
    methods: HeaderValue,
    headers: Option<HeaderValue>,
    expose: Option<HeaderValue>,
    max_age: HeaderValue,
}

impl Cors {
    /// Prepares a table.
    #[must_use]
    pub fn new(table: &CorsTable) -> Self {
        let names = |list: &OneOrMany<HeaderFieldName>| join(list.as_slice());
        Self {
            origins: table.origins.as_slice().to_vec(),
            is_for_all: table.is_for_all(),
            credentials: table.credentials,
            methods: table
                .methods
                .as_ref()
                .map_or_else(|| join(&["GET", "HEAD", "POST"]), |all| join(all.as_slice())),
            headers: table.headers.as_ref().map(names),
            expose: table.expose.as_ref().map(names),
            max_age: table.max_age.0.as_secs().into(),
        }
    }

    fn allows(&self, origin: &HeaderValue) -> bool {
        // Within a name: a pattern must not match another port, or another host behind a slash.
        let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        self.is_for_all || self.origins.iter().any(|pattern| pattern.matches(origin.as_bytes(), in_name))
    }

    /// Sets the fields of a response to a request with this origin. Those of an app are replaced: two permissions are none.
    fn apply(&self, origin: Option<&HeaderValue>, fields: &mut impl ChangeFields) {
        for name in
            [ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_EXPOSE_HEADERS]
        {
            fields.remove(&name);
        }
        if self.is_for_all {
            fields.add(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        } else {
            // Also without an origin: a cache must not use the response for a request with one.
            vary::add(fields, HeaderValue::from_static("Origin"));
            let Some(origin) = origin.filter(|origin| self.allows(origin)) else { return };
            fields.add(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        }
        if self.credentials {
            fields.add(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if let Some(expose) = &self.expose {
            fields.add(ACCESS_CONTROL_EXPOSE_HEADERS, expose.clone());
        }
    }

    /// Returns the response to a preflight request. Without the permission, it has no fields that give any.
    fn preflight(&self, request: &Request<'_>) -> Option<Response> {
        let origin = request.value(&ORIGIN)?;
        if *request.method() != Method::OPTIONS || !request.contains(&ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let mut response = Response::new(StatusCode::NO_CONTENT);
        if self.allows(&origin) {
            let fields = response.headers_mut();
            fields.insert(ACCESS_CONTROL_ALLOW_METHODS, self.methods.clone());
            fields.insert(ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
            if let Some(headers) = &self.headers {
                fields.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers.clone());
            }
        }
        Some(response)
    }
}

fn join(list: &[impl ToString]) -> HeaderValue {
    let list = list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    // Methods and names are tokens.
    HeaderValue::try_from(list).unwrap_or(HeaderValue::from_static(""))
}

/// Sets the fields of all responses.
#[derive(Debug)]
pub struct CorsFields(pub Arc<Cors>);

impl Step for CorsFields {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        passage.kept.origin = passage.request.value(&ORIGIN);
        Flow::Continue
    }

    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        Some(self)
    }

    fn describe(&self) -> Vec<String> {
        let origins: Vec<_> = self.0.origins.iter().map(ToString::to_string).collect();
        vec![format!("cors: scripts of {} may read responses", origins.join(", "))]
    }
}

impl ResponseStep for CorsFields {
    fn response(&self, mut response: Response, kept: &mut Kept<'_>, _: &Call<'_>) -> Reply {
        // The route that an internal redirect led to has set them.
        if !response.state().is_redirected {
            self.0.apply(kept.origin.as_ref(), &mut response);
        }
        response.into()
    }
}

/// Responds to preflight requests.
#[derive(Debug)]
pub struct Preflight(pub Arc<Cors>);

impl Step for Preflight {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        self.0.preflight(&passage.request).map_or(Flow::Continue, Flow::from)
    }

    fn describe(&self) -> Vec<String> {
        let methods = String::from_utf8_lossy(self.0.methods.as_bytes()).into_owned();
        vec![format!("cors: preflight requests get 204 and allow {methods}")]
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::VARY;

    use super::*;

    fn cors(text: &str) -> Cors {
        Cors::new(&rudy_config::from_text(text).unwrap())
    }

    fn fields(
        cors: &Cors,
        origin: Option<&'static str>,
        given: &[(http::HeaderName, &'static str)],
    ) -> Vec<String> {
        let given = given.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        let mut fields: HeaderMap = given.collect();
        cors.apply(origin.map(HeaderValue::from_static).as_ref(), &mut fields);
        let mut lines: Vec<_> =
            fields.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn an_allowed_origin_may_read_responses() {
        let cors =
            cors("origins = ['https://a.org', 'https://*.b.org']\ncredentials = true\nexpose = 'ETag'");
        for origin in ["https://a.org", "https://x.b.org", "https://y.x.b.org"] {
            let expected = [
                "access-control-allow-credentials: true",
                &format!("access-control-allow-origin: {origin}"),
                "access-control-expose-headers: etag",
                "vary: Origin",
            ];
            assert_eq!(fields(&cors, Some(origin), &[]), expected);
        }
        for origin in [
            "https://a.org:8443",
            "http://a.org",
            "https://b.org",
            "https://evil.org/.b.org",
            "https://evil.org:1.b.org",
            "null",
        ] {
            assert_eq!(fields(&cors, Some(origin), &[]), ["vary: Origin"], "{origin}");
        }
        assert_eq!(fields(&cors, None, &[]), ["vary: Origin"]);
    }

    #[test]
    fn the_fields_of_an_app_are_replaced() {
        let of_app = [
            (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
            (ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
            (VARY, "Accept, origin"),
        ];
        let one = cors("origins = 'https://a.org'");
        assert_eq!(fields(&one, Some("https://evil.org"), &of_app), ["vary: Accept, origin"]);
        let all = cors("origins = '*'");
        assert_eq!(
            fields(&all, Some("https://a.org"), &of_app),
            ["access-control-allow-origin: *", "vary: Accept, origin"]
        );
    }

    #[test]
    fn a_preflight_request_is_one_with_an_origin_and_a_method() {
        let cors =
            cors("origins = 'https://a.org'\nmethods = ['PUT']\nheaders = ['X-A', 'X-B']\nmax_age = '1h'");
        let preflight = |method: &str, given: &[(&str, &str)]| {
            let mut request = http::Request::builder().method(method).uri("/");
            for (name, value) in given {
                request = request.header(*name, *value);
            }
            let response = cors
                .preflight(&request.body(rudy_service::RequestBody::empty()).map(Request::from).unwrap())?;
            assert_eq!(response.status(), 204);
            let mut lines: Vec<_> = response
                .headers()
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect();
            lines.sort();
            Some(lines)
        };
        let asks = ("access-control-request-method", "PUT");
        let expected = [
            "access-control-allow-headers: x-a, x-b",
            "access-control-allow-methods: PUT",
            "access-control-max-age: 3600",
        ];
        assert_eq!(preflight("OPTIONS", &[("origin", "https://a.org"), asks]).unwrap(), expected);
        assert_eq!(preflight("OPTIONS", &[("origin", "https://b.org"), asks]).unwrap(), Vec::<String>::new());
        assert_eq!(preflight("OPTIONS", &[("origin", "https://a.org")]), None);
        assert_eq!(preflight("OPTIONS", &[asks]), None);
        assert_eq!(preflight("GET", &[("origin", "https://a.org"), asks]), None);
    }

    #[test]
    fn settings_that_no_browser_would_follow_are_reported() {
        for (text, expected) in [
            ("origins = 'a.org'", "is not an origin"),
            ("origins = 'https://a.org/'", "is not an origin"),
            ("origins = 'https://A.org'", "is not an origin"),
            ("origins = '*'\ncredentials = true", "all sites would get"),
        ] {
            let table: CorsTable = rudy_config::from_text(text).unwrap();
            let problems = table.problems(&Location::none());
            assert!(problems.len() == 1 && problems[0].line().contains(expected), "{text}");
        }
        for text in ["origins = '*'", "origins = ['https://*.a.org:8443', 'null', 'chrome-extension://abc']"]
        {
            let table: CorsTable = rudy_config::from_text(text).unwrap();
            assert!(table.problems(&Location::none()).is_empty(), "{text}");
        }
    }
}

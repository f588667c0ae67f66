//! The `redirect` handler (RFC 9110 §15.4).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rudy_config::{Location, Problem, Setting, Shape, Table, Value};
use rudy_message::PreparedHead;
use rudy_message::semantics::reason::reason_phrase;
use rudy_pipeline::methods::reject_unknown_method;
use rudy_pipeline::routing::template::{Invalid, Scope, Subject, Template};
use rudy_pipeline::{BuildContext, Call, Handler, HandlerConfig, pages};
use rudy_service::{Body, Reply, Request, Response};

/// Redirects to another URL: a table, or the URL alone.
#[derive(Debug, Clone, Table)]
#[setting(short(to), what = "a URL (\"/new\") or a table", example = "/new/{rest}")]
pub struct RedirectTable {
    /// URL or path to redirect to, such as `https://{host}{path}{query}` or `/new/{rest}`. `{path}` is the path of
    /// the request, `{rest}` the part that `*` matches in a route such as `/old/*`, `{query}` the query with its
    /// question mark (or `&` after another parameter), and `{host}` the host without port. Groups of a `regex:` path
    /// are placeholders, too.
    #[setting(example = "/new/{rest}")]
    pub to: String,
    /// Status of the redirect. Use 301 or 308 for a permanent move (browsers remember it), 302 or 307 for a temporary
    /// one, and 303 to send the client to another page with GET. With 307 and 308 the method stays the same; with 301
    /// and 302 browsers change POST to GET.
    #[setting(default)]
    pub status: RedirectStatus,
}

/// The statuses of redirects.
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// The status of a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedirectStatus(u16);

impl Default for RedirectStatus {
    fn default() -> Self {
        Self(307)
    }
}

impl RedirectStatus {
    fn new(status: u16) -> Result<Self, String> {
        if STATUSES.contains(&status) {
            return Ok(Self(status));
        }
        Err(format!("expected one of 301, 302, 303, 307, 308, found {status}"))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Self::new(text.parse().unwrap_or_default())
    }

    pub(super) fn code(self) -> StatusCode {
        StatusCode::from_u16(self.0).unwrap_or(StatusCode::TEMPORARY_REDIRECT)
    }
}

impl Setting for RedirectStatus {
    const SHAPE: Shape = Shape::Integers(&STATUSES);

    fn read(value: &Value<'_>) -> Result<Self, rudy_config::Invalid> {
        let status = value.integer(0, u16::MAX.into())?;
        Self::new(u16::try_from(status).unwrap_or_default()).or_else(|why| value.invalid(why))
    }

    fn written(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl HandlerConfig for RedirectTable {
    fn describe(&self) -> String {
        format!("{} to {}", self.status.0, self.to)
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Redirect::new(self, route.scope(), route.location)?))
    }
}

impl Handler for Redirect {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        self.respond(&call.subject(&request)).into()
    }
}

/// A redirect to a fixed URL, or to one made from the request.
#[derive(Debug)]
pub(crate) enum Redirect {
    /// A fixed URL with an encoded head.
    Fixed(Arc<PreparedHead>, Bytes),
    /// A URL with placeholders.
    Template(StatusCode, Template),
}

impl Redirect {
    /// Prepares a redirect whose placeholders the scope defines.
    pub(crate) fn new(
        table: &RedirectTable,
        scope: Scope<'_>,
        location: &Location,
    ) -> Result<Self, Vec<Problem>> {
        let problem = |(title, label): Invalid| vec![Problem::value(&location.key("to"), title).label(label)];
        let template = Template::parse(&table.to).and_then(|template| {
            template.check_target(scope)?;
            Ok(template)
        });
        let template = template.map_err(problem)?;
        let status = table.status.code();
        if template.as_fixed().is_none() {
            return Ok(Self::Template(status, template));
        }
        // Only visible ASCII is allowed, so this does not fail.
        let location =
            HeaderValue::from_str(&table.to).map_err(|error| problem((error.to_string(), String::new())))?;
        Ok(Self::Fixed(Arc::new(PreparedHead::new(status, fields(location))), text(status)))
    }

    /// Responds to a request. All registered methods are redirected; the status determines the method of the new request.
    pub(crate) fn respond(&self, subject: &Subject<'_>) -> Response {
        let request = subject.request;
        if let Some(rejection) = reject_unknown_method(request) {
            return rejection;
        }
        match self {
            Self::Fixed(head, body) => Response::prepared(head.clone(), Body::Bytes(body.clone())),
            Self::Template(status, template) => match location(template, subject) {
                Ok(location) => redirection(*status, location),
                Err(explanation) => pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation),
            },
        }
    }
}

/// Returns a redirect to a location.
pub(super) fn redirection(status: StatusCode, location: HeaderValue) -> Response {
    let mut response = Response::new(status);
    *response.headers_mut() = fields(location);
    response.body = Body::Bytes(text(status));
    response
}

fn fields(location: HeaderValue) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert(header::LOCATION, location);
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    fields
}

/// Returns the body of a redirect.
fn text(status: StatusCode) -> Bytes {
    format!("{} {}: see the Location header\n", status.as_str(), reason_phrase(status).unwrap_or_default())
        .into()
}

fn location(template: &Template, subject: &Subject<'_>) -> Result<HeaderValue, String> {
    let location = template.fill(subject)?;
    HeaderValue::try_from(location).map_err(|_| "The Location header cannot hold the target.".to_owned())
}

#[cfg(test)]
mod tests {
    use rudy_message::semantics::path::RequestPath;
    use rudy_pipeline::routing::{Hosts, Listeners, Maps, PathPattern};
    use rudy_service::{Client, Peer, RequestBody};

    use super::*;

    const HOSTS: &str = "regex:^(?<user>[^.]*).*$";

    fn redirect(path: &str, to: &str) -> Result<(Redirect, PathPattern), Vec<Problem>> {
        let pattern: PathPattern = path.parse().unwrap();
        let table = RedirectTable { to: to.to_owned(), status: RedirectStatus(308) };
        let hosts = [HOSTS.parse().unwrap()];
        let scope = Scope { paths: std::slice::from_ref(&pattern), hosts: &hosts, maps: Maps::none() };
        Redirect::new(&table, scope, &Location::none()).map(|redirect| (redirect, pattern))
    }

    fn respond(
        redirect: &Redirect,
        request: &Request<'_>,
        path: &RequestPath<'_>,
        pattern: &PathPattern,
    ) -> Response {
        let client = Client::new(Peer::Unix, 1, 1);
        let mut hosts = Hosts::default();
        hosts.add(&HOSTS.parse().unwrap(), 0);
        let listeners = &Listeners::Alike(hosts);
        redirect.respond(&Subject { request, path, pattern, client: &client, maps: Maps::none(), listeners })
    }

    fn location(path: &str, to: &str, target: &str, host: &str) -> Result<String, StatusCode> {
        let (redirect, pattern) = redirect(path, to).unwrap();
        let request = http::Request::get(target)
            .header("host", host)
            .body(RequestBody::empty())
            .map(Request::from)
            .unwrap();
        let Ok(path) = RequestPath::parse(request.uri().path()) else { return Err(StatusCode::BAD_REQUEST) };
        let response = respond(&redirect, &request, &path, &pattern);
        match response.headers().get(header::LOCATION) {
            Some(location) => Ok(location.to_str().unwrap().to_owned()),
            None => Err(response.status()),
        }
    }

    #[test]
    fn placeholders_are_filled_in() {
        for (path, to, target, expected) in [
            ("/*", "https://example.org", "/a?b", "https://example.org"),
            ("/*", "https://{host}{path}{query}", "/a?b=c", "https://a.org/a?b=c"),
            ("/*", "https://example.org/@ann", "/", "https://example.org/@ann"),
            ("/*", "https://{host}{path}{query}", "/a", "https://a.org/a"),
            ("/*", "https://www.{host}:8443{path}", "/a", "https://www.a.org:8443/a"),
            ("/old/*", "/new/{rest}{query}", "/old/a/b?c", "/new/a/b?c"),
            ("/old/*", "/new/{rest}", "/old", "/new/"),
            ("/old/*", "/new/{rest}", "/old/caf%C3%A9", "/new/caf%C3%A9"),
            ("/old/*", "/new?from={path}", "/old/x", "/new?from=/old/x"),
            ("/old/*", "/new?from={rest}{query}", "/old/x?y=z", "/new?from=x&y=z"),
            ("/old/*", "/new?from={rest}{query}", "/old/x", "/new?from=x"),
            ("/old/*", "/new?from={rest}", "/old/x&admin=1;a+b", "/new?from=x%26admin=1%3Ba%2Bb"),
            ("regex:^/old(.*)$", "/{1}?from={1}", "/old/x&y+z", "/x&y+z?from=/x%26y%2Bz"),
            (
                "regex:^/user/([^/]+)/(?<page>.*)$",
                "/u/{1}?page={page}",
                "/user/caf%C3%A9/a%2Fb",
                "/u/caf%C3%A9?page=a%2Fb",
            ),
            ("/item.php", "/items/{query.id}", "/item.php?x=1&id=a%2Fb%26c+d", "/items/a%2Fb%26c%20d"),
            ("/item.php", "/items?i={query.id}{query}", "/item.php?id=1%262", "/items?i=1%262&id=1%262"),
            ("/item.php", "/items/{query.id}", "/item.php", "/items/"),
            ("/*", "https://example.org/{host.user}{path}", "/x", "https://example.org/a/x"),
            ("/*", "https://{host.1}.example.org{path}{query}", "/x?y", "https://a.example.org/x?y"),
            ("regex:^/([a-z.]+)/(.*)$", "https://{1}.b.org:80/{2}", "/x.y/z", "https://x.y.b.org:80/z"),
            ("/*", "https://eu-{query.shop}.b.org/", "/?shop=x", "https://eu-x.b.org/"),
            ("regex:^/([a-z]+)/(.*)$", "https://{1}.{host}/{2}", "/de/x", "https://de.a.org/x"),
        ] {
            assert_eq!(location(path, to, target, "a.org:8080").as_deref(), Ok(expected), "{to} {target}");
        }
    }

    #[test]
    fn a_client_cannot_choose_the_host() {
        for (path, to, target, expected) in [
            ("/*", "{path}", "//evil.org/x", "/evil.org/x"),
            ("/*", "/{rest}", "//evil.org/x", "/evil.org/x"),
            ("/*", "/{rest}", "///evil.org", "/evil.org"),
            ("/old/*", "/{rest}", "/old//evil.org", "/evil.org"),
            ("/*", "/{rest}", "/%5cevil.org", "/%5Cevil.org"),
            ("/*", "/{rest}", "/%2fevil.org", "/%2Fevil.org"),
            ("regex:^/a(.*)$", "/{1}", "/a//evil.org", "/evil.org"),
            ("regex:^/a(.*)$", "/x{1}", "/a//evil.org", "/x/evil.org"),
            ("/*", "/{rest}", "/%0d%0aSet-Cookie:x", "/%0D%0ASet-Cookie:x"),
        ] {
            assert_eq!(location(path, to, target, "a.org").as_deref(), Ok(expected), "{to} {target}");
        }
        let bad = Err(StatusCode::BAD_REQUEST);
        assert_eq!(location("/*", "/{rest}", "/../x", "a.org"), bad);
        assert_eq!(
            location("/*", "/{query.a}/{query.b}", "/?b=evil.org", "a.org").as_deref(),
            Ok("/evil.org")
        );
        for value in ["..", ".", "%2e%2e"] {
            assert_eq!(location("/*", "/a/{query.x}", &format!("/?x={value}"), "a.org"), bad, "{value}");
        }
        for value in
            ["", "evil.org/", "evil.org%23", "a:b@c", ".", "a..b", "%5b::1%5d", "%ff", "evil.org%5c", "a%0d"]
        {
            let target = format!("/?x={value}");
            assert_eq!(location("/*", "https://{query.x}.a.org/", &target, "a.org"), bad, "{value}");
        }
        assert_eq!(location("regex:^/(.*)$", "https://{1}.a.org/", "/evil.org/x", "a.org"), bad);
        for host in ["evil.org/x", "user@evil.org", ""] {
            assert_eq!(
                location("/*", "https://{host}{path}", "/", host),
                Err(StatusCode::BAD_REQUEST),
                "{host}"
            );
        }
    }

    #[test]
    fn invalid_targets_are_rejected_at_the_start() {
        for (path, to) in [
            ("/*", "https://example.org{rest}"),
            ("/*", "https://{rest}"),
            ("/*", "https://{path}"),
            ("/*", "https:///x"),
            ("/*", "//example.org/"),
            ("/*", "{host}/x"),
            ("/*", "{rest}"),
            ("/*", "javascript:alert(1)"),
            ("/*", "elsewhere"),
            ("/*", ""),
            ("/*", "/a b"),
            ("/*", "/a\r\nSet-Cookie: x"),
            ("/*", "/\\evil.org"),
            ("/*", "https://user@example.org/"),
            ("/*", "https://user@{host}/"),
            ("/*", "/{path"),
            ("/*", "/path}"),
            ("/*", "/{paht}"),
            ("/about", "/new/{rest}"),
            ("/about", "/{1}"),
            ("regex:^/(a)$", "/{2}"),
            ("regex:^(/.*)$", "{1}"),
            ("regex:^/(.*)$", "https://{1}"),
            ("regex:^/(.*)$", "https://{1}/"),
            ("regex:^/(.*)$", "https://{1}.org/"),
            ("regex:^/(.*)$", "https://{1}example.co.uk/"),
            ("regex:^/(.*)$", "https://www.{1}.org:80.a.b/"),
            ("regex:^/(.*)$", "https://{1}.example.org{1}/"),
            ("regex:^/(.*)$", "https://{1}{host}/"),
            ("regex:^/(.*)$", "https://{1}/.a.org"),
            ("regex:^/(.*)$", "https://{1}?.a.org"),
            ("regex:^/(.*)$", "https://{1}{path}"),
            ("regex:^/(.*)$", "https://{1}."),
            ("/*", "/{unix_time}"),
            ("/*", "{query.x}"),
            ("/*", "https://{query.x}"),
            ("/*", "/{host.none}"),
            ("/*", "/{host.2}"),
            ("/*", "/{header.Cookie}"),
        ] {
            assert!(redirect(path, to).is_err(), "{to}");
        }
    }

    #[test]
    fn every_registered_method_is_redirected() {
        let (redirect, pattern) = redirect("/*", "https://example.org/").unwrap();
        for (method, status) in [("POST", 308), ("HEAD", 308), ("OPTIONS", 308), ("BREW", 501)] {
            let request = http::Request::builder()
                .method(method)
                .body(RequestBody::empty())
                .map(Request::from)
                .unwrap();
            assert_eq!(
                respond(&redirect, &request, &RequestPath::parse("/").unwrap(), &pattern).status().as_u16(),
                status,
                "{method}"
            );
        }
    }

    proptest::proptest! {
        /// For every request, the location has the configured host and no line break.
        #[test]
        fn every_location_has_the_configured_host(
            to in proptest::sample::select(vec!["{path}{query}", "/{rest}", "/new/{rest}{query}", "https://a.org/{rest}", "https://a.org{path}"]),
            target in "/{1,3}([a-z.:@]|%2f|%5c|%0a|%0d|%40|/){0,12}(\\?[a-z/@&=]{0,6})?",
        ) {
            if let Ok(location) = location("/*", to, &target, "a.org") {
                let local = location.starts_with('/') && !location.starts_with("//");
                proptest::prop_assert!(local || location.starts_with("https://a.org/"), "{} {}", target, location);
                proptest::prop_assert!(location.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'));
            }
        }
    }
}

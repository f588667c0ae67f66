//! The `redirect` handler (RFC 9110 §15.4).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rudy_config::{Location, Problem, Setting, Shape, Table, Value};
use rudy_message::PreparedHead;
use rudy_message::semantics::reason::reason_phrase;
use rudy_pipeline::methods::reject_unknown_method;
use rudy_pipeline::routing::template::{Invalid, Piece, Subject, TARGET_PLACEHOLDERS, Template};
use rudy_pipeline::routing::{Maps, PathPattern};
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
        Ok(Box::new(Redirect::new(self, (route.paths, route.maps), route.location)?))
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
    /// A URL for a host that the path names, below this domain.
    Host(StatusCode, Template, String),
}

impl Redirect {
    /// Prepares a redirect for a route with these paths.
    pub(crate) fn new(
        table: &RedirectTable,
        (paths, maps): (&[PathPattern], &Maps),
        location: &Location,
    ) -> Result<Self, Vec<Problem>> {
        let problem = |(title, label): Invalid| vec![Problem::value(&location.key("to"), title).label(label)];
        let template = Template::parse(&table.to).and_then(|template| {
            check_target(&template, paths, maps)?;
            Ok(template)
        });
        let template = template.map_err(problem)?;
        let status = table.status.code();
        if template.as_fixed().is_none() {
            return Ok(match domain_of_groups(template.pieces()).map(str::to_owned) {
                Some(domain) => Self::Host(status, template, domain),
                None => Self::Template(status, template),
            });
        }
        // `check` allows only visible ASCII, so this does not fail.
        let location = HeaderValue::from_str(&table.to).map_err(|_| problem(invalid_character()))?;
        Ok(Self::Fixed(Arc::new(PreparedHead::new(status, fields(location))), text(status)))
    }

    /// Responds to a request. All registered methods are redirected; the status determines the method of the new request.
    pub(crate) fn respond(&self, subject: &Subject<'_>) -> Response {
        let request = subject.request;
        if let Some(rejection) = reject_unknown_method(request) {
            return rejection;
        }
        let (status, location) = match self {
            Self::Fixed(head, body) => {
                return Response::prepared(head.clone(), Body::Bytes(body.clone()));
            }
            Self::Template(status, template) => (status, location(template, subject)),
            Self::Host(status, template, domain) => {
                (status, location(template, subject).and_then(|location| below(domain, &location)))
            }
        };
        match location {
            Ok(location) => redirection(*status, location),
            Err(explanation) => pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation),
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

/// Returns a location whose host is below a domain, and has only the characters of a name.
fn below(domain: &str, location: &HeaderValue) -> Result<HeaderValue, String> {
    let text = location.to_str().unwrap_or_default();
    let authority = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split(ENDS).next().unwrap_or_default();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let name = authority.strip_suffix(domain).filter(|name| name.bytes().all(is_letter));
    name.map(|_| location.clone()).ok_or_else(|| "The path does not name a host.".to_owned())
}

/// What ends the host in a URL.
const ENDS: [char; 3] = ['/', '?', '#'];

/// Returns the domain below which groups of the path name the host: `.example.org` in `https://{1}.example.org/`.
fn domain_of_groups(pieces: &[Piece]) -> Option<&str> {
    let (mut has_group, mut domain) = (false, None);
    for piece in pieces {
        match piece {
            Piece::Literal(text) => {
                let text = text.split_once("://").map_or(&**text, |(_, rest)| rest);
                domain = text.split(ENDS).next();
                if text.contains(ENDS) {
                    break;
                }
            }
            Piece::Path | Piece::Query => break,
            _ => (has_group, domain) = (has_group || matches!(piece, Piece::Group(_)), None),
        }
    }
    domain.filter(|domain| has_group && domain.starts_with('.') && domain.len() > 1)
}

/// Checks that a client cannot choose the target host: it must be a literal, or the host of the request.
pub(super) fn check_target(template: &Template, paths: &[PathPattern], maps: &Maps) -> Result<(), Invalid> {
    let pieces = template.pieces();
    let has_capture = |text: &str| {
        text.match_indices('$').any(|(at, _)| text[at + 1..].starts_with(|next: char| next.is_ascii_digit()))
    };
    if pieces.iter().any(|piece| matches!(piece, Piece::Literal(text) if has_capture(text))) {
        let title = "captures are written {1}, not $1".to_owned();
        return Err((
            title,
            "use {1} with a path such as \"regex:^/old/(.*)$\", or %24 for a dollar sign".to_owned(),
        ));
    }
    // A client could choose the host, or a path of another route, with them. The texts of a map are those of the operator.
    let is_of_fields = |piece: &Piece| {
        use Piece::{Client, Cookie, Field, Method, Parameter, Scheme, UnixTime};
        matches!(piece, Field(_) | Cookie(_) | Parameter(_) | Method | Scheme | Client | UnixTime)
    };
    if pieces.iter().any(is_of_fields) {
        return Err(("this placeholder is for header fields".to_owned(), TARGET_PLACEHOLDERS.to_owned()));
    }
    let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\{}".contains(&byte));
    if !pieces.iter().all(|piece| !matches!(piece, Piece::Literal(text) if !visible(text))) {
        return Err(invalid_character());
    }
    template.check(paths, maps)?;
    let beginning = match pieces.first() {
        Some(Piece::Path | Piece::Map(_)) => return Ok(()),
        Some(Piece::Literal(text)) => text,
        _ => "",
    };
    if beginning.starts_with('/') && !beginning.starts_with("//") {
        // Two slashes would start a host. `/{rest}` is safe because {rest} never starts with a slash.
        return Ok(());
    }
    let Some(after_scheme) = ["http://", "https://"].iter().find_map(|scheme| beginning.strip_prefix(scheme))
    else {
        let expected = "expected \"/...\", \"{path}...\", \"http://...\" or \"https://...\"".to_owned();
        return Err(("invalid target of a redirect".to_owned(), expected));
    };
    check_authority(after_scheme, pieces)
}

/// Checks the part between scheme and path, in which only `{host}` is allowed, and groups below a domain.
fn check_authority(after_scheme: &str, pieces: &[Piece]) -> Result<(), Invalid> {
    let ends = |text: &str| text.contains(ENDS);
    if after_scheme.contains('@') {
        return Err((
            "the URL contains a user name".to_owned(),
            "expected only a host and a port".to_owned(),
        ));
    }
    let mut has_host = !after_scheme.is_empty();
    if ends(after_scheme) {
        return if after_scheme.starts_with(['/', '?', '#']) { Err(no_host()) } else { Ok(()) };
    }
    let has_domain = domain_of_groups(pieces).is_some();
    for piece in &pieces[1..] {
        match piece {
            Piece::Group(_) if has_domain => has_host = true,
            Piece::Literal(text) if ends(text) => break,
            Piece::Host | Piece::Map(_) | Piece::Literal(_) => has_host = true,
            // A path starts with a slash, and a query with a question mark, or it is empty.
            Piece::Path | Piece::Query => break,
            _ => {
                let expected = "put a slash before the placeholder".to_owned();
                return Err(("the client could choose the host".to_owned(), expected));
            }
        }
    }
    if has_host { Ok(()) } else { Err(no_host()) }
}

fn invalid_character() -> Invalid {
    let expected = "expected ASCII without spaces, backslashes or stray braces; encode others as %XX";
    ("invalid character in the URL".to_owned(), expected.to_owned())
}

fn no_host() -> Invalid {
    ("the URL has no host".to_owned(), "expected a host after the scheme".to_owned())
}

#[cfg(test)]
mod tests {
    use rudy_message::semantics::path::RequestPath;
    use rudy_service::{Client, Peer, RequestBody};

    use super::*;

    fn redirect(path: &str, to: &str) -> Result<(Redirect, PathPattern), Vec<Problem>> {
        let pattern: PathPattern = path.parse().unwrap();
        let table = RedirectTable { to: to.to_owned(), status: RedirectStatus(308) };
        Redirect::new(&table, (std::slice::from_ref(&pattern), &Maps::default()), &Location::none())
            .map(|redirect| (redirect, pattern))
    }

    fn respond(
        redirect: &Redirect,
        request: &Request<'_>,
        path: &RequestPath<'_>,
        pattern: &PathPattern,
    ) -> Response {
        let client = Client::new(Peer::Unix, 1, 1);
        redirect.respond(&Subject { request, path, pattern, client: &client, maps: &Maps::default() })
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
            ("regex:^/u/([^/]+)/(.*)$", "https://{1}.a.org/{2}", "/u/ann/x", "https://ann.a.org/x"),
            ("regex:^/u/(.+)/(.+)/", "http://{1}--{2}.a.org:81", "/u/a.b/c/x", "http://a.b--c.a.org:81"),
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
        assert_eq!(location("/*", "/{rest}", "/../x", "a.org"), Err(StatusCode::BAD_REQUEST));
        for group in
            ["evil.org/x", "evil.org%3Fx", "evil.org%23x", "user@evil.org:80", "evil.org%2Fx", "a%20b", "%5c"]
        {
            let target = format!("/u/{group}");
            assert_eq!(
                location("regex:^/u/(.*)$", "https://{1}.a.org/", &target, "a.org"),
                Err(StatusCode::BAD_REQUEST),
                "{group}"
            );
        }
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
            ("/*", "/{path"),
            ("/*", "/path}"),
            ("/*", "/{paht}"),
            ("/about", "/new/{rest}"),
            ("/about", "/{1}"),
            ("regex:^/(a)$", "/{2}"),
            ("regex:^(/.*)$", "{1}"),
            ("regex:^/(.*)$", "https://{1}"),
            ("regex:^/(.*)$", "https://{1}/.a.org"),
            ("regex:^/(.*)$", "https://{1}?.a.org"),
            ("regex:^/(.*)$", "https://{1}{path}"),
            ("regex:^/(.*)$", "https://{1}."),
            ("regex:^/(.*)$", "https://www.{1}"),
            ("regex:^/(.*)$", "https://{1}a.org/"),
            ("regex:^/(.*)$", "https://{1}.a.org{1}/"),
            ("/*", "https://{rest}.a.org/"),
            ("/*", "/{unix_time}"),
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

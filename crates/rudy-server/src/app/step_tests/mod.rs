//! Tests of the steps on whole configurations.

mod admission;
mod compress;
mod error_pages;
mod for_all_sites;
mod limits;
mod login_limits;
mod responses_in_progress;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use proptest::prelude::*;
use rudy_http::h1::{Event, ServerConnection};
use rudy_message::LazyHead;
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::{Call, Context, Explained, Resources, explain};
use rudy_service::{Client, Forwarded, Peer, Reply, Request, RequestBody, Response, Service};
use tempfile::TempDir;

use crate::App;
use crate::config::Config;

/// Loads a configuration, in a folder with some files.
pub(crate) fn load(text: &str) -> Result<Server, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rudy.toml");
    std::fs::create_dir(folder.path().join("www")).unwrap();
    std::fs::write(folder.path().join("www/a.txt"), "text").unwrap();
    std::fs::write(folder.path().join("www/index.html"), "<p>index").unwrap();
    std::fs::create_dir(folder.path().join("errors")).unwrap();
    for (name, page) in [
        ("errors/404.html", "<p>404"),
        ("errors/error.html.j2", "<p>{{ status }} {{ reason }}: {{ explanation }} at {{ host }}{{ path }}"),
        ("misspelt.html.j2", "{{ resaon }}"),
        ("broken.html.j2", "{{ reason"),
    ] {
        std::fs::write(folder.path().join(name), page).unwrap();
    }
    std::fs::write(
        folder.path().join("redirects.txt"),
        "/moved.html /new.html\n/far https://example.org/?a 302\n",
    )
    .unwrap();
    // The password is `secret`.
    let hash = "$2y$05$9c8Cio3BrXkvwXzYBWNYE..9S3XtlRg34aX7JBxuclljFm9sA2iTS";
    std::fs::write(folder.path().join("htpasswd"), format!("ann:{hash}\n")).unwrap();
    std::fs::write(&file, text).unwrap();
    let app = Config::load(&file).and_then(|config| App::new(&config, &Resources::default()));
    app.map(|app| Server { app, _folder: folder }).map_err(|errors| errors.to_string())
}

/// A configuration that is ready, and its folder.
pub(crate) struct Server {
    pub(crate) app: App,
    _folder: TempDir,
}

pub(crate) fn app(text: &str) -> Server {
    load(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Sends a GET as a client that a trusted proxy forwards with this scheme.
pub(crate) fn send(server: &Server, scheme: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    send_with(server, "GET", scheme, target, fields)
}

/// As [`send`], with another method.
pub(crate) fn send_with(
    server: &Server,
    method: &str,
    scheme: &str,
    target: &str,
    fields: &[(&str, &str)],
) -> Response {
    let mut request = http::Request::builder().method(method).uri(target).header(header::HOST, "a.org");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let peer = Peer::Ip(([192, 0, 2, 7], 1).into());
    let mut client = Client::new(peer, 1, 1);
    let scheme = Some(scheme.parse().unwrap());
    client.forwarded = Some(std::sync::Arc::new(Forwarded { address: peer, scheme, host: None }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(
        server.app.call(request.body(RequestBody::empty()).map(Request::from).unwrap(), &client).response(),
    )
}

/// Sends a GET as it is received by a connection. `None` if the response has to wait.
pub(crate) fn send_received(server: &Server, target: &str) -> Option<Response> {
    let text = format!("GET {target} HTTP/1.1\r\nHost: a.org\r\n\r\n");
    let now = std::time::Instant::now();
    match ServerConnection::new(now).receive(text.as_bytes(), now, &rudy_http::Limits::default()) {
        Ok(Some(Event::Request(head))) => {
            let request = Request::new(LazyHead::new(&head), RequestBody::empty());
            match server.app.call(request, &Client::new(Peer::Ip(([192, 0, 2, 7], 1).into()), 1, 1)) {
                Reply::Now(response) => Some(response),
                Reply::Later(_) => None,
            }
        }
        _ => panic!("not a head"),
    }
}

pub(crate) fn lines(fields: &HeaderMap, name: &str) -> Vec<String> {
    fields.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

const SITE: &str = r#"
    [[site]]
    response_headers = { X-Site = "site", X-Both = "site", X-Removed = "site", Link = { add = "<a>" } }
    [[site.route]]
    path = "/fixed"
    respond = { body = "pong", headers = { X-Own = "own", Link = "<own>" } }
    response_headers = { X-Both = "route", X-Removed = false, X-Own = false, Link = { add = "<b>" } }
    [[site.route]]
    path = "/moved"
    redirect = "/fixed"
    [[site.route]]
    path = "/secret"
    respond = 403
    [[site.route]]
    path = "/*"
    files = "www"
"#;

#[test]
fn a_route_extends_the_fields_of_its_site_for_every_response() {
    let app = app(SITE);
    for (target, status) in
        [("/fixed", 200), ("/moved", 307), ("/secret", 403), ("/a.txt", 200), ("/none", 404), ("/..", 400)]
    {
        let response = send(&app, "http", target, &[]);
        assert_eq!(response.status(), status, "{target}");
        let is_fixed = target == "/fixed";
        let own = if is_fixed { "route" } else { "site" };
        assert_eq!(lines(response.headers(), "x-site"), ["site"], "{target}");
        assert_eq!(lines(response.headers(), "x-both"), [own], "{target}");
        assert_eq!(lines(response.headers(), "x-removed").is_empty(), is_fixed, "{target}");
        let links: &[&str] = if is_fixed { &["<own>", "<a>", "<b>"] } else { &["<a>"] };
        assert_eq!(lines(response.headers(), "link"), links, "{target}");
        assert!(!response.headers().contains_key("x-own"));
    }
}

#[test]
fn a_received_request_gets_the_same_fields() {
    let app = app(SITE);
    for target in ["/fixed", "/a.txt", "/a.txt"] {
        let whole = send(&app, "http", target, &[]);
        let received = send_received(&app, target).unwrap();
        assert_eq!(whole.headers(), received.headers(), "{target}");
    }
}

#[test]
fn values_can_contain_parts_of_the_request() {
    let app = app(r#"
        [[site]]
        response_headers = { X-Seen = "{method} {scheme}://{host}{path}{query} {client} {header.accept}", X-Json = '{"a": {}}' }
        [[site.route]]
        path = "/a.txt"
        files = "www"
    "#);
    let response = send(&app, "https", "/a.txt?b=c", &[("accept", "*/*")]);
    assert_eq!(lines(response.headers(), "x-seen"), ["GET https://a.org/a.txt?b=c 192.0.2.7 */*"]);
    assert_eq!(lines(response.headers(), "x-json"), [r#"{"a": {}}"#]);
    for (target, path) in [("/none", "/none"), ("/%6Eone?x", "/none?x"), ("/..", "/")] {
        let seen = format!("GET https://a.org{path} 192.0.2.7 ");
        assert_eq!(lines(send(&app, "https", target, &[]).headers(), "x-seen"), [seen]);
    }
}

#[test]
fn the_route_that_an_internal_redirect_leads_to_sets_the_fields() {
    let app = app(r#"
        [[site]]
        response_headers = { X-Site = { add = "once" } }
        [[site.route]]
        path = "*.html"
        respond = { body = "page" }
        response_headers = { X-Route = "page" }
        [[site.route]]
        path = "/*"
        files = "www"
        response_headers = { X-Route = "files" }
    "#);
    let response = send(&app, "http", "/", &[]);
    assert_eq!(lines(response.headers(), "x-route"), ["page"]);
    assert_eq!(lines(response.headers(), "x-site"), ["once"]);
    assert_eq!(lines(send(&app, "http", "/a.txt", &[]).headers(), "x-route"), ["files"]);
}

#[test]
fn the_security_preset_does_not_replace_what_a_response_has() {
    let app = app(r#"
        [[site]]
        security_headers = true
        [[site.route]]
        path = "/framed"
        respond = { body = "x", headers = { X-Frame-Options = "DENY" } }
        [[site.route]]
        path = "/open"
        respond = { body = "x" }
        security_headers = false
        [[site.route]]
        path = "/*"
        files = "www"
    "#);
    assert_eq!(lines(send(&app, "http", "/framed", &[]).headers(), "x-frame-options"), ["DENY"]);
    assert_eq!(lines(send(&app, "http", "/a.txt", &[]).headers(), "x-frame-options"), ["SAMEORIGIN"]);
    assert!(!send(&app, "http", "/open", &[]).headers().contains_key("x-frame-options"));
}

#[test]
fn strict_transport_security_is_sent_over_https_only() {
    let app = app(r#"
        trusted_proxies = ["192.0.2.7"]
        [[site]]
        hsts = "365d"
        [[site.route]]
        path = "/*"
        files = "www"
        response_headers = { X-Site = "site" }
    "#);
    for target in ["/a.txt", "/none"] {
        let over = |scheme| {
            let response = send(&app, scheme, target, &[]);
            assert_eq!(lines(response.headers(), "x-site"), ["site"]);
            response.headers().contains_key(header::STRICT_TRANSPORT_SECURITY)
        };
        assert!(over("https") && !over("http"), "{target}");
    }
}

#[test]
fn settings_that_cannot_work_are_reported() {
    for (setting, expected) in [
        ("response_headers = { Content-Length = '1' }", "Content-Length cannot be changed"),
        ("response_headers = { connection = false }", "connection cannot be changed"),
        ("request_headers = { Host = 'b' }", "Host cannot be changed"),
        ("response_headers = { X = '{paht-x}' }", "unknown placeholder {paht-x}"),
        ("response_headers = { X = '{1}' }", "{1} is no placeholder, and no group"),
        ("response_headers = { X = true }", "`true` is not a value"),
        ("response_headers = { X = { always = true } }", "unknown change to a field"),
        ("response_headers = { X = { set = '1', add = '2' } }", "two changes to a field"),
        ("request_headers = { X = { set = '1', always = true } }", "`always` is for responses"),
        ("response_headers = { X = '1', x = '2' }", "duplicate header field x"),
        ("response_headers = { X = \"a\\nb\" }", "line feeds"),
    ] {
        let text = format!("[[site]]\nroot = 'www'\n{setting}\n");
        let message = load(&text).err().unwrap_or_default();
        assert!(message.contains(expected), "{setting}: {message}");
    }
}

#[test]
fn a_rewrite_responds_with_another_path() {
    let app = app(r#"
        [[site]]
        response_headers = { X-Site = { add = "once" } }
        [[site.route]]
        path = "regex:^/user/([0-9]+)(?<below>/.*)?$"
        rewrite = "/shown?id={1}&below={below}"
        [[site.route]]
        path = "/old/*"
        rewrite = "/new/{rest}"
        [[site.route]]
        path = "/shown"
        respond = { body = "a user" }
        response_headers = { X-Seen = "{path}{query}" }
        [[site.route]]
        path = "/new/*"
        respond = { body = "new" }
        response_headers = { X-Seen = "{path}{query}" }
        [[site.route]]
        path = "/up/*"
        rewrite = "/new/../../{rest}"
    "#);
    for (target, seen) in [
        ("/user/12", "/shown?id=12&below="),
        ("/user/12/caf%C3%A9?x", "/shown?id=12&below=/caf%C3%A9"),
        ("/old/a%2Fb?x=y", "/new/a%2Fb?x=y"),
    ] {
        let response = send(&app, "http", target, &[]);
        assert_eq!(response.status(), 200, "{target}");
        assert_eq!(lines(response.headers(), "x-seen"), [seen], "{target}");
        assert_eq!(lines(response.headers(), "x-site"), ["once"], "{target}");
    }
    assert_eq!(send(&app, "http", "/user/x", &[]).status(), 404);
    assert_eq!(send(&app, "http", "/up/x", &[]).status(), 400);
}

#[test]
fn a_rewrite_does_not_bypass_the_rules_of_its_target() {
    let app = app(r#"
        [[site]]
        [[site.route]]
        path = "/secret/*"
        respond = 403
        [[site.route]]
        path = "/open/*"
        rewrite = "/secret/{rest}"
        [[site.route]]
        path = "/around/*"
        rewrite = "/{rest}"
        [[site.route]]
        path = "/*"
        respond = { body = "open" }
    "#);
    for target in
        ["/open/x", "/around/secret/x", "/around//secret/x", "/around/%73ecret/x", "/around/./secret"]
    {
        assert_eq!(send(&app, "http", target, &[]).status(), 403, "{target}");
    }
}

#[test]
fn loops_of_rewrites_are_found_at_the_start_or_stopped() {
    for routes in [
        "[[site.route]]\npath = '/a'\nrewrite = '/a'\n",
        "[[site.route]]\npath = '/*'\nrewrite = '{path}'\n",
        "[[site.route]]\npath = '/a'\nrewrite = '/b{query}'\n[[site.route]]\npath = '/b'\nrewrite = '/a?x'\n",
    ] {
        let message = load(&format!("[[site]]\n{routes}")).err().unwrap_or_default();
        assert!(message.contains("this rewrite loops"), "{routes}: {message}");
    }
    let app = app("[[site]]\n[[site.route]]\npath = '/a/*'\nrewrite = '/a/b/{rest}'\n");
    assert_eq!(send(&app, "http", "/a/x", &[]).status(), 500);
}

#[test]
fn single_paths_are_redirected_before_any_route() {
    let app = app(r#"
        [[site]]
        redirects = "redirects.txt"
        response_headers = { X-Site = "site" }
        [[site.route]]
        path = "/*"
        respond = { body = "here" }
    "#);
    for (target, status, location) in [
        ("/moved.html", 301, "/new.html"),
        ("/%6Doved.html?x=y", 301, "/new.html?x=y"),
        ("/far?x", 302, "https://example.org/?a"),
    ] {
        let response = send(&app, "http", target, &[]);
        assert_eq!(response.status(), status, "{target}");
        assert_eq!(lines(response.headers(), "location"), [location], "{target}");
        assert_eq!(lines(response.headers(), "x-site"), ["site"], "{target}");
    }
    assert_eq!(send(&app, "http", "/new.html", &[]).status(), 200);
    assert_eq!(send_received(&app, "/moved.html").map(|response| response.status().as_u16()), Some(301));
    let message = load("[[site]]\nroot = 'www'\nredirects = 'errors/404.html'\n").err().unwrap_or_default();
    assert!(message.contains("line 1: expected a path, a target"), "{message}");
}

#[test]
fn a_route_limits_the_time_to_its_response() {
    let app = app(r#"
        [[site]]
        request_timeout = "10ms"
        error_pages = { 504 = "/slow" }
        [[site.route]]
        path = "/slow"
        respond = { body = "too slow" }
        [[site.route]]
        path = "/late"
        delay = { time = "10m" }
        [[site.route]]
        path = "/*"
        delay = { time = "1ms", body = "in time" }
        request_timeout = "1h"
    "#);
    assert_eq!(send(&app, "http", "/late", &[]).status(), 504);
    assert_eq!(send(&app, "http", "/", &[]).status(), 200);
}

/// A site whose steps decide on everything of a request.
const GUARDED: &str = r#"
    trusted_proxies = ["10.0.0.0/8"]
    [[site]]
    cors = { origins = "https://b.org", methods = ["PUT"] }
    response_headers = { X-Seen = "{method}" }
    error_pages = "errors"
    [[site.route]]
    path = "/listed/*"
    access = [{ deny = "192.0.2.0/24" }, { allow = "anyone", methods = "GET", headers = { X-A = "a*" } }]
    request_headers = { X-A = false }
    respond = { body = "page" }
    [[site.route]]
    path = "/near/*"
    allow = ["loopback", "203.0.113.7"]
    respond = { body = "page" }
    [[site.route]]
    path = "/secret/*"
    basic_auth = "htpasswd"
    respond = { body = "page" }
    [[site.route]]
    path = "/down/*"
    maintenance = { file = "htpasswd", allow = "192.0.2.0/24" }
    respond = { body = "page" }
    [[site.route]]
    path = "/*"
    respond = { body = "page" }
"#;

thread_local! {
    static GUARDED_SERVER: Server = app(GUARDED);
}

/// What `rudy check --explain` says about a request, and the status that the server responds with.
fn explained_and_served(
    server: &Server,
    request: impl Fn() -> Request<'static>,
    client: &Client<'_>,
) -> (Option<StatusCode>, StatusCode) {
    let (routes, made) = (server.app.routes(), request());
    let path = RequestPath::parse(made.path()).unwrap().into_owned();
    let found = routes.router.find(&made, &path, client).unwrap();
    let call = Call { path: &path, route: &found, context: Context::new(client, routes) };
    let responded = explain(request(), &call).into_iter().find_map(|explained| match explained {
        Explained::Responded(status, _) => Some(status),
        Explained::Skipped(_) | Explained::Allowed(_) => None,
    });
    let Reply::Now(response) = server.app.call(made, client) else { panic!("no step waits") };
    (responded, response.status())
}

proptest! {
    #[test]
    fn a_request_is_explained_as_it_is_served(
        method in prop::sample::select(&["GET", "HEAD", "PUT", "OPTIONS"][..]),
        folder in prop::sample::select(&["listed", "near", "secret", "down", "open"][..]),
        host in prop::sample::select(&["a.org", "localhost"][..]),
        address in prop::sample::select(&["127.0.0.1", "192.0.2.7", "203.0.113.7", "10.0.0.1"][..]),
        fields in prop::collection::vec(
            prop::sample::select(&[
                ("x-a", "abc"),
                ("x-a", "b"),
                ("origin", "https://b.org"),
                ("access-control-request-method", "PUT"),
                ("x-forwarded-for", "198.51.100.1"),
                ("x-real-ip", "198.51.100.1"),
            ][..]),
            0..4,
        ),
    ) {
        let request = || {
            let mut request = Request::default();
            request.set_method(method.parse().unwrap());
            request.set_uri(format!("/{folder}/x").parse().unwrap());
            for (name, value) in [("host", host)].iter().chain(&fields) {
                request.add(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            request
        };
        let client = Client::new(Peer::Ip((address.parse::<IpAddr>().unwrap(), 1).into()), 1, 1);
        let (explained, served) = GUARDED_SERVER.with(|server| explained_and_served(server, request, &client));
        let of_handler = match method {
            "GET" | "HEAD" => StatusCode::OK,
            "OPTIONS" => StatusCode::NO_CONTENT,
            _ => StatusCode::METHOD_NOT_ALLOWED,
        };
        prop_assert_eq!(explained.unwrap_or(of_handler), served);
    }
}

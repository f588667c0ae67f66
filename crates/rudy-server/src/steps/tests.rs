//! Tests of the steps on whole configurations.

use http::{HeaderMap, header};
use rudy_http::h1::{Event, ServerConnection};
use rudy_net::{Client, Forwarded, Peer, RequestBody, Response, Service};
use tempfile::TempDir;

use crate::config::Config;
use crate::{App, Resources};

/// Loads a configuration, in a folder with some files.
pub(super) fn load(text: &str) -> Result<Server, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rudy.toml");
    std::fs::create_dir(folder.path().join("www")).unwrap();
    std::fs::write(folder.path().join("www/a.txt"), "text").unwrap();
    std::fs::write(folder.path().join("www/index.html"), "<p>index").unwrap();
    std::fs::write(&file, text).unwrap();
    let app = Config::load(&file).and_then(|config| App::new(&config, &Resources::default()));
    app.map(|app| Server { app, _folder: folder }).map_err(|errors| errors.to_string())
}

/// A configuration that is ready, and its folder.
pub(super) struct Server {
    app: App,
    _folder: TempDir,
}

pub(super) fn app(text: &str) -> Server {
    load(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Sends a request as a client that a trusted proxy forwards with this scheme.
pub(super) fn send(server: &Server, scheme: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    let mut request = http::Request::get(target).header(header::HOST, "a.org");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let peer = Peer::Ip(([192, 0, 2, 7], 1).into());
    let mut client = Client::new(peer, 1, 1);
    let scheme = Some(scheme.parse().unwrap());
    client.forwarded = Some(std::sync::Arc::new(Forwarded { address: peer, scheme, host: None }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.app.call(request.body(RequestBody::empty()).unwrap(), &client).response())
}

/// Sends a request of which only the head is needed.
fn send_head(server: &Server, target: &str) -> Option<Response> {
    let text = format!("GET {target} HTTP/1.1\r\nHost: a.org\r\n\r\n");
    let now = std::time::Instant::now();
    match ServerConnection::new(now).receive(text.as_bytes(), now, &rudy_http::Limits::default()) {
        Ok(Some(Event::Request(head))) => server.app.call_head(&head, None),
        _ => panic!("not a head"),
    }
}

fn lines(fields: &HeaderMap, name: &str) -> Vec<String> {
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
fn a_response_from_the_head_alone_has_the_same_fields() {
    let app = app(SITE);
    for target in ["/fixed", "/a.txt", "/a.txt"] {
        let whole = send(&app, "http", target, &[]);
        let from_head = send_head(&app, target).unwrap();
        assert_eq!(whole.headers(), from_head.headers(), "{target}");
    }
}

#[test]
fn values_can_contain_parts_of_the_request() {
    let app = app(r#"
        [[site]]
        response_headers = { X-Seen = "{method} {scheme}://{host}{path}{query} {client} {header.accept}", X-Json = '{"a": {}}' }
        [[site.route]]
        path = "/*"
        files = "www"
    "#);
    assert!(send_head(&app, "/a.txt").is_none());
    let response = send(&app, "https", "/a.txt?b=c", &[("accept", "*/*")]);
    assert_eq!(lines(response.headers(), "x-seen"), ["GET https://a.org/a.txt?b=c 192.0.2.7 */*"]);
    assert_eq!(lines(response.headers(), "x-json"), [r#"{"a": {}}"#]);
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
    // The scheme is that of the proxy.
    assert!(send_head(&app, "/a.txt").is_none());
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
        ("response_headers = { X = { set = '1' } }", "unknown change to a field"),
        ("response_headers = { X = '1', x = '2' }", "duplicate header field x"),
        ("response_headers = { X = \"a\\nb\" }", "line feeds"),
    ] {
        let text = format!("[[site]]\nroot = 'www'\n{setting}\n");
        let message = load(&text).err().unwrap_or_default();
        assert!(message.contains(expected), "{setting}: {message}");
    }
}

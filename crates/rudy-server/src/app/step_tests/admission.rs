//! Tests of who may send requests, on whole configurations.

use std::sync::Arc;

use http::{StatusCode, header};
use rudy_service::{Client, Forwarded, Peer, Request, RequestBody, Response, Service};

use super::{Server, app, load, send_received};

/// Sends a request of a client at `peer`.
fn send(
    server: &Server,
    client: &Client<'_>,
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
) -> Response {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.app.call(request(method, target, fields), client).response())
}

fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> Request<'static> {
    let mut request = http::Request::builder().method(method).uri(target).header(header::HOST, "a.org");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(RequestBody::empty()).map(Request::from).unwrap()
}

fn at(address: &str) -> Client<'static> {
    Client::new(Peer::Ip(format!("{address}:5000").parse().unwrap()), 1, 1)
}

fn behind_proxy(address: Peer) -> Client<'static> {
    let forwarded = Forwarded { address, scheme: None, host: None };
    Client { forwarded: Some(Arc::new(forwarded)), ..at("10.0.0.1") }
}

fn status(server: &Server, client: &Client<'_>, method: &str, target: &str) -> u16 {
    send(server, client, method, target, &[]).status().as_u16()
}

/// `ann:secret`.
const ANN: (&str, &str) = ("authorization", "Basic YW5uOnNlY3JldA==");

#[test]
fn the_setting_of_a_route_replaces_that_of_its_site() {
    let app = app(r#"
        [[site]]
        deny = "192.0.2.7"
        maintenance = "off"
        basic_auth = "htpasswd"
        cors = { origins = "https://b.org" }
        [[site.route]]
        path = "/open"
        respond = { body = "open" }
        access = false
        basic_auth = false
        cors = false
        [[site.route]]
        path = "/inner"
        respond = { body = "inner" }
        allow = "192.0.2.7"
        basic_auth = false
        [[site.route]]
        path = "/closed"
        respond = { body = "closed" }
        maintenance = "www"
        [[site.route]]
        path = "/*"
        respond = { body = "rest" }
    "#);
    let [one, other] = ["192.0.2.7", "192.0.2.8"].map(at);
    for (target, expected) in
        [("/open", [200, 200]), ("/inner", [200, 403]), ("/closed", [503, 503]), ("/x", [403, 401])]
    {
        assert_eq!([&one, &other].map(|client| status(&app, client, "GET", target)), expected, "{target}");
    }
    let origin = ("origin", "https://b.org");
    let allowed = |target| {
        let response = send(&app, &other, "GET", target, &[origin]);
        response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN)
    };
    assert_eq!(["/open", "/inner", "/x"].map(allowed), [false, true, true]);
    assert_eq!(send(&app, &other, "GET", "/x", &[ANN]).status(), 200);
}

/// A client, a method, a path, header fields, and the status.
type Case<'a> = (&'a Client<'a>, &'a str, &'a str, &'a [(&'a str, &'a str)], u16);

#[test]
fn the_first_access_rule_that_matches_decides() {
    let app = app(r#"
        [[site]]
        hosts = "a.org"
        [[site.route]]
        path = "/rules"
        respond = { body = "x", headers = { Allow = "x" } }
        access = [
            { deny = "192.0.2.0/24", methods = ["POST", "PUT"] },
            { allow = "192.0.2.0/24" },
            { deny = "anyone", headers = { User-Agent = "*bot*" } },
            { allow = "anyone", headers = { X-A = "*", X-B = "b" } },
        ]
        [[site.route]]
        path = "/denied"
        respond = { body = "x" }
        access = { deny = "192.0.2.7" }
        [[site.route]]
        path = "/lists"
        respond = { body = "x" }
        allow = ["192.0.2.0/24", "loopback"]
        deny = "192.0.2.7"
    "#);
    let far = at("203.0.113.1");
    let all: [Case<'_>; 14] = [
        (&at("192.0.2.1"), "GET", "/rules", &[], 200),
        (&at("192.0.2.1"), "POST", "/rules", &[], 403),
        (&at("192.0.2.1"), "GET", "/rules", &[("user-agent", "a bot/1")], 200),
        (&far, "GET", "/rules", &[], 403),
        (&far, "GET", "/rules", &[("x-a", ""), ("x-b", "b")], 200),
        (&far, "GET", "/rules", &[("x-a", ""), ("x-b", "bb")], 403),
        (
            &far,
            "GET",
            "/rules",
            &[("x-a", ""), ("x-b", "b"), ("user-agent", "x"), ("user-agent", "bot")],
            403,
        ),
        (&at("192.0.2.7"), "GET", "/denied", &[], 403),
        (&far, "GET", "/denied", &[], 200),
        (&at("192.0.2.7"), "GET", "/lists", &[], 403),
        (&at("192.0.2.8"), "GET", "/lists", &[], 200),
        (&at("127.0.0.1"), "GET", "/lists", &[], 200),
        (&at("127.0.0.1"), "GET", "/lists", &[("via", "1.1 proxy")], 403),
        (&far, "GET", "/lists", &[], 403),
    ];
    for (client, method, target, fields, expected) in all {
        let response = send(&app, client, method, target, fields);
        assert_eq!(response.status(), expected, "{client:?} {method} {target} {fields:?}");
    }
}

#[test]
fn addresses_are_those_of_the_client_behind_a_proxy() {
    let app = app(r#"
        trusted_proxies = ["10.0.0.1"]
        [[site]]
        [[site.route]]
        path = "/allowed"
        respond = { body = "x" }
        allow = ["192.0.2.7", "10.0.0.0/8"]
        [[site.route]]
        path = "/denied"
        respond = { body = "x" }
        deny = "192.0.2.7"
    "#);
    let client = |address: &str| behind_proxy(Peer::Ip(format!("{address}:0").parse().unwrap()));
    let unknown = behind_proxy(Peer::Unnamed(Some([10, 0, 0, 1].into())));
    for (client, allowed, denied) in
        [(client("192.0.2.7"), 200, 403), (client("192.0.2.8"), 403, 200), (unknown, 403, 403)]
    {
        assert_eq!(status(&app, &client, "GET", "/allowed"), allowed, "{client:?}");
        assert_eq!(status(&app, &client, "GET", "/denied"), denied, "{client:?}");
    }
}

#[test]
fn a_rejected_request_has_the_page_and_the_fields_of_its_site() {
    let app = app(r#"
        [[site]]
        response_headers = { X-Site = "site" }
        error_pages = "errors"
        cors = { origins = "https://b.org" }
        [[site.route]]
        path = "/denied"
        respond = { body = "x" }
        deny = "anyone"
        [[site.route]]
        path = "/login"
        respond = { body = "x" }
        basic_auth = { file = "htpasswd", realm = "staff" }
        [[site.route]]
        path = "/maintained"
        respond = { body = "x" }
        maintenance = { file = "www", retry_after = "1m" }
    "#);
    for (target, status) in [("/denied", 403), ("/login", 401), ("/maintained", 503), ("/none", 404)] {
        let response = send(&app, &at("192.0.2.7"), "GET", target, &[("origin", "https://b.org")]);
        assert_eq!(response.status(), status, "{target}");
        let fields = response.headers();
        assert_eq!(fields["x-site"], "site", "{target}");
        assert_eq!(fields["access-control-allow-origin"], "https://b.org", "{target}");
        let vary: Vec<_> = fields.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
        assert!(vary.contains(&"Origin"), "{target}: {vary:?}");
        let rudy_service::Body::Bytes(page) = &response.body else { panic!("a page is in memory") };
        assert!(page.starts_with(b"<p>"), "{target}: {page:?}");
        assert_eq!(fields.contains_key("www-authenticate"), status == 401);
        assert_eq!(
            fields.get("retry-after").map(|value| value.to_str().unwrap()),
            (status == 503).then_some("60")
        );
    }
}

#[test]
fn a_preflight_request_needs_no_login_but_passes_the_access_rules() {
    let app = app(r#"
        [[site]]
        cors = { origins = "https://b.org", methods = ["PUT"] }
        basic_auth = "htpasswd"
        deny = "192.0.2.7"
        [[site.route]]
        path = "/*"
        respond = { body = "x" }
    "#);
    let preflight = [("origin", "https://b.org"), ("access-control-request-method", "PUT")];
    let response = send(&app, &at("192.0.2.8"), "OPTIONS", "/", &preflight);
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()["access-control-allow-methods"], "PUT");
    assert_eq!(response.headers()["access-control-allow-origin"], "https://b.org");
    assert_eq!(send(&app, &at("192.0.2.7"), "OPTIONS", "/", &preflight).status(), 403);
    assert_eq!(status(&app, &at("192.0.2.8"), "OPTIONS", "/"), 401);
}

#[test]
fn a_login_is_checked_for_each_spelling_of_a_path_and_after_an_internal_redirect() {
    let app = app(r#"
        [[site]]
        [[site.route]]
        path = "/secret/*"
        respond = { body = "secret" }
        basic_auth = "htpasswd"
        [[site.route]]
        path = "/open/*"
        rewrite = "/{rest}"
        [[site.route]]
        path = "/*"
        respond = { body = "open" }
    "#);
    for target in ["/secret/x", "//secret/x", "/%73ecret/x", "/a/../secret/x", "/open/secret/x"] {
        for (fields, expected) in
            [(&[][..], 401), (&[ANN], 200), (&[("authorization", "Basic YW5uOng=")], 401)]
        {
            let response = send(&app, &at("192.0.2.7"), "GET", target, fields);
            assert_eq!(response.status(), expected, "{target} {fields:?}");
        }
    }
    assert_eq!(status(&app, &at("192.0.2.7"), "GET", "/x"), 200);
    let received = |target| send_received(&app, target).unwrap().status();
    assert_eq!((received("/x"), received("/secret/x")), (StatusCode::OK, StatusCode::UNAUTHORIZED));
}

#[test]
fn a_route_without_these_settings_has_no_step() {
    let app = app("[[site]]\n[[site.route]]\npath = '/*'\nrespond = { body = 'x' }\n");
    let targets = app.app.routes().router.handlers();
    assert!(targets.into_iter().all(|target| target.steps.is_empty()));
}

#[test]
fn settings_that_cannot_work_are_reported() {
    for (setting, expected) in [
        ("access = [{ allow = 'anyone', deny = 'anyone' }]", "both `allow` and `deny`"),
        ("access = [{ methods = 'GET' }]", "neither `allow` nor `deny`"),
        ("access = [{ allow = 'anyone', methods = 'get' }]", "a method in capital letters"),
        ("access = [{ deny = 'anyone', methods = 'CONNECT' }]", "no request matches CONNECT"),
        ("access = [{ allow = 'anyone', headers = { 'a b' = '*' } }]", "is not a field name"),
        (
            "access = { deny = 'anyone', certificate = 'CN=bob,*' }",
            "the site asks for no client certificates",
        ),
        ("access = []", "the list is empty"),
        ("access = true", "expected a table"),
        ("allow = 'all'", "write \"anyone\" for all clients"),
        ("allow = '10.0.0.0/8'\naccess = [{ deny = 'anyone' }]", "`access` replaces `allow` and `deny`"),
        ("basic_auth = 'none'", "cannot use the users of"),
        ("basic_auth = 'www/a.txt'", "line 1 has no colon"),
        ("basic_auth = { file = 'htpasswd', realm = \"a\\nb\" }", "a text of ASCII characters"),
        ("forward_auth = 'a/verify'", "the scheme is missing"),
        (
            "forward_auth = { url = 'http://127.0.0.1:1/', copy = 'Connection' }",
            "connection cannot be copied",
        ),
        ("forward_auth = { url = 'https://a/', trusted_certificates = 'none' }", "trusted_certificates"),
        ("cors = { origins = 'b.org' }", "\"b.org\" is not an origin"),
        ("cors = { origins = '*', credentials = true }", "all sites would get the data of users"),
        ("maintenance = {}", "file"),
    ] {
        let message = load(&format!("[[site]]\nroot = 'www'\n{setting}\n")).err().unwrap_or_default();
        assert!(message.contains(expected), "{setting}: {message}");
        let route = format!("[[site]]\n[[site.route]]\npath = '/*'\nfiles = 'www'\n{setting}\n");
        let message = load(&route).err().unwrap_or_default();
        assert!(message.contains(expected), "{setting}: {message}");
    }
}

//! Requests that Rudy rejects by itself, before a handler has them or while it receives their bodies.

use rudy_tests::prelude::*;

/// A page that does not fit into one write.
fn large_page() -> Vec<u8> {
    [&b"<p>large"[..], &vec![b'x'; 600_000]].concat()
}

/// Starts a server whose configuration has `FOLDER` for a folder with pages, which it reads at its start.
fn start(text: &str) -> Server {
    let folder = Folder::new();
    for (name, page) in [("a", b"<p>a".to_vec()), ("b", b"<p>b".to_vec()), ("c", large_page())] {
        folder.write(&format!("{name}.html"), page);
    }
    Server::config(&text.replace("FOLDER", &folder.to_string()))
}

/// Three sites with a page each: two with a host, and the default site.
fn sites(more: &str, tls: &str) -> Server {
    let site = |hosts: &str, name: &str| {
        format!(
            "[[site]]\n{hosts}\n{tls}error_pages = {{ 4xx = {{ file = 'FOLDER/{name}.html' }}, 5xx = '/page' }}\n\
             response_headers = {{ X-Site = '{name}', X-Path = '{{path}}' }}\n\
             [[site.route]]\npath = '/*'\nrespond = {{ body = 'handler of {name}' }}\n"
        )
    };
    let sites = [site("hosts = 'a.test'", "a"), site("hosts = 'b.test'", "b"), site("", "c")].concat();
    start(&format!("{more}\n{sites}"))
}

fn rejected(server: &Server, request: &str) -> Response {
    let mut connection = server.send(request.as_bytes());
    let is_head = request.starts_with("HEAD");
    let response = if is_head { connection.head_response() } else { connection.response() };
    assert_eq!(response.field("connection"), Some("close"), "{request:?}");
    assert!(connection.is_closed(), "{request:?}");
    response
}

#[test]
fn a_rejected_request_gets_the_page_and_the_fields_of_its_site() {
    let server = sites("listen = '127.0.0.1:0'\nlimits = { head_bytes = 1000, target_bytes = 500 }", "");
    let long = "x".repeat(1000);
    for (request, status, site, path) in [
        // The host is known.
        ("CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80", 405, "a", "/"),
        ("GET /x HTTP/1.1\r\nHost: b.test\r\nExpect: x", 417, "b", "/x"),
        ("GET http://a.test/x HTTP/1.1\r\nHost: b.test\r\nExpect: x", 417, "a", "/x"),
        ("POST / HTTP/1.1\r\nHost: b.test\r\nContent-Length: x", 400, "b", "/"),
        // It is not, or it is not trustworthy.
        ("GET  / HTTP/1.1\r\nHost: a.test", 400, "c", "/"),
        ("GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test", 400, "c", "/"),
        ("GET / HTTP/1.1\r\nHost: a.test\r\nX : y", 400, "c", "/"),
        (&format!("GET / HTTP/1.1\r\nHost: a.test\r\nX: {long}"), 431, "c", "/"),
        (&format!("GET /{long} HTTP/1.1\r\nHost: a.test"), 414, "c", "/"),
    ] {
        let response = rejected(&server, &format!("{request}\r\n\r\n"));
        assert_eq!((response.status, response.field("x-site")), (status, Some(site)), "{request:?}");
        assert_eq!(response.field("x-path"), Some(path), "{request:?}");
        let page = if site == "c" { large_page() } else { format!("<p>{site}").into_bytes() };
        assert!(response.body == page, "{request:?}: {} bytes", response.body.len());
        assert_eq!(response.field("allow").is_some(), status == 405, "{request:?}");
    }
}

#[test]
fn a_rejection_has_the_form_that_the_client_accepts_and_calls_no_handler() {
    let server = sites("listen = '127.0.0.1:0'", "");
    let json =
        rejected(&server, "GET / HTTP/1.1\r\nHost: a.test\r\nAccept: application/json\r\nExpect: x\r\n\r\n");
    assert_eq!(json.field("content-type"), Some("application/problem+json"));
    assert!(json.text().contains("\"status\":417"), "{}", json.text());
    let head = rejected(&server, "HEAD  / HTTP/1.1\r\n\r\n");
    assert_eq!((head.status, head.field("content-length")), (400, Some(&*large_page().len().to_string())));
    // The page for 5xx is a path of the site.
    let unsupported = rejected(&server, "GET / HTTP/3.0\r\nHost: a.test\r\n\r\n");
    assert_eq!((unsupported.status, unsupported.field("x-site")), (505, Some("c")));
    assert_contains!(unsupported.text(), "Request rejected: unsupported HTTP version");
}

#[test]
fn a_response_before_a_rejection_arrives_before_it() {
    let server = sites("listen = '127.0.0.1:0'", "");
    let mut connection = server.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET  / HTTP/1.1\r\n");
    assert_eq!(connection.response().text(), "handler of a");
    assert_eq!(connection.response().body.len(), large_page().len());
    assert!(connection.is_closed());
}

#[test]
fn a_rejected_request_over_http_2_gets_its_page_and_does_not_end_the_connection() {
    let server = sites("listen = '127.0.0.1:0,h2c'\nlimits = { head_bytes = 1000, target_bytes = 500 }", "");
    let mut connection = Http2Connection::open(server.address(), &[]);
    let long = "x".repeat(1000);
    for (stream, fields, status) in [(1, ("expect", "x"), 417), (5, ("x", &*long), 431)] {
        connection.request(stream, "GET", "/x", &[fields], true);
        // The page is larger than the window of the stream.
        let response = connection.response(stream);
        assert_eq!((response.status, response.field("x-site")), (status, Some("c")));
        assert_eq!(response.body.len(), large_page().len());
        connection.get(stream + 2, "/");
        assert_eq!(connection.response(stream + 2).text(), "handler of c");
    }
}

#[test]
fn the_server_name_of_tls_decides_where_the_host_is_unknown() {
    let Some(certificates) = Certificates::for_host("all", "a.test,DNS:b.test,DNS:c.test") else { return };
    let tls = certificates.settings("all");
    let tls = format!("tls = {{ {tls} }}\n");
    let server = sites("listen = '127.0.0.1:0,tls'", &tls);
    let client = TlsClient::new(&certificates, None, false);
    for (name, site) in [("a.test", "a"), ("b.test", "b"), ("c.test", "c")] {
        let mut connection = client.connect(server.address(), name).unwrap();
        let response = connection.exchange("GET  / HTTP/1.1\r\n\r\n");
        assert_eq!((response.status, response.field("x-site")), (400, Some(site)), "{name}");
    }
}

#[test]
fn a_host_without_a_site_gets_the_page_of_the_only_site() {
    let site = "[[site]]\nhosts = 'a.test'\nerror_pages = { 421 = { file = 'FOLDER/a.html' } }\nroot = '.'\n";
    let text_of = |server: &Server| {
        let response = server.get_with("/", &["Host: b.test"]);
        assert_eq!(response.status, 421);
        response.text().to_owned()
    };
    assert_eq!(text_of(&start(&format!("listen = '127.0.0.1:0'\n{site}"))), "<p>a");
    // With several sites, none of them is meant.
    let other = site.replace("a.test", "c.test");
    let server = start(&format!("listen = '127.0.0.1:0'\n{site}{other}"));
    assert_eq!(text_of(&server), "421 Misdirected Request\nNo site is configured for this host.\n");
}

/// A site with an app that reads the bodies of its requests, and pages that another route makes.
fn uploads(limits: &str) -> (Server, App) {
    let app = App::serve(|peer, _| {
        let Some(length) = peer.body() else { return };
        peer.respond(format!("Content-Type: text/plain\r\n\r\n{length}").as_bytes());
    });
    let server = Server::config(&format!(
        "listen = '127.0.0.1:0,h2c'\nlimits = {{ {limits} }}\n[[site]]\nresponse_headers = {{ X-Path = '{{path}}' }}\n\
         [[site.route]]\npath = '/sorry'\nrespond = {{ body = 'sorry' }}\n\
         [[site.route]]\npath = '/*'\nerror_pages = {{ 4xx = '/sorry' }}\nfastcgi = {{ address = '{app}' }}\n"
    ));
    (server, app)
}

fn is_sorry(connection: &mut Connection, status: u16) {
    let response = connection.response();
    assert_eq!((response.status, response.text(), response.field("x-path")), (status, "sorry", Some("/up")));
    assert_eq!(response.field("connection"), Some("close"));
    assert!(connection.is_closed());
}

#[test]
fn a_body_with_a_syntax_error_gets_the_page_of_its_route() {
    let (server, _app) = uploads("");
    let head = "POST /up HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut connection = server.send(format!("{head}3\r\nabc\r\nzz\r\n"));
    is_sorry(&mut connection, 400);
}

#[test]
fn a_body_that_is_too_slow_gets_the_page_of_its_route() {
    let (server, _app) = uploads("rate_grace = '100ms'");
    let mut connection = server.send(b"POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\na");
    is_sorry(&mut connection, 408);
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.request(1, "POST", "/up", &[], false);
    connection.frame(kind::DATA, 0, 1, b"a");
    let response = connection.response(1);
    assert_eq!((response.status, response.text(), response.field("x-path")), (408, "sorry", Some("/up")));
    // The rest of the request is discarded.
    connection.frame(kind::DATA, END, 1, b"b");
    connection.get(3, "/sorry");
    assert_eq!(connection.response(3).text(), "sorry");
}

#[test]
fn a_slow_head_gets_the_page_of_the_default_site() {
    let server = sites("listen = '127.0.0.1:0'\nlimits = { head_timeout = '100ms' }", "");
    let response = rejected(&server, "GET / HTTP/1.1\r\nHost: a.test\r\n");
    assert_eq!((response.status, response.field("x-site")), (408, Some("c")));
    assert_eq!(response.body.len(), large_page().len());
}

//! What the upstream receives, and what of its response the client receives.

use rudy_tests::prelude::*;

use crate::proxy::{FINE, proxy, proxy_with, recorder};

/// Sends a request, and returns what the upstream receives.
fn forward(server: &Server, requests: &Receiver<UpstreamRequest>, request: &str) -> UpstreamRequest {
    assert_eq!(server.send(request.as_bytes()).response().status_and_text(), (200, "fine"), "{request}");
    requests.recv().expect("the upstream runs")
}

#[test]
fn a_request_is_passed_on_without_the_fields_of_its_connection() {
    let (upstream, requests) = recorder(FINE);
    let server = proxy(&upstream, "");
    let received = forward(
        &server,
        &requests,
        "POST /app/a?b=%20 HTTP/1.1\r\nHost: a.example:81\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
         Keep-Alive: timeout=5\r\nUpgrade: h2c\r\nX-End: 1\r\nX-End: 2\r\nX-Forwarded-For: 127.0.0.1\r\n\
         Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    );
    // The case of a name has no meaning (RFC 9110 §5.1).
    let lowercase = received.head.to_lowercase();
    assert!(received.head.starts_with("POST /app/a?b=%20 HTTP/1.1\r\n"), "{}", received.head);
    let mut lines = lowercase.lines();
    lines.next();
    let mut fields: Vec<_> = lines.filter(|line| !line.starts_with("via: 1.1 rudy-")).collect();
    fields.sort_unstable();
    let expected = "content-length: 3, host: a.example:81, x-end: 1, x-end: 2, x-forwarded-for: 127.0.0.1, \
                    x-forwarded-host: a.example:81, x-forwarded-proto: http";
    assert_eq!(fields.join(", "), expected);
    assert_eq!((received.body.as_slice(), received.trailers.as_str()), (&b"abc"[..], ""));
}

#[test]
fn the_path_is_passed_on_as_sent_but_without_dot_segments() {
    let (upstream, requests) = recorder(FINE);
    let server = proxy(&upstream, "");
    for (sent, received) in [
        ("/app//a%20b/%61?x=/../", "/app//a%20b/%61?x=/../"),
        ("/app/x/../a", "/app/a"),
        ("/x/../app/%2e/a", "/app/a"),
        ("/app/a?<\">", "/app/a?%3C%22%3E"),
        ("/app/é?ü", "/app/%C3%A9?%C3%BC"),
    ] {
        let request = format!("POST {sent} HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\n\r\nabc");
        let request = forward(&server, &requests, &request);
        assert_eq!((request.target(), request.body.as_slice()), (received, &b"abc"[..]), "{sent}");
    }
}

#[test]
fn a_prefix_is_removed_and_added() {
    let (upstream, requests) = recorder(FINE);
    let server = proxy(&upstream, "strip_prefix = true\nadd_prefix = \"/v1\"\n");
    let received = forward(&server, &requests, "GET /app/a?b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(received.target(), "/v1/a?b");
}

#[test]
fn a_path_with_dot_segments_that_an_upstream_could_resolve_is_rejected() {
    let (upstream, requests) = recorder(FINE);
    let server = proxy(&upstream, "strip_prefix = true\nadd_prefix = \"/v1\"\n");
    for path in ["..%2fadmin", "..%2Fapp%2Fa", "a%2F..%2Fb", "a%2f.", "..%5cadmin", "..\\admin", "a%5C.%2Fb"]
    {
        assert_eq!(server.get(&format!("/app/{path}")).status, 400, "{path}");
    }
    assert_eq!(upstream.accepted(), 0);
    let received = forward(&server, &requests, "GET /app/a%2fb%5C..c HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(received.target(), "/v1/a%2fb%5C..c");
}

#[test]
fn parameters_of_a_path_do_not_lead_an_upstream_to_another_route() {
    let (upstream, requests) = recorder(FINE);
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/admin/*\"\nrespond = 403\n\
         [[site.route]]\npath = \"*.css\"\nfiles = \".\"\n\
         [[site.route]]\npath = \"/*\"\nproxy = \"{upstream}\"\n"
    ));
    let public = "..;/admin ..;x=y/admin .;/a %2e%2E;/admin ..%3b/admin ..%3B".split(' ');
    let others = "/..;/a /admin;/a /admin;x=y /;/admin/a /a%2F..;%2Fb".split(' ').map(str::to_owned);
    for path in public.map(|path| format!("/public/{path}")).chain(others) {
        assert_eq!(server.get(&path).status, 400, "{path}");
    }
    assert_eq!(upstream.accepted(), 0);
    for path in ["/app;jsessionid=1/a;b=c?d;e", "/style.css;jsessionid=1", "/public;/.a", "/...;/a"] {
        let received = forward(&server, &requests, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(received.target(), path);
    }
}

/// Fields that only proxies set, in some spellings.
const OF_PROXIES: &str = "X-Real-IP X_Real_IP X-Forwarded-Port X-Forwarded-Prefix X-Forwarded-Ssl X-Forwarded-Server \
    X_Forwarded_Prefix X-Original-URL X-Rewrite-URL X-Client-IP True-Client-IP Forwarded Client-IP X-Sendfile-Type";

#[test]
fn fields_that_only_proxies_set_do_not_come_from_clients() {
    let (upstream, requests) = recorder(FINE);
    let lines = OF_PROXIES.split(' ').fold(String::new(), |lines, name| lines + name + ": for=forged\r\n");
    let request = format!("GET /app/ HTTP/1.1\r\nHost: a\r\nX-Other: 1\r\n{lines}\r\n");
    for top in ["", "trusted_proxies = \"127.0.0.1\""] {
        let server = proxy_with(&upstream, top, "");
        let received = forward(&server, &requests, &request);
        for name in OF_PROXIES.split(' ') {
            // The server writes `Forwarded` itself, if `forwarded = true`.
            let is_kept = !top.is_empty() && !name.contains('_') && name != "Forwarded";
            assert_eq!(received.field(name).is_some_and(|value| value.contains("forged")), is_kept, "{name}");
        }
        assert_eq!(received.field("x-other"), Some("1"));
    }
    // What the configuration sets arrives.
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nrequest_headers = {{ X-Real-IP = \"{{client}}\" }}\n\
         [[site.route]]\npath = \"/*\"\nproxy = \"{upstream}\"\n"
    ));
    assert_eq!(forward(&server, &requests, &request).field("x-real-ip"), Some("127.0.0.1"));
}

#[test]
fn host_is_that_of_the_client_unless_configured() {
    let (upstream, requests) = recorder(FINE);
    let server = proxy(&upstream, "");
    let of_upstream = upstream.address().to_string();
    for (request, host) in [
        ("GET /app/ HTTP/1.1\r\nHost: a:1\r\n\r\n", "a:1"),
        ("GET http://b/app/ HTTP/1.1\r\nHost: a\r\n\r\n", "b"),
        ("GET /app/ HTTP/1.0\r\n\r\n", of_upstream.as_str()),
    ] {
        let received = forward(&server, &requests, request);
        assert_eq!(received.field("host"), Some(host), "{request}");
        assert!(received.head.starts_with("GET /app/ HTTP/1.1\r\n"), "{request}: {}", received.head);
    }
    let server = proxy(&upstream, "host = \"upstream\"\n");
    let received = forward(&server, &requests, "GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(received.field("host"), Some(of_upstream.as_str()));
    assert_eq!(received.field("x-forwarded-host"), Some("a"));
}

#[test]
fn a_client_cannot_hide_its_address_behind_a_byte_that_is_not_ascii() {
    let (upstream, requests) = recorder(FINE);
    let server = proxy_with(&upstream, "trusted_proxies = \"127.0.0.1\"", "forwarded = true\n");
    let request = "GET /app/ HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: \u{e9}, 203.0.113.9\r\n\
                   Forwarded: for=\"\u{e9}\", for=203.0.113.9\r\n\r\n";
    let received = forward(&server, &requests, request);
    assert_eq!(received.field("x-forwarded-for"), Some("\u{e9}, 203.0.113.9, 127.0.0.1"));
    let forwarded = received.field("forwarded").unwrap_or_default();
    assert!(forwarded.starts_with("for=\"\u{e9}\", for=203.0.113.9, for=127.0.0.1;"), "{forwarded}");
}

#[test]
fn fields_of_a_trusted_proxy_are_continued() {
    let (upstream, requests) = recorder(FINE);
    let server = proxy_with(&upstream, "trusted_proxies = \"127.0.0.1\"", "forwarded = true\n");
    let forwarded = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https";
    let request = format!("GET /app/ HTTP/1.1\r\nHost: a\r\n{forwarded}\r\n\r\n");
    let received = forward(&server, &requests, &request);
    assert_eq!(received.field("x-forwarded-for"), Some("192.0.2.1, 127.0.0.1"));
    assert_eq!(received.field("x-forwarded-proto"), Some("https"));
    assert_eq!(received.field("forwarded"), Some("for=127.0.0.1;host=\"a\";proto=https"));
}

#[test]
fn the_host_that_a_proxy_reports_reaches_the_upstream_only_if_it_is_trusted() {
    for (trust, given, expected) in [
        ("", "b", "a"),
        ("trust_forwarded_host = true", "b", "b"),
        // The proxy appends its own to that of the client.
        ("trust_forwarded_host = true", "evil, b", "b"),
    ] {
        let (upstream, requests) = recorder(FINE);
        let server = proxy_with(&upstream, &format!("trusted_proxies = \"127.0.0.1\"\n{trust}"), "");
        let forwarded = format!("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: {given}");
        let request = format!("GET /app/ HTTP/1.1\r\nHost: a\r\n{forwarded}\r\n\r\n");
        let received = forward(&server, &requests, &request);
        for name in ["host", "x-forwarded-host"] {
            assert_eq!(received.field(name), Some(expected), "{trust} {given}: {name}");
        }
    }
}

#[test]
fn requests_over_http2_reach_an_upstream_over_http11() {
    let (upstream, requests) = recorder(FINE);
    let server = proxy(&upstream, "");
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.request(1, "GET", "/app/a", &[("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers")], true);
    assert_eq!(connection.response(1).text(), "fine");
    let received = requests.recv().expect("the upstream runs");
    for (name, value) in
        [("host", "localhost"), ("cookie", "a=1; b=2"), ("te", "trailers"), ("connection", "te")]
    {
        assert_eq!(received.field(name), Some(value), "{name}");
    }
    assert!(received.field("via").is_some_and(|via| via.starts_with("2 rudy-")), "{}", received.head);
}

#[test]
fn fields_of_the_connection_to_the_upstream_are_not_passed_on() {
    let head = "HTTP/1.1 201 Made\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nServer: s\r\n\
                Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (upstream, _requests) = recorder(format!("{head}3\r\nabc\r\n0\r\n\r\n"));
    let response = proxy(&upstream, "").get("/app/");
    assert_eq!((response.status, response.text()), (201, "abc"));
    for name in ["x-hop", "keep-alive"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    assert_eq!(response.field("server"), Some("s"));
    assert_eq!(response.fields("set-cookie").collect::<Vec<_>>(), ["a=1", "b=2"]);
}

#[test]
fn connections_are_reused() {
    let upstream = Upstream::serve(|peer, request| match request.target() {
        "/app/head" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        "/app/304" => peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"),
        "/app/204" => peer.send("HTTP/1.1 204 No Content\r\n\r\n"),
        _ => peer.respond("fine"),
    });
    let server = proxy(&upstream, "");
    let mut connection = server.send(b"HEAD /app/head HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = connection.head_response();
    assert_eq!((head.status, head.field("content-length")), (200, Some("1000")));
    for (target, status) in [("/app/304", 304), ("/app/204", 204), ("/app/", 200), ("/app/", 200)] {
        assert_eq!(connection.get(target, &["Host: a"]).status, status, "{target}");
    }
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn a_loop_ends_with_508() {
    // The proxy leads to itself.
    let port = ReservedPort::new();
    let server = Server::config(&format!(
        "listen = [\"{0}\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\nproxy = \"http://{0}\"\n",
        port.address()
    ));
    assert_eq!(server.get("/").status, 508);
}

#[test]
fn connect_is_rejected() {
    let (upstream, _requests) = recorder(FINE);
    let response = proxy(&upstream, "").exchange(b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n");
    assert!(response.starts_with(b"HTTP/1.1 405 "), "{}", String::from_utf8_lossy(&response));
}

#[test]
fn the_quick_command_line_serves_an_application() {
    let (upstream, requests) = recorder(FINE);
    let server = Server::build().args(["--listen", "127.0.0.1:0", "--proxy", &upstream.url()]).start();
    forward(&server, &requests, "GET /any HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

#[test]
fn redirects_and_cookies_of_an_upstream_lead_to_this_server() {
    let upstream = Upstream::serve(|peer, request| {
        let host = request.field("x-own-host").unwrap_or_default().to_owned();
        peer.send(format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{host}/login?next=/\r\nSet-Cookie: a=b; Path=/\r\n\
                 Content-Length: 0\r\n\r\n"
        ));
    });
    let get = |server: &Server| {
        let mut connection = server.connect();
        let host = upstream.address();
        let response = connection.get("/app/a", &["Host: a", &format!("X-Own-Host: {host}")]);
        ["location", "set-cookie"].map(|name| response.field(name).unwrap_or_default().to_owned())
    };
    let server = proxy(&upstream, "strip_prefix = true\nrewrite_location = true\nrewrite_cookies = true");
    assert_eq!(get(&server), ["/app/login?next=/", "a=b; Path=/app/"]);
    let server = proxy(&upstream, "strip_prefix = true");
    assert_eq!(get(&server), [format!("{upstream}/login?next=/"), "a=b; Path=/".to_owned()]);
}

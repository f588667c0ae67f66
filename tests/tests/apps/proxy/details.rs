//! Details of messages that clients and upstreams depend on.

use rudy_tests::prelude::*;

use crate::proxy::{FINE, proxy, proxy_http2, proxy_with, recorder};

/// Starts a server with these lines after the line of its listener. `URL` is the URL of the upstream.
fn server(upstream: &Upstream, lines: &str) -> Server {
    Server::config(&format!("listen = [\"127.0.0.1:0,h2c\"]\n{}", lines.replace("URL", &upstream.url())))
}

#[test]
fn an_error_page_and_a_fallback_are_requested_by_their_own_paths() {
    let (upstream, requests) = recorder(FINE);
    let server = server(
        &upstream,
        "[[site]]\nerror_pages = { 403 = \"/errors/403.html\" }\n\
         [[site.route]]\npath = \"/errors/*\"\nproxy = \"URL\"\n\
         [[site.route]]\npath = \"/page\"\nproxy = \"URL\"\n\
         [[site.route]]\npath = \"/secret/*\"\nfiles = \".\"\naccess = [{ deny = \"anyone\" }]\n\
         [[site.route]]\npath = \"/*\"\nfiles = { root = \".\", fallback = \"page\" }\n",
    );
    for (sent, status, received) in [
        ("/secret/a?b", 403, "/errors/403.html?b"),
        ("/none?b", 200, "/page?b"),
        ("/errors/./x", 200, "/errors/x"),
    ] {
        let response = server.get(sent);
        assert_eq!((response.status, response.text()), (status, "fine"), "{sent}");
        assert_eq!(requests.recv().expect("the upstream runs").target(), received, "{sent}");
    }
}

#[test]
fn the_spelling_behind_a_removed_prefix_is_kept_and_invalid_characters_are_encoded() {
    let (upstream, requests) = recorder(FINE);
    let table = "{ upstreams = \"URL\", strip_prefix = true }";
    let server =
        server(&upstream, &format!("[[site]]\n[[site.route]]\npath = \"/my files/*\"\nproxy = {table}\n"));
    for (sent, received) in [
        ("/my%20files//a%2Bb;c?d=%7e", "//a%2Bb;c?d=%7e"),
        ("/x/../my%20files/./a%2Bb//c", "/a%2Bb//c"),
        ("/my%20files/{a}?b|c[]", "/%7Ba%7D?b%7Cc[]"),
    ] {
        assert_eq!(server.get(sent).text(), "fine", "{sent}");
        assert_eq!(requests.recv().expect("the upstream runs").target(), received, "{sent}");
    }
}

#[test]
fn the_date_of_the_upstream_is_kept() {
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    let dated = format!("HTTP/1.1 200 OK\r\nDate: {DATE}\r\nContent-Length: 4\r\n\r\nfine");
    let (upstream, _requests) = recorder(dated);
    for more in ["", "rewrite_location = true"] {
        let server = proxy(&upstream, more);
        let response = server.get("/app/");
        assert_eq!(response.fields("date").collect::<Vec<_>>(), [DATE], "{more}");
        let mut connection = Http2Connection::open(server.address(), &[]);
        connection.get(1, "/app/");
        assert_eq!(connection.response(1).field("date"), Some(DATE), "{more}");
    }
    let (upstream, _requests) = recorder(FINE);
    assert_eq!(proxy(&upstream, "").get("/app/").fields("date").count(), 1);
}

#[test]
fn the_date_of_a_stored_response_is_kept() {
    // Without a time of its own it would be stale, but it is valid for a century.
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    let fresh = "Cache-Control: max-age=3153600000";
    let dated = format!("HTTP/1.1 200 OK\r\nDate: {DATE}\r\n{fresh}\r\nContent-Length: 4\r\n\r\nfine");
    let (upstream, _requests) = recorder(dated);
    let route = "[[site]]\n[[site.route]]\npath = \"/*\"\ncache = true\nproxy = \"URL\"\n";
    let server = server(&upstream, &format!("[cache]\npath = \"cache\"\n{route}"));
    for _ in 0..3 {
        let response = server.get("/a");
        assert_eq!(response.fields("date").collect::<Vec<_>>(), [DATE]);
    }
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn options_with_max_forwards_ends_at_the_proxy() {
    let (upstream, requests) = recorder(FINE);
    let server = proxy(&upstream, "");
    let mut connection = server.connect();
    let mut options = |hops| connection.exchange("OPTIONS", "/app/", &[&format!("Max-Forwards: {hops}")]);
    let response = options(0);
    assert_eq!((response.status, response.field("allow").is_some()), (204, true));
    assert_eq!(options(3).text(), "fine");
    assert_eq!(requests.recv().expect("the upstream runs").field("max-forwards"), Some("2"));
}

#[test]
fn a_head_with_bare_lf_white_space_and_many_fields_is_passed_on() {
    let many = "X-Many: 1\r\n".repeat(400);
    let long = "x".repeat(50_000);
    let head = format!("HTTP/1.1 200 OK\nX-Old : 1\nX-Long: {long}\r\n{many}Content-Length : 4\n\nfine");
    let (upstream, _requests) = recorder(head);
    let response = proxy(&upstream, "").get("/app/");
    assert_eq!((response.status, response.text(), response.field("x-old")), (200, "fine", Some("1")));
    assert_eq!((response.field("x-long"), response.fields("x-many").count()), (Some(&*long), 400));
}

#[test]
fn other_spellings_of_framing_fields_do_not_reach_the_upstream() {
    let (upstream, requests) = recorder(FINE);
    for top in ["", "trusted_proxies = \"127.0.0.1\""] {
        let server = proxy_with(&upstream, top, "");
        let request = "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\nContent_Length: 1\r\n\
                       Content-Length: 3\r\n\r\nabc";
        let mut connection = server.send(request);
        assert_eq!(connection.response().status, 200);
        let received = requests.recv().expect("the upstream runs");
        assert_eq!((received.field("transfer_encoding"), received.field("content_length")), (None, None));
        assert_eq!((received.field("content-length"), &*received.body), (Some("3"), &b"abc"[..]));
    }
}

#[test]
fn the_upstream_gets_the_address_of_a_named_field_in_the_usual_list() {
    let (upstream, requests) = recorder(FINE);
    let fields = "X-Edge-IP: 203.0.113.7\r\nX-Forwarded-For: 1.1.1.1\r\nForwarded: for=1.1.1.1\r\n";
    let two = format!("X-Edge-IP: 1.1.1.1\r\n{fields}");
    for (trusted, fields, list, own) in [
        ("127.0.0.1", fields, "203.0.113.7, 127.0.0.1", Some("203.0.113.7")),
        // Without one address.
        ("127.0.0.1", &*two, "127.0.0.1", Some("1.1.1.1")),
        ("127.0.0.1", "X_Edge_IP: 1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\n", "127.0.0.1", None),
        ("192.0.2.1", fields, "127.0.0.1", None),
    ] {
        let top = format!("trusted_proxies = \"{trusted}\"\nclient_address = \"x-edge-ip\"");
        let server = proxy_with(&upstream, &top, "");
        let request = format!("GET /app/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(server.send(request).response().status, 200);
        let received = requests.recv().expect("the upstream runs");
        assert_eq!((received.field("x-forwarded-for"), received.field("x-edge-ip")), (Some(list), own));
        assert_eq!((received.field("forwarded"), received.field("x_edge_ip")), (None, None));
    }
}

#[test]
fn a_connection_is_not_used_after_the_time_that_the_upstream_keeps_it() {
    for (field, connections) in [("timeout=0", 2), ("timeout=100, max=5", 1), ("max=0", 1)] {
        let (upstream, _requests) =
            recorder(FINE.replace("OK\r\n", &format!("OK\r\nKeep-Alive: {field}\r\n")));
        let server = proxy_with(&upstream, "engine = \"task\"", "");
        for _ in 0..2 {
            assert_eq!(server.get("/app/").text(), "fine");
        }
        assert_eq!(upstream.accepted(), connections, "{field}");
    }
}

#[test]
fn a_client_of_grpc_gets_a_status_of_grpc() {
    let port = ReservedPort::new();
    let server = proxy_http2(&format!("h2c://{}", port.address()), "");
    let mut connection = Http2Connection::open(server.address(), &[]);
    for (stream, path, code) in [(1, "/app/a.B/C", "14"), (3, "/a.B/C", "12")] {
        connection.request(stream, "POST", path, &OF_GRPC, true);
        assert_status_of_grpc(&connection.response(stream), code);
    }
    // A stream whose body becomes too large.
    let (sender, begun) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        sender.send(peer.head()).expect("the test runs");
        peer.wait_for_end();
    });
    let server = proxy_with(&upstream, "limits = { body_bytes = 4 }", "");
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.request(1, "POST", "/app/", &OF_GRPC, false);
    begun.recv().expect("the upstream runs");
    connection.frame(0, 0, 1, b"12345");
    assert_status_of_grpc(&connection.response(1), "2");
}

const OF_GRPC: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];

fn assert_status_of_grpc(response: &Http2Response, code: &str) {
    assert_eq!((response.status, response.text()), (200, ""));
    let field = |name| response.field(name).unwrap_or_default();
    assert_eq!((field("content-type"), field("grpc-status")), ("application/grpc", code));
    assert!(!field("grpc-message").is_empty());
}

#[test]
fn the_host_in_a_field_of_a_request_can_be_replaced() {
    let (upstream, requests) = recorder(FINE);
    let server = server(
        &upstream,
        "[[site]]\n[[site.route]]\npath = \"/*\"\nproxy = \"URL\"\n\
         request_headers = { Destination = { replace = \"http://{host}/\", with = \"URL/\" } }\n",
    );
    let destination = "Destination: http://dav.example/b%20c";
    assert_eq!(server.request("MOVE", "/a", &["Host: dav.example", destination]).status, 200);
    let received = requests.recv().expect("the upstream runs");
    assert_eq!(received.field("destination"), Some(&*format!("{upstream}/b%20c")));
}

#[test]
fn a_response_that_breaks_off_is_sent_up_to_there() {
    let part = vec![b'x'; 3_000_000];
    for head in ["Content-Length: 5000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n4c4b40\r\n"] {
        let (sender, closed) = mpsc::channel();
        let response = [format!("HTTP/1.1 200 OK\r\n{head}").as_bytes(), &part].concat();
        let upstream = Upstream::start(move |peer| {
            if peer.request().is_some() {
                peer.send(&response);
                sender.send(()).expect("the test runs");
            }
        });
        let server = proxy(&upstream, "");
        let mut client = server.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        // The client reads only after the failure.
        closed.recv().expect("the upstream runs");
        client.head();
        let rest = client.read_to_end();
        assert_eq!(rest.split(|byte| *byte == b'x').count() - 1, part.len(), "{head}");
        assert!(!rest.ends_with(b"0\r\n\r\n") && client.is_closed(), "{head}");
    }
}

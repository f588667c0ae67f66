//! Changes of protocol: WebSocket, and what must not pass.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rudy_tests::prelude::*;

use crate::proxy::proxy;

/// The handshake of RFC 6455 §1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub(crate) const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

pub(crate) const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";

/// Returns the value that shows that the upstream knows the key (RFC 6455 §4.2.2).
pub(crate) fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

pub(crate) fn handshake(target: &str, upgrade: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: {upgrade}\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
}

/// Sends back what it receives, four bytes at a time, until the end.
fn echo(peer: &mut UpstreamPeer) {
    loop {
        let bytes = peer.read_exactly(4);
        peer.send(&bytes);
        if bytes == b"last" {
            return;
        }
    }
}

/// An upstream that sends what follows `/app/`, and echoes after a right handshake.
fn upstream() -> (Upstream, mpsc::Receiver<String>) {
    let (sender, heads) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        while let Some(request) = peer.request() {
            sender.send(request.head.clone()).expect("the test runs");
            match request.target() {
                "/app/echo" => {
                    // The first message comes together with the response.
                    peer.send(format!("{SWITCH}Sec-WebSocket-Accept: {ACCEPT}\r\n\r\nhi! "));
                    echo(peer);
                    return;
                }
                "/app/wrong-accept" => peer.send(format!("{SWITCH}Sec-WebSocket-Accept: {KEY}\r\n\r\n")),
                "/app/no-accept" => peer.send(format!("{SWITCH}\r\n")),
                "/app/no-upgrade" => {
                    peer.send(format!("HTTP/1.1 101 Go\r\nSec-WebSocket-Accept: {ACCEPT}\r\n\r\n"));
                }
                "/app/other" => peer.send(format!("{SWITCH}\r\n").replace("websocket", "h2c")),
                "/app/refused" => peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"),
                _ => peer.respond("fine"),
            }
        }
    });
    (upstream, heads)
}

fn open(server: &Server) -> Connection {
    let mut connection = server.send(handshake("/app/echo", "websocket").as_bytes());
    let response = connection.response();
    assert_eq!((response.status, response.field("sec-websocket-accept")), (101, Some(ACCEPT)));
    assert_eq!(response.field("upgrade"), Some("websocket"));
    assert_eq!(connection.read_exactly(4), b"hi! ");
    connection
}

#[test]
fn a_websocket_passes_until_one_end_closes_it() {
    let (upstream, heads) = upstream();
    let server = proxy(&upstream, "");
    let mut connection = open(&server);
    let head = heads.recv().expect("the upstream runs").to_ascii_lowercase();
    assert!(head.contains("connection: upgrade\r\n") && head.contains("upgrade: websocket\r\n"), "{head}");
    for message in [b"ping", b"pong", b"last"] {
        connection.send(message);
        assert_eq!(connection.read_exactly(4), message);
    }
    assert!(connection.is_closed());
    assert_eq!(server.get("/app/").text(), "fine");
}

#[test]
fn a_large_amount_passes_in_both_directions_at_once() {
    let (upstream, _heads) = upstream();
    let server = proxy(&upstream, "");
    let mut connection = open(&server);
    let mut sender = connection.socket().try_clone().expect("a descriptor is free");
    let total = 4_000_000;
    let sending = thread::spawn(move || {
        Write::write_all(&mut sender, &b"abcd".repeat(total / 4)).expect("the server reads");
    });
    let received = connection.read_exactly(total);
    sending.join().expect("no panic");
    assert!(received == b"abcd".repeat(total / 4));
}

#[test]
fn a_change_that_was_not_agreed_on_is_502() {
    let (upstream, _heads) = upstream();
    let server = proxy(&upstream, "");
    for (target, status) in [
        // The client has made the key, and checks the response to it.
        ("/app/wrong-accept", 101),
        ("/app/no-accept", 101),
        ("/app/no-upgrade", 502),
        ("/app/other", 502),
        ("/app/refused", 403),
        ("/app/", 200),
    ] {
        let response = server.send(handshake(target, "websocket").as_bytes()).response();
        assert_eq!(response.status, status, "{target}");
        let error = (status == 502).then_some("rudy; error=http_upgrade_failed");
        assert_eq!(response.field("proxy-status"), error, "{target}");
    }
}

#[test]
fn an_upgrade_without_a_websocket_handshake_passes() {
    let (sender, requests) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        let Some(request) = peer.request() else { return };
        let protocol = request.field("upgrade").unwrap_or("none").to_owned();
        sender.send(request).expect("the test runs");
        peer.send(format!("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\nhi! "));
        echo(peer);
    });
    let server = proxy(&upstream, "");
    // The last is how a client of Docker starts a program in a container.
    for (method, protocol, body) in
        [("GET", "websocket", ""), ("GET", "tcp", ""), ("POST", "tcp", ""), ("POST", "tcp", "{\"Tty\":true}")]
    {
        let head = format!("{method} /app/exec HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n", body.len());
        let upgrade = format!("Connection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
        let mut connection = server.send(head + &upgrade + body);
        let response = connection.response();
        assert_eq!((response.status, response.field("upgrade")), (101, Some(protocol)), "{method} {body}");
        let request = requests.recv().expect("the upstream runs");
        assert!(request.head.starts_with(method), "{}", request.head);
        assert_eq!(request.body, body.as_bytes());
        assert_eq!(connection.read_exactly(4), b"hi! ");
        for message in [b"ping", b"last"] {
            connection.send(message);
            assert_eq!(connection.read_exactly(4), message);
        }
        assert!(connection.is_closed());
    }
}

#[test]
fn the_log_says_what_was_not_offered() {
    let (upstream, _heads) = upstream();
    let mut server = proxy(&upstream, "");
    assert_eq!(server.send(handshake("/app/no-accept", "other").as_bytes()).response().status, 502);
    let line = server.wait_for_line("changed the protocol (101)");
    assert!(line.contains("the request that it received offered none"), "{line}");
}

#[test]
fn a_success_without_a_tunnel_is_502_over_http2() {
    let upstream = Upstream::serve(move |peer, request| {
        let status = request.target().trim_start_matches("/app/").to_owned();
        let rest = if status == "204" { "\r\n" } else { "Content-Length: 4\r\n\r\npage" };
        peer.send(format!("HTTP/1.1 {status} X\r\n{rest}"));
    });
    let mut server = proxy(&upstream, "");
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.wait_for(kind::SETTINGS);
    let statuses = [("200", 502), ("204", 502), ("206", 502), ("302", 302), ("403", 403), ("500", 500)];
    for (stream, (upstream, client)) in (1..).step_by(2).zip(statuses) {
        connection.frame(kind::HEADERS, 4, stream, &tunnel(&format!("/app/{upstream}")));
        assert_eq!(connection.response(stream).status, client, "{upstream}");
    }
    server.wait_for_line("the upstream responded with 200 to a WebSocket handshake");
}

#[test]
fn only_listed_protocols_are_offered_to_the_upstream() {
    let (upstream, heads) = upstream();
    for (more, upgrade, offered) in [
        ("", "h2c", None),
        ("", "TLS/1.3, HTTP/3.0", None),
        ("", "derp, websocket", Some("upgrade: websocket")),
        ("upgrade_protocols = \"derp\"\n", "derp, h2c", Some("upgrade: derp")),
    ] {
        let server = proxy(&upstream, more);
        let mut connection = server.send(handshake("/app/", upgrade).as_bytes());
        assert_eq!(connection.response().text(), "fine");
        let head = heads.recv().expect("the upstream runs");
        assert_eq!(head.lines().find(|line| line.starts_with("upgrade:")), offered, "{upgrade}");
        assert_eq!(head.contains("connection:"), offered.is_some(), "{upgrade}");
    }
}

#[test]
fn a_websocket_outlives_a_reload_and_ends_with_the_server() {
    let (upstream, _heads) = upstream();
    let mut server = proxy(&upstream, "");
    let mut connection = open(&server);
    let route = "\n[[site.route]]\npath = \"/new\"\nrespond = 404\n";
    server.reload_changed(|text| text + route, "the configuration was reloaded");
    connection.send(b"ping");
    assert_eq!(connection.read_exactly(4), b"ping");
    server.signal(Signal::TERM);
    assert!(connection.is_closed());
    assert!(server.wait().0.success());
}

#[test]
fn an_idle_websocket_is_closed() {
    let (upstream, _heads) = upstream();
    for limit in ["tunnel_idle_timeout = \"300ms\"\n", "tunnel_lifetime = \"300ms\"\n"] {
        let server = proxy(&upstream, limit);
        assert!(open(&server).is_closed(), "{limit}");
    }
}

#[test]
fn a_websocket_over_http2_reaches_an_upstream_over_http11() {
    let (sender, heads) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        let Some(request) = peer.request() else { return };
        let key = request.field("sec-websocket-key").expect("the proxy makes a key").to_owned();
        sender.send(request.head).expect("the test runs");
        let accept = accept(&key);
        peer.send(format!("{SWITCH}Sec-WebSocket-Accept: {accept}\r\n\r\nhi! "));
        echo(peer);
    });
    // A tunnel is no body, so its size has no limit.
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0,h2c\"]\n[[site]]\nbody_bytes = 4\n[[site.route]]\npath = \"/app/*\"\n\
         proxy = \"{upstream}\"\n[[site.route]]\npath = \"/*\"\nrespond = \"fixed\"\n"
    ));
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.wait_for(kind::SETTINGS);
    connection.frame(kind::HEADERS, 4, 1, &tunnel("/app/echo"));
    let head = heads.recv().expect("the upstream runs");
    assert_contains!(head, "GET /app/echo HTTP/1.1\r\n", "upgrade: websocket\r\n");
    assert_eq!(connection.wait_for(kind::DATA).payload, b"hi! ");
    for message in [b"ping", b"pong", b"last"] {
        connection.frame(kind::DATA, 0, 1, message);
        assert_eq!(connection.wait_for(kind::DATA).payload, message);
    }
    // Other handlers must not send a 2xx, which would open a tunnel.
    connection.frame(kind::HEADERS, 4, 3, &tunnel("/other"));
    assert_eq!(connection.response(3).status, 405);
}

#[test]
fn a_websocket_over_http3_reaches_an_upstream_over_http11() {
    let upstream = Upstream::start(move |peer| {
        let Some(request) = peer.request() else { return };
        let accept = accept(request.field("sec-websocket-key").expect("the proxy makes a key"));
        peer.send(format!("{SWITCH}Sec-WebSocket-Accept: {accept}\r\n\r\nhi! "));
        echo(peer);
    });
    let server = Server::config(&format!(
        "listen = \"127.0.0.1:{},tls\"\n[[site]]\ntls = \"self-signed\"\nbody_bytes = 4\n[[site.route]]\npath = \"/app/*\"\n\
         proxy = \"{upstream}\"\n[[site.route]]\npath = \"/*\"\nrespond = \"fixed\"\n",
        free_port()
    ));
    let mut connection = Http3Client::new().open(server.address());
    // SETTINGS_ENABLE_CONNECT_PROTOCOL is 1 (RFC 9220 §3).
    let settings = connection.control_frame(h3_kind::SETTINGS).expect("the connection is open");
    assert!(settings.windows(2).any(|setting| setting == [8, 1]), "{settings:?}");
    let mut open = |path: &str| {
        let head = [&h3_head("CONNECT", path)[..], &[(":protocol", "websocket")]].concat();
        let head = [&head[..], &[("sec-websocket-version", "13")]].concat();
        let stream = connection.open_stream();
        connection.send(stream, &h3_headers(&head));
        stream
    };
    let (tunnel, other) = (open("/app/echo"), open("/other"));
    // Other handlers must not send a 2xx, which would open a tunnel.
    assert_eq!(connection.response(other).status, 405);
    let mut expected = b"hi! ".to_vec();
    for message in [b"ping", b"pong", b"last"] {
        connection.response_until(tunnel, |response| response.body == expected);
        connection.data(tunnel, message);
        expected.extend_from_slice(message);
    }
    let response = connection.response(tunnel);
    assert_eq!((response.status, response.body, response.reset), (200, expected, None));
}

/// Rules by method are written for the GET of HTTP/1.1, in Rudy and in authorizers.
#[test]
fn a_websocket_over_http2_is_a_get_for_rules_and_authorizers() {
    let (sender, questions) = mpsc::channel();
    let authorizer = Upstream::serve(move |peer, request| {
        let is_get = request.field("x-forwarded-method") == Some("GET");
        peer.send(format!(
            "HTTP/1.1 {}\r\nContent-Length: 0\r\n\r\n",
            if is_get { "200 OK" } else { "401 No" }
        ));
        // Fails if the test has ended.
        let _ = sender.send(request);
    });
    let (upstream, _heads) = upstream();
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0,h2c']\n[[site]]\nforward_auth = '{authorizer}'\n\
         access = {{ allow = 'anyone', methods = 'GET' }}\n[[site.route]]\npath = '/*'\n\
         when = {{ methods = 'GET' }}\nproxy = '{upstream}'\n"
    ));
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.wait_for(kind::SETTINGS);
    connection.frame(kind::HEADERS, 4, 1, &tunnel("/app/refused"));
    let (response, question) = (connection.response(1), questions.recv().expect("the authorizer runs"));
    assert_eq!(response.status_and_text(), (403, "no"), "the application responds");
    assert_eq!(question.field("x-original-method"), Some("GET"));
    assert_eq!(question.field("sec-websocket-version"), Some("13"));
}

/// The header block of a request for a WebSocket over HTTP/2 (RFC 8441 §5).
pub(crate) fn tunnel(path: &str) -> Vec<u8> {
    rudy_tests::http2::block(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", path),
        ("sec-websocket-version", "13"),
    ])
}

//! Connections that go to upstreams as they are (`[[tcp]]`).

mod ends;
mod names;
mod processes;

use rudy_tests::prelude::*;

/// An upstream that sends back what it receives, and then this word.
fn echo(word: &'static str) -> Upstream {
    Upstream::start(move |peer| {
        let (mut socket, mut buffer) = (peer.socket(), [0; 16 * 1024]);
        while let Ok(read @ 1..) = socket.read(&mut buffer) {
            if socket.write_all(&buffer[..read]).is_err() {
                return;
            }
        }
        // Fails if the client is gone.
        let _ = socket.write_all(word.as_bytes());
    })
}

/// A table for these upstreams at a free port, with more keys.
fn table(upstreams: &[SocketAddr], more: &str) -> String {
    let upstreams: Vec<_> = upstreams.iter().map(ToString::to_string).collect();
    format!("[[tcp]]\nlisten = '127.0.0.1:0'\nupstreams = {upstreams:?}\n{more}\n")
}

/// Sends a text, and reads it again.
fn assert_echoes(connection: &mut Connection, text: &str) {
    connection.send(text.as_bytes());
    assert_eq!(connection.read_exactly(text.len()), text.as_bytes());
}

/// Returns whether the connection was reset without a byte.
fn is_reset(connection: &Connection) -> bool {
    connection.socket().read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

#[test]
fn large_amounts_pass_in_both_directions_at_once_on_all_engines() {
    const BYTES: usize = 24 * 1024 * 1024;
    let upstream = echo("bye");
    let data: Arc<[u8]> = (0..BYTES).map(|at| (at * 31 / 7).to_le_bytes()[0]).collect();
    for engine in engines() {
        let server = Server::build().engine(engine).config(&table(&[upstream.address()], "")).start();
        let mut connection = server.connect();
        let (mut socket, sent) = (connection.socket().try_clone().expect("a socket"), data.clone());
        let sender = thread::spawn(move || {
            socket.write_all(&sent).expect("the server reads");
            socket.shutdown(Shutdown::Write).expect("the connection is open");
        });
        assert!(connection.read_exactly(BYTES) == *data, "{engine}: other bytes");
        assert_eq!(connection.read_to_end(), b"bye", "{engine}: after the end of the client's direction");
        sender.join().expect("the sender succeeds");
    }
}

#[test]
fn an_upstream_that_accepts_no_connections_is_passed_over() {
    let (upstream, dead) = (echo(""), ReservedPort::new());
    let server = Server::config(&table(&[dead.address(), upstream.address()], ""));
    for _ in 0..4 {
        assert_echoes(&mut server.connect(), "hello");
    }
    let listed = server.rudy(&["upstreams"]).succeeded();
    assert_contains!(listed, &format!("tcp://{}", dead.address()), "ejected", "tcp at 127.0.0.1:0");
}

#[test]
fn without_an_upstream_the_client_is_reset_and_the_log_says_why() {
    let dead = ReservedPort::new();
    let text = format!("access_log = 'access.log'\n{}", table(&[dead.address()], ""));
    let mut server = Server::config(&text);
    assert!(is_reset(&server.connect()));
    let line = server.wait_for_line("a connection from 127.0.0.1:");
    assert_contains!(line, &format!("tcp://{}", dead.address()), "cannot connect", "refused");
    server.stop();
    let log = fs::read_to_string(server.path().join("access.log")).expect("a log");
    assert_contains!(log, "\"CONNECT 127.0.0.1:0 TCP\" 502 0 ", " cut\n");
}

#[test]
fn a_line_in_the_access_log_has_the_bytes_of_both_directions_the_upstream_and_the_end() {
    let upstream = echo("bye");
    let more = "access_log = { path = 'tcp.log', format = 'json' }";
    let mut server = Server::config(&table(&[upstream.address()], more));
    let mut connection = server.connect();
    assert_echoes(&mut connection, "hello");
    connection.finish();
    assert_eq!(connection.read_to_end(), b"bye");
    wait_until("the connection ends", || {
        server.rudy(&["upstreams", "--json"]).json()["upstreams"][0]["tunnels"] == 0
    });
    server.stop();
    let log = fs::read_to_string(server.path().join("tcp.log")).expect("a log");
    let line: Value = serde_json::from_str(log.trim()).expect("one line of JSON");
    assert_members!(
        line, "method": "CONNECT", "version": "TCP", "target": "127.0.0.1:0", "status": 200, "ended": "complete",
        "upstream": upstream.address().to_string(), "body_bytes": 8, "request_body_bytes": 5
    );
}

#[test]
fn over_the_limit_connections_are_closed_without_a_response_of_http() {
    let upstream = echo("");
    let server =
        Server::config(&format!("limits = {{ connections = 1 }}\n{}", table(&[upstream.address()], "")));
    let mut first = server.connect();
    assert_echoes(&mut first, "hello");
    assert_eq!(server.connect().read_to_end(), b"");
    assert_echoes(&mut first, "hello again");
}

#[test]
fn a_client_over_the_limit_of_an_upstream_waits_or_is_reset() {
    let upstream = echo("");
    for (more, waits) in [("connections = 1\nqueue = 0", false), ("connections = 1", true)] {
        let server = Server::config(&table(&[upstream.address()], more));
        let mut first = server.connect();
        assert_echoes(&mut first, "hello");
        let mut second = server.connect();
        if waits {
            second.send(b"early");
            drop(first);
            assert_eq!(second.read_exactly(5), b"early");
        } else {
            assert!(is_reset(&second));
        }
    }
}

#[test]
fn only_allowed_clients_reach_the_upstream() {
    let upstream = echo("");
    for (more, is_allowed) in [
        ("allow = 'loopback'", true),
        ("allow = '10.0.0.0/8'", false),
        ("deny = '127.0.0.0/8'", false),
        ("allow = 'anyone'\ndeny = '10.0.0.0/8'", true),
    ] {
        let server = Server::config(&table(&[upstream.address()], more));
        let mut connection = server.connect();
        if is_allowed {
            assert_echoes(&mut connection, "hello");
        } else {
            assert!(is_reset(&connection), "{more}");
        }
    }
    assert_eq!(upstream.accepted(), 2);
}

#[test]
fn the_header_of_the_proxy_protocol_is_read_and_sent() {
    let (sender, received) = channel();
    let upstream = Upstream::start(move |peer| {
        let bytes = peer.read_exactly(28 + 5);
        sender.send(bytes).expect("the test runs");
    });
    let text = table(&[upstream.address()], "send_proxy_protocol = true");
    let text = text.replace("127.0.0.1:0'", "127.0.0.1:0,proxy_protocol'");
    let server = Server::config(&format!("trusted_proxies = '127.0.0.1'\n{text}"));
    let mut connection = server.connect();
    connection.send(b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 5432\r\nhello");
    let bytes = received.recv().expect("the bytes");
    assert_eq!(bytes[..12], *b"\r\n\r\n\0\r\nQUIT\n");
    assert_eq!(bytes[12..20], [0x21, 0x11, 0, 12, 192, 0, 2, 7], "version 2, TCP over IPv4, the client");
    assert_eq!(bytes[24..26], 4000_u16.to_be_bytes());
    assert_eq!(bytes[28..], *b"hello");
}

#[test]
fn an_unhealthy_upstream_gets_no_connections() {
    let (upstream, dead) = (echo(""), ReservedPort::new());
    let check = "health_check = { interval = '10ms', unhealthy = 1, healthy = 1 }\nchoice = 'round-robin'";
    let mut server = Server::config(&table(&[dead.address(), upstream.address()], check));
    server.wait_for_line("is unhealthy and gets no requests");
    assert_echoes(&mut server.connect(), "hello");
    let revived = Upstream::start_at(dead.address(), |peer| peer.send("revived"));
    server.wait_for_line("is healthy");
    eventually("the upstream gets connections", || {
        let got = server.connect().socket().read(&mut [0; 7]).ok();
        got.filter(|read| *read == 7)
    });
    drop(revived);
}

#[test]
fn connections_are_among_the_active_requests_and_the_metrics() {
    let upstream = echo("");
    let text = format!(
        "[[site]]\nlisten = '127.0.0.2:0'\nroute = [{{ path = '/metrics', metrics = {{ allow = 'anyone' }} }}]\n{}",
        table(&[upstream.address()], "")
    );
    let server = Server::config(&text);
    let mut connection = Connection::open(server.address_of(1));
    assert_echoes(&mut connection, "hello");
    let status = server.rudy(&["status"]).succeeded();
    assert_contains!(status, "CONNECT", "127.0.0.1:0", "tunnel");
    let metrics = server.get("/metrics").text().to_owned();
    assert_contains!(metrics, "rudy_http_requests_in_flight 2");
    drop(connection);
    wait_until("the connection is counted", || {
        let metrics = server.get("/metrics").text().to_owned();
        metrics.lines().any(|line| line.contains("tcp at 127.0.0.1:0") && line.ends_with("status=\"2xx\"} 1"))
    });
}

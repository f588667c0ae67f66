//! What a connection over QUIC means for requests: certificates, the end of clients and of requests, and time.

use rudy_http::h3::ErrorCode;
use rudy_tests::prelude::*;

const SLOW: &str =
    "{ path = '/never', delay = { time = '10m' } }, { path = '/*', respond = { body = 'hello' } }";

/// A server with these settings of its site and its routes.
fn server(limits: &str, routes: &str) -> Server {
    Server::config(&format!(
        "listen = '127.0.0.1:{},tls'\nlimits = {{ {limits} }}\naccess_log = 'access.log'\n[[site]]\ntls = 'self-signed'\nroute = [{routes}]\n",
        free_port()
    ))
}

fn open(server: &Server) -> Http3Connection {
    Http3Client::new().open(server.address())
}

/// The code with which a server resets a stream.
fn code(error: ErrorCode) -> Option<u32> {
    u32::try_from(error.0).ok()
}

/// Waits until this number of requests is active, and returns them.
fn active(server: &Server, number: usize) -> Vec<Value> {
    eventually("the requests are active", || {
        let report = server.rudy(&["status", "--json"]).json();
        report["active"].as_array().filter(|active| active.len() == number).cloned()
    })
}

/// The sites of the tests with certificates, each with who may use it.
const SITES: [(&str, &[&str]); 3] =
    [("open", &["none", "a", "b"]), ("a", &["a"]), ("optional", &["none", "a"])];

/// The status of a request over a connection for a server name; `None` if the server ends the connection instead.
fn status(client: &Http3Client, server: &Server, host: &str) -> Option<u16> {
    let mut connection = client.connect(server.address()).ok()?;
    // In TLS 1.3, a client learns only now whether its certificate is accepted.
    let stream = connection.next_stream()?;
    let head = [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/")];
    connection.send(stream, &h3_headers(&head));
    connection.finish(stream);
    Some(connection.response(stream).status).filter(|status| *status > 0)
}

/// Each combination of client, server name and host, without a ticket and with one of each site.
#[test]
fn a_site_is_reached_only_by_handshakes_that_checked_its_clients() {
    let (Some(own), Some(others)) = (Certificates::new(), Certificates::new()) else { return };
    own.signed("server", "open.test,DNS:a.test,DNS:optional.test", Valid::Now);
    own.signed("a", "a.client", Valid::Now);
    others.signed("b", "b.client", Valid::Now);
    let authority = own.path("authority");
    let site = |name: &str| {
        let clients = match name {
            "open" => String::new(),
            "a" => format!(", client_certificates = {{ authority = '{authority}' }}"),
            _ => format!(", client_certificates = {{ authority = '{authority}', required = false }}"),
        };
        let tls = own.settings("server");
        format!(
            "[[site]]\nhosts = '{name}.test'\ntls = {{ {tls}{clients} }}\nroute = [{{ path = '/*', respond = 'ok' }}]\n"
        )
    };
    let sites = SITES.map(|(name, _)| site(name)).concat();
    let server = Server::config(&format!("listen = '127.0.0.1:{},tls'\n{sites}", free_port()));
    for who in ["none", "a", "b"] {
        let certificate = match who {
            "none" => None,
            "a" => Some((&own, who)),
            _ => Some((&others, who)),
        };
        let client = TlsClient::new(&own, certificate, false);
        for (name, accepted) in SITES {
            let of = |client: &TlsClient, name: &str| {
                Http3Client::with_tls(client.config()).name(&format!("{name}.test"))
            };
            for (host, _) in SITES {
                let expected = accepted.contains(&who).then_some(if name == host { 200 } else { 421 });
                let host = format!("{host}.test");
                let case = format!("{who} at {name} for {host}");
                assert_eq!(status(&of(&client, name), &server, &host), expected, "{case}");
                for (other, _) in SITES {
                    let client = client.remembering();
                    // Receives a ticket, if it is accepted there.
                    let _ = status(&of(&client, other), &server, &format!("{other}.test"));
                    let status = status(&of(&client, name), &server, &host);
                    assert_eq!(status, expected, "{case}, with a ticket of {other}");
                }
            }
        }
    }
}

/// By the counter of the server: the state machines of QUIC do not tell the client.
#[test]
fn a_ticket_resumes_a_session() {
    let Some(certificates) = Certificates::for_host("a", "a.test") else { return };
    let tls = certificates.settings("a");
    let server = Server::config(&format!(
        "listen = '127.0.0.1:{},tls'\n[[site]]\nhosts = 'a.test'\ntls = {{ {tls} }}\nroute = [{{ path = '/*', respond = 'ok' }}]\n",
        free_port()
    ));
    let client = TlsClient::new(&certificates, None, false).remembering();
    let http3 = Http3Client::with_tls(client.config()).name("a.test");
    for resumed in 0..2 {
        assert_eq!(status(&http3, &server, "a.test"), Some(200));
        let metrics = server.rudy(&["metrics"]).stdout;
        assert_contains!(metrics, &format!("rudy_tls_handshakes_total{{result=\"resumed\"}} {resumed}\n"));
    }
}

#[test]
fn a_request_is_killed_without_the_others() {
    let server = server("", SLOW);
    let mut connection = open(&server);
    let (first, second) = (connection.get("/never?1"), connection.get("/never?2"));
    let requests = active(&server, 2);
    assert!(requests.iter().all(|request| request["version"] == "HTTP/3.0"), "{requests:?}");
    let id = |number: usize| requests[number]["id"].as_str().expect("an id").to_owned();
    server.rudy(&["status", "--kill", &id(0)]).with_code(0);
    let killed = connection.wait("one of them is reset", |connection| {
        [first, second].into_iter().find(|stream| connection.response_so_far(*stream).is_over)
    });
    assert_eq!(connection.response(killed).reset, code(ErrorCode::REQUEST_CANCELLED));
    active(&server, 1);
    let stream = connection.get("/");
    assert_eq!(connection.response(stream).text(), "hello");
    server.rudy(&["status", "--kill", &id(1)]).with_code(0);
    let rest = if killed == first { second } else { first };
    assert_eq!(connection.response(rest).reset, code(ErrorCode::REQUEST_CANCELLED));
}

/// RFC 9114 §4.1.1: by the end of either direction.
#[test]
fn cancelled_requests_are_logged_and_free_their_streams() {
    let server = server("http2_streams = 2, half_close_timeout = '300ms'", SLOW);
    let mut connection = open(&server);
    let (first, second) = (connection.get("/never"), connection.request("POST", "/never", &[], false));
    active(&server, 2);
    connection.stop(first, ErrorCode::REQUEST_CANCELLED.0);
    connection.reset(second, ErrorCode::REQUEST_CANCELLED.0);
    active(&server, 0);
    let last = connection.get("/never");
    let stream = connection.get("/");
    assert_eq!(connection.response(stream).text(), "hello");
    // The end of the connection cancels the rest.
    active(&server, 1);
    let _ = last;
    drop(connection);
    active(&server, 0);
    let log = server.path().wait_until("access.log", |log| log.lines().count() >= 4);
    assert_eq!(log.matches(" /never HTTP/3.0\" 000 ").count(), 3, "{log}");
}

/// QUIC closes a connection on which nothing arrives; a client that waits for a response need not send anything.
#[test]
fn a_connection_is_not_idle_while_a_response_takes_time() {
    let route = "{ path = '/slow', delay = { time = '3s', body = 'late' } }";
    let server = server("idle_timeout = '1s', first_request_timeout = '1s'", route);
    let mut connection = open(&server);
    let stream = connection.get("/slow");
    assert_eq!(connection.response(stream).status_and_text(), (200, "late"));
    // Then it is: the server announces the end, or the client knows it from the idle timeout.
    connection.wait("the connection ends", |connection| connection.has_ended().then_some(()));
}

/// RFC 9000 §3.5: the server resets a stream that the client stops, also if only QUIC has something left to send.
#[test]
fn a_connection_with_a_stopped_response_ends_when_it_is_idle() {
    let route = format!("{{ path = '/*', respond = '{}' }}", "x".repeat(5_000));
    let server = server("idle_timeout = '1s', first_request_timeout = '1s'", &route);
    let mut connection = Http3Client::new().window(1_000).open(server.address());
    connection.stop_reading();
    let stream = connection.get("/");
    active(&server, 0);
    connection.stop(stream, ErrorCode::REQUEST_CANCELLED.0);
    connection.wait("the connection ends", |connection| connection.has_ended().then_some(()));
}

#[test]
fn a_body_over_the_limit_is_413_and_a_slow_one_408() {
    let route = "{ path = '/*', fastcgi = { command = ['/bin/cat'] } }";
    let server = server("body_bytes = 10, body_rate_min = 1000, rate_grace = '1s'", route);
    let mut connection = open(&server);
    let stated = connection.request("POST", "/", &[("content-length", "11")], false);
    assert_eq!(connection.response(stated).status, 413);
    let long = connection.request("POST", "/", &[], false);
    connection.data(long, &[b'x'; 11]);
    assert_eq!(connection.response(long).status, 413);
    let slow = connection.request("POST", "/", &[], false);
    assert_eq!(connection.response(slow).status, 408);
}

/// The client may send the rest of its request after the response, and reads the response after the end of its request.
#[test]
fn the_directions_of_a_stream_end_independently() {
    let upstream = Upstream::serve(|peer, request| peer.respond(&format!("{} bytes", request.body.len())));
    let routes = format!("{{ path = '/up', proxy = '{upstream}' }}, {{ path = '/*', respond = 'early' }}");
    let server = server("", &routes);
    let mut connection = open(&server);
    let early = connection.request("POST", "/", &[], false);
    // The handler does not read it.
    assert_eq!(connection.response(early).status, 405);
    connection.data(early, &vec![b'x'; 100_000]);
    connection.finish(early);
    let upload = connection.request("POST", "/up", &[], false);
    connection.data(upload, &vec![b'x'; 3_000_000]);
    connection.finish(upload);
    assert_eq!(connection.response(upload).status_and_text(), (200, "3000000 bytes"));
}

/// A request without a body has none at the upstream: many reject a GET with one.
#[test]
fn a_get_has_no_body_at_the_upstream() {
    let upstream = Upstream::serve(|peer, request| {
        let head = request.head.to_ascii_lowercase();
        let has = ["transfer-encoding", "content-length"].map(|name| head.contains(name));
        peer.respond(&format!("{has:?}"));
    });
    let server = server("", &format!("{{ path = '/*', proxy = '{upstream}' }}"));
    let mut connection = open(&server);
    for method in ["GET", "DELETE", "OPTIONS"] {
        let stream = connection.open_stream();
        connection.queue(stream, &h3_headers(&h3_head(method, "/")));
        connection.finish(stream);
        assert_eq!(connection.response(stream).text(), "[false, false]", "{method}");
    }
}

#[test]
fn a_client_that_opens_no_window_loses_its_stream_and_no_other() {
    let routes = "{ path = '/large', files = '.' }, { path = '/*', respond = { body = 'hello' } }";
    let server = server("send_stall_timeout = '1s', rate_grace = '1s'", routes);
    server.path().write("large", vec![b'x'; 4 << 20]);
    let mut connection = Http3Client::new().window(64 << 10).open(server.address());
    let stream = connection.get("/large");
    connection.stop_reading();
    let log = server.path().wait_for("access.log", "/large");
    assert!(log.contains(" /large HTTP/3.0\" 200 "), "{log}");
    connection.read_again();
    assert!(connection.response(stream).reset.is_some());
    let stream = connection.get("/");
    assert_eq!(connection.response(stream).text(), "hello");
}

#[test]
fn after_its_last_request_a_connection_ends() {
    let server = server("requests_per_connection = 2", SLOW);
    let mut connection = open(&server);
    for _ in 0..2 {
        let stream = connection.get("/");
        assert_eq!(connection.response(stream).text(), "hello");
    }
    assert!(connection.control_frame(h3_kind::GOAWAY).is_some());
    assert_eq!(connection.closed().0, ErrorCode::NO_ERROR.0);
}

/// RFC 9000 §8.1. The server repeats its part of the handshake until it gives up.
#[test]
fn a_client_without_a_validated_address_gets_at_most_three_times_what_it_has_sent() {
    let mut server = server("first_request_timeout = '2s', head_timeout = '2s'", SLOW);
    let mut connection = Http3Client::new().begin(server.address());
    connection.transmit_only();
    server.wait_for_line("was not completed in time");
    let (sent, received) = (connection.quic().stats().udp_tx.bytes, connection.discard() as u64);
    assert!(received > sent && received <= 3 * sent, "{received} bytes for {sent}");
    connection.vanish();
}

/// RFC 9000 §8.1.2: clients that are not at their addresses occupy nothing.
#[test]
fn with_retry_a_first_packet_makes_no_connection() {
    let server = server("http3_retry = 0", SLOW);
    for _ in 0..100 {
        let mut connection = Http3Client::new().begin(server.address());
        connection.transmit_only();
        connection.wait_for_datagram();
        // Less than the client has sent: the packet has no part of a handshake.
        assert!(connection.discard() < 1200);
        connection.vanish();
    }
    let mut connection = open(&server);
    let stream = connection.get("/");
    assert_eq!(connection.response(stream).text(), "hello");
    let report = server.rudy(&["status", "--json"]).json();
    assert_eq!(report["connections"]["open"], 1, "{report}");
}

#[test]
fn a_connection_survives_new_ports() {
    let server = server("", SLOW);
    let mut connection = open(&server);
    for number in 0..20 {
        // Not before the handshake is confirmed (RFC 9000 §9).
        if number > 0 {
            connection.change_port();
        }
        let stream = connection.get("/");
        assert_eq!(connection.response(stream).text(), "hello");
    }
}

/// RFC 9218.
#[test]
fn urgent_responses_overtake_others() {
    let server = server("", "{ path = '/*', files = '.' }");
    for (name, content) in [("large", vec![7; 64 << 20]), ("small", b"hello".to_vec())] {
        server.path().write(name, content);
    }
    let mut connection = open(&server);
    let mut request = |path: &str, urgency: &str| {
        let stream = connection.request("GET", path, &[("priority", urgency)], true);
        connection.response_until(stream, |response| !response.body.is_empty());
        stream
    };
    let first = request("/large", "u=7");
    // It is complete before the first ends, which has begun before it.
    request("/small", "u=0");
    let response = connection.response_so_far(first);
    assert!(!response.is_over, "{} bytes before the urgent response", response.body.len());
}

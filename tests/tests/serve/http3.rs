//! HTTP/3 over real sockets, with our client. Those of others are in `peers`.

use std::net::UdpSocket;

use rudy_tests::prelude::*;

/// A server with HTTP/3 for a site with these routes, and these settings before it.
fn server(settings: &str, routes: &str) -> Server {
    Server::config(&config(free_port(), settings, routes))
}

fn config(port: u16, settings: &str, routes: &str) -> String {
    format!(
        "listen = '127.0.0.1:{port},tls'\naccess_log = 'access.log'\n{settings}\n[[site]]\ntls = 'self-signed'\nroute = [{routes}]\n"
    )
}

const HELLO: &str = "{ path = '/*', respond = { body = 'hello' } }";

/// Requests a path with `rudy get` and this version.
fn get(version: &str, server: &Server, path: &str, more: &[&str]) -> Output {
    let url = format!("https://127.0.0.1:{}{path}", server.address().port());
    Rudy::run([&["get", version, "--insecure", &url], more].concat())
}

/// What a response over TCP says about HTTP/3.
fn offer(server: &Server) -> Option<String> {
    let head = get("--http1.1", server, "/", &["--include"]).stdout;
    head.lines().find_map(|line| line.strip_prefix("alt-svc: ").map(str::to_owned))
}

#[test]
fn responses_are_those_of_the_other_versions() {
    let upstream = Upstream::serve(|peer, request| {
        let body = format!("{} bytes", request.body.len());
        peer.respond(&body);
    });
    let routes = format!(
        "{{ path = '/up', proxy = 'http://{}' }}, {{ path = '/*', files = '.' }}",
        upstream.address()
    );
    let server = server("", &routes);
    let content: String = (0..400_000).map(|n| char::from(b'a' + u8::try_from(n % 26).unwrap())).collect();
    server.path().write("large.txt", &content);
    for version in ["--http3", "--http2", "--http1.1"] {
        let large = get(version, &server, "/large.txt", &[]);
        assert!(large.stdout == content, "{version}: {} of {} bytes", large.stdout.len(), content.len());
        let part = get(version, &server, "/large.txt", &["--include", "--header", "Range: bytes=26-28"]);
        assert!(part.stdout.contains(" 206") && part.stdout.ends_with("\n\r\nabc"), "{}", part.stdout);
        assert_eq!(get(version, &server, "/none", &["--fail"]).code, Some(22), "{version}");
        let posted = get(version, &server, "/up", &["--data", &content[..100_000]]);
        assert_eq!(posted.stdout, "100000 bytes", "{version}: {}", posted.stderr);
    }
    let log = server.path().wait_until("access.log", |log| log.lines().count() == 12);
    assert_eq!(log.matches(" HTTP/3.0\" ").count(), 4, "{log}");
}

/// QUIC sends packets at any time, also on a connection without requests.
#[test]
fn requests_in_sequence_share_a_connection() {
    let server = server("", HELLO);
    let url = format!("https://127.0.0.1:{}/", server.address().port());
    let urls = [&*url; 40];
    let reports = Rudy::run([&["get", "--http3", "--insecure", "--json"], &urls[..]].concat()).json_lines();
    let reused: Vec<_> = reports.iter().map(|report| report["reused"] == true).collect();
    assert_eq!(reused, [[false].as_slice(), &[true; 39]].concat());
}

#[test]
fn clients_over_tcp_learn_of_it_as_long_as_it_is_there() {
    let port = free_port();
    let mut server = Server::config(&config(port, "", HELLO));
    assert_eq!(offer(&server).unwrap(), format!("h3=\":{port}\"; ma=60"));
    assert_eq!(get("--http3", &server, "/", &[]).stdout, "hello");
    assert_eq!(offer(&server).unwrap(), format!("h3=\":{port}\"; ma=2592000"));
    assert!(!get("--http3", &server, "/", &["--include"]).stdout.contains("alt-svc"));
    server.reload_with(&config(port, "http3 = false", HELLO), "reloaded");
    assert_eq!(offer(&server).unwrap(), "clear");
    // The port is free as soon as the last connection has ended.
    wait_until("the port is free", || UdpSocket::bind(("127.0.0.1", port)).is_ok());
    assert_ne!(get("--http3", &server, "/", &["--connect-timeout", "1s"]).code, Some(0));
    server.reload_with(&config(port, "", HELLO), "reloaded");
    assert_eq!(get("--http3", &server, "/", &[]).stdout, "hello");
}

#[test]
fn a_port_of_udp_that_is_in_use_leaves_the_other_versions() {
    let port = free_port();
    let _other = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let mut server = Server::config(&config(port, "", HELLO));
    let line = server.wait_for_line("has no HTTP/3");
    assert!(line.contains(&format!("UDP port {port}")) && line.contains("in use"), "{line}");
    assert_eq!((offer(&server), get("--http2", &server, "/", &[]).stdout), (None, "hello".to_owned()));
}

#[test]
fn a_site_without_it_is_not_served() {
    let port = free_port();
    let text = config(port, "", HELLO).replace("tls =", "http3 = false\ntls =")
        + "[[site]]\nhosts = 'b.test'\ntls = 'self-signed'\nroute = [{ path = '/*', respond = 'b' }]\n";
    let server = Server::config(&text);
    let rejected = get("--http3", &server, "/", &[]);
    assert!(rejected.code != Some(0) && rejected.stderr.contains("no HTTP/3"), "{}", rejected.stderr);
    assert_eq!((offer(&server), get("--http2", &server, "/", &[]).stdout), (None, "hello".to_owned()));
}

#[test]
fn a_stop_waits_until_the_client_has_the_response() {
    let mut server = server("", "{ path = '/*', delay = { time = '1s', body = 'hello' } }");
    let url = format!("https://127.0.0.1:{}/", server.address().port());
    let client = thread::spawn(move || Rudy::run(["get", "--http3", "--insecure", &url]));
    wait_until("the request has arrived", || server.rudy(&["status", "--json"]).stdout.contains("\"/\""));
    server.stop();
    assert_eq!(client.join().unwrap().stdout, "hello");
}

#[test]
fn metrics_count_connections_and_datagrams() {
    let server = server("http3_congestion = 'bbr'", HELLO);
    for _ in 0..2 {
        assert_eq!(get("--http3", &server, "/", &[]).stdout, "hello");
    }
    let metrics = server.rudy(&["metrics"]).stdout;
    let value = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
    };
    assert_eq!(value("rudy_http3_connections_total"), 2);
    // The first flight of both sides, the request with its response, and their acknowledgements.
    assert!(value("rudy_http3_datagrams_total{result=\"received\"}") >= 4);
    assert!(value("rudy_http3_datagrams_total{result=\"sent\"}") >= 4);
    assert_eq!(value("rudy_http3_retries_total"), 0);
}

#[test]
fn many_requests_share_connections_and_connections_have_limits() {
    let mut server = server("limits = { connections_per_address = 3 }", HELLO);
    let url = format!("https://127.0.0.1:{}/", server.address().port());
    let bench = |connections| {
        let arguments = ["bench", "--http3", "--insecure", "--streams", "40", "-n", "2000", "--json", "-"];
        Rudy::run([&arguments[..], &["-c", connections, &url]].concat())
    };
    let report: Value = serde_json::from_str(&bench("3").stdout).unwrap();
    assert_eq!(report["status_codes"]["200"].as_u64(), Some(2000), "{report}");
    bench("4");
    server.wait_for_line("127.0.0.1 has reached the limit of 3 connections");
}

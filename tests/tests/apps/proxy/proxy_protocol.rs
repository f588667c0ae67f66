//! Headers of the PROXY protocol to upstreams.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::channel;

use rudy_net::proxy_header::{ParseStatus, ProxiedClient, parse};
use rudy_tests::{Upstream, UpstreamPeer, binary};

use crate::proxy::{proxy, proxy_with};

/// Reads a header.
fn header(peer: &mut UpstreamPeer) -> ProxiedClient {
    let mut bytes = Vec::new();
    loop {
        match parse(&bytes).expect("a connection begins with a header") {
            ParseStatus::Complete(client) => return client,
            ParseStatus::Incomplete(missing) => bytes.extend(peer.read_exactly(missing)),
        }
    }
}

/// An upstream that reports each header, and serves any number of requests.
fn upstream() -> (Upstream, std::sync::mpsc::Receiver<ProxiedClient>) {
    let (sender, headers) = channel();
    let upstream = Upstream::start(move |peer| {
        sender.send(header(peer)).expect("the test runs");
        while peer.request().is_some() {
            peer.respond("fine");
        }
    });
    (upstream, headers)
}

#[test]
fn each_request_has_a_connection_with_the_addresses_of_its_client() {
    let (upstream, headers) = upstream();
    let server = proxy(&upstream, "send_proxy_protocol = true\n");
    for _ in 0..2 {
        let mut connection = server.connect();
        let port = connection.socket().local_addr().expect("a connected socket").port();
        for _ in 0..2 {
            connection.send(b"GET /app/a HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(connection.response().text(), "fine");
            let expected = ProxiedClient::Address((Ipv4Addr::LOCALHOST, port).into());
            assert_eq!(headers.recv().expect("a header"), expected);
        }
    }
    assert_eq!(upstream.accepted(), 4);
}

#[test]
fn the_client_is_that_of_a_trusted_proxy() {
    let (upstream, headers) = upstream();
    let server = proxy_with(&upstream, "trusted_proxies = \"127.0.0.1\"", "send_proxy_protocol = true\n");
    let mut connection = server.connect();
    connection.send(b"GET /app/a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n");
    assert_eq!(connection.response().text(), "fine");
    let expected = ProxiedClient::Address((IpAddr::from([203, 0, 113, 7]), 0).into());
    assert_eq!(headers.recv().expect("a header"), expected);
}

#[test]
fn a_health_check_comes_from_the_proxy_itself() {
    let (upstream, headers) = upstream();
    let more = "send_proxy_protocol = true\nhealth_check = { interval = \"10ms\" }\n";
    let _server = proxy(&upstream, more);
    assert_eq!(headers.recv().expect("a check"), ProxiedClient::ProxyItself);
}

#[test]
fn http2_without_tls_is_impossible() {
    let folder = tempfile::tempdir().expect("a temp folder can be created");
    let file = folder.path().join("rudy.toml");
    let text = "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\n[site.route.proxy]\n\
                upstreams = \"h2c://127.0.0.1:1\"\nsend_proxy_protocol = true\nclient_key = \"a.key\"\n";
    std::fs::write(&file, text).expect("the folder is ours");
    let output = std::process::Command::new(binary()).arg("check").arg(&file).output().expect("rudy runs");
    let text = String::from_utf8_lossy(&output.stderr);
    for expected in ["`send_proxy_protocol` and `h2c` upstreams exclude each other", "`client_certificate`"] {
        assert!(!output.status.success() && text.contains(expected), "{text}");
    }
}

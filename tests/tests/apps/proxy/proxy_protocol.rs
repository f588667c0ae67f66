//! Headers of the PROXY protocol to upstreams.

use rudy_net::proxy_header::{ParseStatus, ProxiedClient, parse};
use rudy_tests::prelude::*;

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
fn upstream() -> (Upstream, mpsc::Receiver<ProxiedClient>) {
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
            assert_eq!(connection.get("/app/a", &["Host: a"]).text(), "fine");
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
    assert_eq!(server.get_with("/app/a", &["Host: a", "X-Forwarded-For: 203.0.113.7"]).text(), "fine");
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
    let text = "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\n[site.route.proxy]\n\
                upstreams = \"h2c://127.0.0.1:1\"\nsend_proxy_protocol = true\nclient_key = \"a.key\"\n";
    let errors = Rudy::check(text).failed_with(2);
    assert_contains!(errors, "`send_proxy_protocol` and `h2c` upstreams exclude each other");
    assert_contains!(errors, "`client_certificate`");
}

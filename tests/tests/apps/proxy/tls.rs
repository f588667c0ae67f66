//! Upstreams over TLS: another Rudy.

use rudy_tests::prelude::*;

use crate::proxy::websocket::{SWITCH, accept, tunnel};
use crate::proxy::{assert_error, proxy_http2, proxy_to_all};

/// Starts an upstream with this certificate, and a proxy that trusts the authority, or what the system trusts.
fn start(certificates: &Certificates, name: &str, host: &str, trusts_authority: bool) -> (Server, Server) {
    let tls = certificates.settings(name);
    let upstream = Server::config(&format!(
        "listen = [\"127.0.0.1:0,tls\"]\n[[site]]\ntls = {{ {tls} }}\n\
         [[site.route]]\npath = \"/*\"\nrespond = {{ body = \"over TLS\" }}\n"
    ));
    let trusted = format!("trusted_certificates = \"{}\"", certificates.path("authority"));
    let keys = format!("host = \"upstream\"\n{}", if trusts_authority { &trusted } else { "" });
    let server = proxy_to_all(&format!("\"https://{host}:{}\"", upstream.address().port()), &keys);
    (upstream, server)
}

#[test]
fn an_upstream_with_a_trusted_certificate_is_used() {
    let Some(certificates) = Certificates::for_host("good", "localhost") else { return };
    let (_upstream, server) = start(&certificates, "good", "localhost", true);
    let mut connection = server.connect();
    // The second request reuses the connection, which has received tickets for later sessions.
    for _ in 0..2 {
        assert_eq!(connection.get("/", &["Host: a"]).text(), "over TLS");
    }
}

#[test]
fn an_upstream_with_another_certificate_is_502() {
    let Some(certificates) = Certificates::for_host("good", "localhost") else { return };
    for (host, trusts_authority) in [("127.0.0.1", true), ("localhost", false)] {
        let (_upstream, server) = start(&certificates, "good", host, trusts_authority);
        assert_error(&server.get("/"), 502, "tls_certificate_error");
    }
}

#[test]
fn certificates_are_not_verified_only_if_that_is_set() {
    let Some(certificates) = Certificates::for_host("good", "localhost") else { return };
    let (upstream, _) = start(&certificates, "good", "127.0.0.1", false);
    let url = format!("\"https://127.0.0.1:{}\"", upstream.address().port());
    assert_eq!(proxy_to_all(&url, "insecure_skip_verify = true\n").get("/").text(), "over TLS");
    let config = format!(
        "[[site]]\n[[site.route]]\npath = '/*'\nproxy = {{ upstreams = {url}, insecure_skip_verify = true }}\n"
    );
    let summary = Rudy::check(&config).with_code(0);
    assert!(summary.text().contains("certificates are NOT verified"), "{summary:?}");
}

#[test]
fn an_upstream_that_speaks_no_tls_is_502() {
    let plain = Server::files(&[("a", b"a")]);
    let server = proxy_to_all(&format!("\"https://{}\"", plain.address()), "");
    assert_error(&server.get("/"), 502, "tls_protocol_error");
}

/// Starts an upstream that requires a client certificate, and a proxy with these keys.
fn start_with_client(certificates: &Certificates, more: &str) -> (Server, Server) {
    let (tls, authority) = (certificates.settings("good"), certificates.path("authority"));
    let upstream = Server::config(&format!(
        "listen = [\"127.0.0.1:0,tls\"]\n[[site]]\n\
         tls = {{ {tls}, client_certificates = {{ authority = \"{authority}\", required = true }} }}\n\
         [[site.route]]\npath = \"/*\"\nrespond = {{ body = \"known\" }}\n"
    ));
    let keys = format!("host = \"upstream\"\ntrusted_certificates = \"{authority}\"\n{more}");
    let server = proxy_to_all(&format!("\"https://localhost:{}\"", upstream.address().port()), &keys);
    (upstream, server)
}

fn pair(certificates: &Certificates, name: &str) -> String {
    certificates.settings(name).replace("certificate", "client_certificate").replace(", key", "\nclient_key")
}

#[test]
fn an_upstream_gets_the_client_certificate() {
    let Some(certificates) = Certificates::for_host("good", "localhost") else { return };
    certificates.signed("client", "client", Valid::Now);
    let (_upstream, server) = start_with_client(&certificates, &pair(&certificates, "client"));
    assert_eq!(server.get("/").text(), "known");
    let (_upstream, server) = start_with_client(&certificates, "");
    assert_eq!(server.get("/").status, 502);
}

#[test]
fn changed_certificates_are_used_without_a_reload() {
    let Some(certificates) = Certificates::for_host("good", "localhost") else { return };
    certificates.signed("client", "client", Valid::Now);
    certificates.self_signed("stranger", "localhost", "CA:FALSE");
    let (from, to) = (certificates.path("stranger"), certificates.path("used"));
    let copy = |from: &str| {
        for end in [".key", ".pem"] {
            fs::copy(from.replace(".pem", end), to.replace(".pem", end)).expect("the folder is ours");
        }
    };
    copy(&from);
    let (_upstream, mut server) = start_with_client(&certificates, &pair(&certificates, "used"));
    assert_eq!(server.get("/").status, 502, "the upstream does not know the certificate");
    copy(&certificates.path("client"));
    server.wait_for_line("replaced the TLS settings for https://localhost");
    assert_eq!(server.get("/").text(), "known");
    fs::write(&to, "nothing").expect("the folder is ours");
    server.wait_for_line("the old TLS settings for https://localhost");
    assert_eq!(server.get("/").text(), "known");
}

#[test]
fn all_that_a_client_of_http2_sends_through_a_tunnel_reaches_an_upstream_of_http11() {
    let Some(certificates) = Certificates::for_host("good", "localhost") else { return };
    let (tls, authority) = (certificates.settings("good"), certificates.path("authority"));
    let (sender, received) = mpsc::channel();
    let application = Upstream::start(move |peer| {
        let Some(request) = peer.request() else { return };
        let accept = accept(request.field("sec-websocket-key").expect("the proxy makes a key"));
        peer.send(format!("{SWITCH}Sec-WebSocket-Accept: {accept}\r\n\r\n"));
        let bytes = peer.read_exactly(60_000);
        peer.wait_for_end();
        sender.send(bytes).expect("the test runs");
    });
    let upstream = Server::config(&format!(
        "listen = [\"127.0.0.1:0,tls\"]\nhttp2 = false\n[[site]]\ntls = {{ {tls} }}\n\
         [[site.route]]\npath = \"/*\"\nproxy = \"{application}\"\n"
    ));
    let url = format!("https://localhost:{}", upstream.address().port());
    let server = proxy_http2(&url, &format!("host = \"upstream\"\ntrusted_certificates = \"{authority}\"\n"));
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.wait_for(kind::SETTINGS);
    connection.frame(kind::HEADERS, END_HEADERS, 1, &tunnel("/app/upload"));
    connection.wait_for(kind::HEADERS);
    for piece in 0..6 {
        let flags = if piece == 5 { END } else { 0 };
        connection.frame(kind::DATA, flags, 1, &[piece; 10_000]);
    }
    let sent: Vec<u8> = (0..6).flat_map(|piece| [piece; 10_000]).collect();
    assert!(received.recv().expect("the application runs") == sent);
}

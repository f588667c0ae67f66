//! The choice by the server name of TLS, which is passed on or ends here.

use rudy_tests::prelude::*;

use super::{echo, is_reset};

/// A TLS server that sends its name as a response to any request.
fn tls_server(certificates: &Certificates, name: &'static str) -> Upstream {
    certificates.signed(name, &format!("{name}.test"), Valid::Now);
    let config = Arc::new(certificates.server_config(name));
    Upstream::start(move |peer| {
        let mut session = rustls::ServerConnection::new(config.clone()).expect("consistent settings");
        let mut socket = peer.socket();
        let mut stream = rustls::Stream::new(&mut session, &mut socket);
        if stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {
            let _ = stream.write_all(name.as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    })
}

struct Rig {
    certificates: Certificates,
    server: Server,
    upstreams: [Upstream; 3],
}

/// A server with one port for a site and three tables: two pass TLS on, and one ends it.
fn rig(more: &str) -> Option<Rig> {
    let certificates = Certificates::new()?;
    let upstreams = [tls_server(&certificates, "a"), tls_server(&certificates, "any"), echo("")];
    certificates.signed("ended", "ended.test", Valid::Now);
    certificates.signed("web", "web.test", Valid::Now);
    let [a, any, plain] = upstreams.each_ref().map(Upstream::address);
    let listen = "listen = '127.0.0.1:0,tls'";
    let text = format!(
        "{more}\n[[tcp]]\n{listen}\nserver_names = ['a.test', '*.a.test']\nupstreams = '{a}'\n\
         [[tcp]]\n{listen}\nupstreams = '{any}'\n\
         [[tcp]]\n{listen}\nserver_names = 'ended.test'\nupstreams = '{plain}'\ntls = {{ {} }}\n\
         [[site]]\n{listen}\nhosts = 'web.test'\ntls = {{ {} }}\nroute = [{{ path = '/*', respond = 'web' }}]\n",
        certificates.settings("ended"),
        certificates.settings("web"),
    );
    Some(Rig { server: Server::config(&text), certificates, upstreams })
}

/// What a TLS server sends until it closes the connection.
fn response(connection: &mut TlsConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).expect("an orderly end of the session");
    bytes
}

/// The bytes of the first message of a client with this server name.
fn client_hello(name: &str) -> Vec<u8> {
    let certificates = Certificates::new().expect("checked before");
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).expect("a name");
    let mut client = rustls::ClientConnection::new(TlsClient::new(&certificates, None, false).config(), name)
        .expect("settings");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("memory");
    bytes
}

#[test]
fn the_server_name_chooses_between_upstreams_and_sites_on_one_port() {
    let Some(Rig { certificates, server, upstreams: _upstreams }) = rig("") else { return };
    let client = TlsClient::new(&certificates, None, false);
    let mut a = client.connect(server.address(), "a.test").expect("the handshake of the upstream");
    a.send(b"x");
    assert_eq!(response(&mut a), b"a");
    let mut ended = client.connect(server.address(), "ended.test").expect("a handshake with Rudy");
    ended.send(b"plain text");
    let mut echoed = [0; 10];
    ended.read_exact(&mut echoed).expect("the upstream sends it back");
    assert_eq!(echoed, *b"plain text");
    let mut web = client.connect(server.address(), "web.test").expect("a handshake with Rudy");
    assert_eq!(web.get("web.test").expect("a response").text(), "web");
    // The session of the site is not for the names of others.
    assert_eq!(web.get("ended.test").expect("a response").status, 421);
    // The certificates of the default upstream are for another name, so only the first message can be checked.
    assert_eq!(client.connect(server.address(), "other.test").map(|_| ()), None);
    let mut any =
        client.connect(server.address(), "any.test").expect("the handshake of the default upstream");
    any.send(b"x");
    assert_eq!(response(&mut any), b"any");
}

#[test]
fn a_first_message_may_arrive_in_any_pieces_and_its_bytes_are_passed_on() {
    let Some(certificates) = Certificates::new() else { return };
    let (sender, received) = channel();
    let hello = client_hello("a.test");
    let length = hello.len();
    let upstream = Upstream::start(move |peer| {
        sender.send(peer.read_exactly(length + 5)).expect("the test runs");
    });
    drop(certificates);
    let server = Server::config(&format!(
        "[[tcp]]\nlisten = '127.0.0.1:0,tls'\nserver_names = 'a.test'\nupstreams = '{}'\n",
        upstream.address()
    ));
    let bytes = [hello, b"after".to_vec()].concat();
    for size in [1, 7, 100, bytes.len()] {
        let mut connection = server.connect();
        bytes.chunks(size).for_each(|piece| connection.send(piece));
        assert_eq!(received.recv().expect("the bytes"), bytes, "pieces of {size} bytes");
    }
}

#[test]
fn what_is_no_handshake_and_what_is_slow_reaches_no_upstream() {
    let Some(Rig { mut server, upstreams, .. }) = rig("limits = { head_timeout = '200ms' }") else { return };
    let hello = client_hello("a.test");
    let mut not_tls = Connection::send_to(server.address(), b"\x03\0\0\x13 not TLS");
    assert_eq!(not_tls.read_to_end(), b"");
    server.wait_for_line("not TLS");
    let mut slow = Connection::send_to(server.address(), &hello[..hello.len() / 2]);
    assert_eq!(slow.read_to_end(), b"");
    server.wait_for_line("not completed in time");
    // A record of a handshake whose message goes on for 16 MiB.
    let endless = [&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 0x4000]].concat();
    let mut long = Connection::send_to(server.address(), endless);
    long.read_to_end();
    assert!(upstreams.iter().all(|upstream| upstream.accepted() == 0));
}

#[test]
fn a_client_without_a_name_or_with_an_unknown_one_is_rejected_without_a_default() {
    let Some(certificates) = Certificates::new() else { return };
    let upstreams = [tls_server(&certificates, "a"), tls_server(&certificates, "b")];
    let tables = upstreams.each_ref().map(|upstream| {
        let name = if upstream.address() == upstreams[0].address() { "a" } else { "b" };
        format!(
            "[[tcp]]\nlisten = '127.0.0.1:0,tls'\nserver_names = '{name}.test'\nupstreams = '{}'\n",
            upstream.address()
        )
    });
    let mut server = Server::config(&tables.concat());
    let client = TlsClient::new(&certificates, None, false);
    assert!(client.connect(server.address(), "c.test").is_none());
    server.wait_for_line("no site with a certificate has this server name: c.test");
    // An address is never sent as a name.
    assert!(client.connect(server.address(), "127.0.0.1").is_none());
    server.wait_for_line("the client sent no server name");
    assert!(client.connect(server.address(), "b.test").is_some());
}

#[test]
fn protocols_are_negotiated_when_tls_ends_here() {
    let Some(certificates) = Certificates::for_host("db", "db.test") else { return };
    let upstream = echo("");
    let text = |alpn: &str| {
        format!(
            "[[tcp]]\nlisten = '127.0.0.1:0,tls'\nupstreams = '{}'\ntls = {{ {} }}\n{alpn}\n",
            upstream.address(),
            certificates.settings("db")
        )
    };
    for (alpn, expected) in [("", None), ("alpn = 'postgresql'", Some(&b"postgresql"[..]))] {
        let server = Server::config(&text(alpn));
        let mut config = (*TlsClient::new(&certificates, None, false).config()).clone();
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        let name = rustls::pki_types::ServerName::try_from("db.test").expect("a name");
        let mut session = rustls::ClientConnection::new(Arc::new(config), name).expect("settings");
        let mut socket = TcpStream::connect(server.address()).expect("the server listens");
        rustls::Stream::new(&mut session, &mut socket).write_all(b"hello").expect("a session");
        assert_eq!(session.alpn_protocol(), expected, "{alpn}");
    }
}

#[test]
fn a_client_that_is_not_allowed_is_reset_before_the_upstream_has_its_message() {
    let Some(certificates) = Certificates::new() else { return };
    let upstream = tls_server(&certificates, "a");
    let server = Server::config(&format!(
        "[[tcp]]\nlisten = '127.0.0.1:0,tls'\nupstreams = '{}'\nallow = '10.0.0.0/8'\n",
        upstream.address()
    ));
    let connection = Connection::send_to(server.address(), client_hello("a.test"));
    assert!(is_reset(&connection));
    assert_eq!(upstream.accepted(), 0);
}

#[test]
fn mistakes_in_tables_are_explained() {
    let tcp = |keys: &str| format!("[[tcp]]\nupstreams = '127.0.0.1:1'\n{keys}\n");
    for (text, expected) in [
        (tcp(""), "listen"),
        (tcp("listen = '127.0.0.1:0'").replace("upstreams = '127.0.0.1:1'", ""), "upstreams"),
        (tcp("listen = '127.0.0.1:0'\nserver_names = 'a.test'"), "append `,tls` to the address"),
        (tcp("listen = '127.0.0.1:0'\ntls = 'self-signed'"), "append `,tls` to the address"),
        (tcp("listen = '127.0.0.1:0,h2c'"), "`,h2c` of 127.0.0.1:0,h2c is for sites"),
        (tcp("listen = '127.0.0.1:0'\nchoice = 'hash:path'"), "a connection has no part for the choice"),
        (tcp("listen = '127.0.0.1:0,tls'\nalpn = 'x'"), "`alpn` has no effect without `tls`"),
        (tcp("listen = '127.0.0.1:0'\nejection = { statuses = 500 }"), "have no effect on connections"),
        (tcp("listen = '127.0.0.1:7'").repeat(2), "no server name to choose by"),
        (
            tcp("listen = '127.0.0.1:7'") + "[[site]]\nlisten = '127.0.0.1:7'\nroot = '.'\n",
            "no server name to choose by",
        ),
        (tcp("listen = '127.0.0.1:7'") + "[[site]]\nlisten = ':7'\nroot = '.'\n", "cannot both be listeners"),
        (tcp("listen = '127.0.0.1:7,tls'\nserver_names = 'a.test'").repeat(2), "duplicate host \"a.test\""),
    ] {
        assert_contains!(Rudy::check(&text).failed_with(2), expected);
    }
}

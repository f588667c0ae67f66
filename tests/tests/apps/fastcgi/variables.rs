//! The CGI variables of an app.

use rudy_tests::prelude::*;

/// An app that responds with all variables, one per line.
fn app() -> App {
    App::serve(|peer, params| {
        let pairs = params.iter().map(|(name, value)| [name, b"=", value, b"\n"].concat());
        let all: Vec<u8> = pairs.collect::<Vec<_>>().concat();
        peer.body();
        peer.respond(&[b"Content-Type: text/plain\r\n\r\n", &all[..]].concat());
    })
}

/// Starts a server with these lines at the top, and its app.
fn start(top: &str) -> (Server, App) {
    let app = app();
    let route = format!("[[site.route]]\npath = \"/app/*\"\nfastcgi = {{ address = \"{app}\" }}\n");
    (Server::config(&format!("{top}\n[[site]]\n{route}")), app)
}

fn variables(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('=')).collect()
}

fn assert_variables(text: &str, expected: &[(&str, Option<&str>)], what: &str) {
    let actual = variables(text);
    for (name, value) in expected {
        assert_eq!(actual.get(name), value.as_ref(), "{what}: {name} of {text}");
    }
}

#[test]
fn the_server_address_and_port_are_the_local_ones_of_the_connection() {
    // A wildcard address, so that the server has to query the local address of each connection.
    let (server, _app) = start("listen = \"0.0.0.0:0\"");
    let port = server.address().port();
    for (ip, request, name) in [
        ("127.0.0.1", "GET /app/x HTTP/1.1\r\nHost: example.org:1234\r\n\r\n", "example.org"),
        ("127.0.0.2", "GET /app/x HTTP/1.1\r\nHost: example.org\r\n\r\n", "example.org"),
        ("127.0.0.3", "GET /app/x HTTP/1.1\r\nHost: [::1]:1234\r\n\r\n", "[::1]"),
        ("127.0.0.4", "GET /app/x HTTP/1.0\r\n\r\n", "127.0.0.4"),
    ] {
        let address = format!("{ip}:{port}").parse().unwrap();
        let text = Connection::send_to(address, request).response().text().to_owned();
        let port = port.to_string();
        let expected = [
            ("SERVER_ADDR", Some(ip)),
            ("SERVER_PORT", Some(port.as_str())),
            ("SERVER_NAME", Some(name)),
            ("REMOTE_ADDR", Some("127.0.0.1")),
        ];
        assert_variables(&text, &expected, ip);
    }
}

#[test]
fn fields_that_only_proxies_set_do_not_come_from_clients() {
    let names =
        ["X_REAL_IP", "X_FORWARDED_FOR", "X_FORWARDED_PROTO", "X_FORWARDED_PREFIX", "FORWARDED", "CLIENT_IP"];
    let lines = names.map(|name| format!("{}: forged\r\n", name.replace('_', "-"))).concat();
    for (top, value) in [("", None), ("trusted_proxies = \"127.0.0.1\"\n", Some("forged"))] {
        let (server, _app) = start(&format!("listen = \"127.0.0.1:0\"\n{top}"));
        let request = format!("GET /app/x HTTP/1.1\r\nHost: a\r\nX-Other: 1\r\n{lines}\r\n");
        let text = server.send(request).response().text().to_owned();
        let names = names.map(|name| format!("HTTP_{name}"));
        let mut expected = vec![("HTTP_X_OTHER", Some("1"))];
        expected.extend(names.iter().map(|name| (name.as_str(), value)));
        assert_variables(&text, &expected, top);
    }
}

#[test]
fn an_ipv6_address_has_no_brackets_in_server_addr_and_has_them_in_server_name() {
    let (server, _app) = start("listen = \"[::1]:0\"");
    let mut client = server.send(b"GET /app/x HTTP/1.0\r\n\r\n");
    let expected =
        [("SERVER_ADDR", Some("::1")), ("SERVER_NAME", Some("[::1]")), ("REMOTE_ADDR", Some("::1"))];
    assert_variables(client.response().text(), &expected, "HTTP/1.0 over IPv6");
}

#[test]
fn a_unix_socket_has_no_address_and_the_port_is_from_host() {
    let folder = Folder::new();
    let socket = folder.join("rudy.sock");
    let (_server, _app) = start(&format!("listen = \"unix:{}\"", socket.display()));
    for (host, port) in [("example.org:8443", "8443"), ("example.org", "80")] {
        let request = format!("GET /app/x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let text = exchange_unix(&socket, request);
        let expected = [
            ("SERVER_ADDR", None),
            ("SERVER_PORT", Some(port)),
            ("SERVER_NAME", Some("example.org")),
            ("REMOTE_PORT", None),
        ];
        assert_variables(&text, &expected, "over a Unix socket");
    }
}

#[test]
fn fields_become_variables_and_cannot_forge_others() {
    let (server, _app) = start("listen = \"127.0.0.1:0\"");
    let mut client = server.send(
        b"POST /app/x HTTP/1.1\r\nHost: a\r\nX-User: one\r\nX_User: two\r\nX.User: two\r\nx-user: three\r\n\
          Authorization: Basic YTpi\r\nProxy: evil.test\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\
          Content_Length: 4\r\nCookie: a=1\r\nCookie: b=2\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\n\
          Remote-User: root\r\nStatus: 200\r\n\r\nabc",
    );
    let expected = [
        ("HTTP_X_USER", Some("one, three")),
        // PHP converts the dot to an underscore.
        ("HTTP_X.USER", None),
        ("HTTP_AUTHORIZATION", Some("Basic YTpi")),
        ("HTTP_PROXY", None),
        ("CONTENT_TYPE", Some("text/plain")),
        ("CONTENT_LENGTH", Some("3")),
        ("HTTP_CONTENT_TYPE", None),
        ("HTTP_CONTENT_LENGTH", None),
        ("HTTP_COOKIE", Some("a=1; b=2")),
        ("HTTP_CONNECTION", None),
        ("HTTP_KEEP_ALIVE", None),
        ("HTTP_REMOTE_USER", Some("root")),
        ("REMOTE_USER", None),
        ("AUTH_TYPE", None),
    ];
    assert_variables(client.response().text(), &expected, "fields");
}

/// RFC 9112 §3.2.2: the authority of an absolute target replaces Host.
#[test]
fn the_host_of_an_absolute_target_replaces_host() {
    let (server, _app) = start("listen = \"127.0.0.1:0\"");
    let mut client = server.send(b"GET http://right.test:81/app/x?y HTTP/1.1\r\nHost: wrong.test\r\n\r\n");
    let expected = [
        ("HTTP_HOST", Some("right.test:81")),
        ("SERVER_NAME", Some("right.test")),
        ("REQUEST_URI", Some("/app/x?y")),
    ];
    assert_variables(client.response().text(), &expected, "an absolute target");
}

//! The client address behind proxies: `trusted_proxies`, the PROXY protocol, and `allow` of restricted handlers.

use std::net::SocketAddrV4;

use rudy_tests::prelude::*;
use rustix::net;

/// A public `info` handler, which shows the client. 127.0.0.1 is a trusted proxy, `[::1]` is not.
const INFO: &str = "[[site]]\n[[site.route]]\npath = \"/info\"\ninfo = { allow = \"anyone\" }\n";
const TRUST: &str = "trusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]\n";
const BOTH: &str = "listen = [\"127.0.0.1:0\", \"[::1]:0\"]\n";
const BOTH_PROXY: &str = "listen = [\"127.0.0.1:0,proxy_protocol\", \"[::1]:0,proxy_protocol\"]\n";

fn v6_address(server: &Server) -> SocketAddr {
    server.address_of(1)
}

fn get(address: SocketAddr, path: &str, fields: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: own.test\r\n{fields}Connection: close\r\n\r\n");
    Connection::send_to(address, request).response()
}

/// The value of this name in the response of `info`.
fn fact<'a>(response: &'a Response, name: &str) -> &'a str {
    let line = response.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_default()
}

#[test]
fn forged_fields_do_not_change_the_client() {
    let server = Server::config(&format!("{BOTH}{TRUST}{INFO}"));
    for (fields, client) in [
        ("X-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7"),
        ("X-Forwarded-For: 127.0.0.1, 203.0.113.7\r\n", "203.0.113.7"),
        (
            "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 203.0.113.7\r\nX-Forwarded-For: 10.0.0.2\r\n",
            "203.0.113.7",
        ),
        ("X-Forwarded-For: 203.0.113.7, ::ffff:10.0.0.2\r\n", "203.0.113.7"),
        ("Forwarded: for=1.1.1.1;proto=https\r\nX-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7"),
        ("X-Forwarded-For: 203.0.113.7\r\nForwarded: for=1.1.1.1;proto=https\r\n", "203.0.113.7"),
        ("X-Forwarded-For: 203.0.113.7, unknown\r\n", "unknown client of 127.0.0.1"),
    ] {
        let response = get(server.address(), "/info", fields);
        assert_eq!((fact(&response, "client"), fact(&response, "scheme")), (client, "http"), "{fields}");
        assert!(fact(&response, "proxy").starts_with("127.0.0.1:"), "{}", response.text());
        // The same fields from an untrusted peer.
        let response = get(v6_address(&server), "/info", &format!("{fields}X-Forwarded-Proto: https\r\n"));
        assert!(fact(&response, "client").starts_with("[::1]:"), "{}", response.text());
        assert_eq!((fact(&response, "proxy"), fact(&response, "scheme")), ("", "http"), "{fields}");
    }
    // Without a forwarding field, the proxy is the client. Without a configuration, no proxy is trusted.
    assert!(fact(&get(server.address(), "/info", ""), "client").starts_with("127.0.0.1:"));
    let server = Server::config(&format!("{BOTH}{INFO}"));
    let response =
        get(server.address(), "/info", "X-Forwarded-For: 203.0.113.7\r\nForwarded: for=203.0.113.7\r\n");
    assert!(fact(&response, "client").starts_with("127.0.0.1:"), "{}", response.text());
}

#[test]
fn forwarded_is_read_if_configured() {
    let server = Server::config(&format!("{BOTH}{TRUST}client_address = \"forwarded\"\n{INFO}"));
    for (fields, client, scheme) in [
        ("Forwarded: for=\"[2001:db8::7]:4711\";proto=https\r\n", "[2001:db8::7]:4711", "https"),
        ("Forwarded: for=1.1.1.1;proto=https, for=203.0.113.7\r\n", "203.0.113.7", "http"),
        ("Forwarded: for=203.0.113.7;proto=https\r\nForwarded: for=10.0.0.2\r\n", "203.0.113.7", "https"),
        ("Forwarded: for=\", for=203.0.113.7\r\n", "203.0.113.7", "http"),
        ("Forwarded: for=_hidden;proto=https\r\n", "unknown client of 127.0.0.1", "https"),
        (
            "X-Forwarded-For: 1.1.1.1\r\nForwarded: for=203.0.113.7\r\nX-Forwarded-Proto: https\r\n",
            "203.0.113.7",
            "http",
        ),
    ] {
        let response = get(server.address(), "/info", fields);
        assert_eq!((fact(&response, "client"), fact(&response, "scheme")), (client, scheme), "{fields}");
    }
}

#[test]
fn a_named_field_of_trusted_proxies_has_the_client() {
    let top = format!("{TRUST}client_address = \"X-Azure-ClientIP\"\n");
    let server = Server::config(&format!("{}{top}{INFO}", BOTH.replace("127.0.0.1:0", "127.0.0.1:0,h2c")));
    for (fields, client) in [
        ("X-Azure-ClientIP: 203.0.113.7\r\nX-Forwarded-For: 1.1.1.1\r\n", "203.0.113.7"),
        ("x-azure-clientip: [2001:db8::7]:4711\r\n", "[2001:db8::7]:4711"),
        ("X-Azure-ClientIP: 1.1.1.1\r\nX-Azure-ClientIP: 203.0.113.7\r\n", "unknown client of 127.0.0.1"),
        ("X-Azure-ClientIP:\r\n", "unknown client of 127.0.0.1"),
    ] {
        let response = get(server.address(), "/info", fields);
        assert_eq!(fact(&response, "client"), client, "{fields}");
        let response = get(v6_address(&server), "/info", fields);
        assert!(fact(&response, "client").starts_with("[::1]:"), "{}", response.text());
    }
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.request(1, "GET", "/info", &[("x-azure-clientip", "203.0.113.7")], true);
    let response = connection.response(1);
    assert_contains!(response.text(), "client: 203.0.113.7\n");
    // The client is not on this machine.
    let status = "[[site]]\nhosts = \"own.test\"\n[[site.route]]\npath = \"/status\"\nstatus = { allow = \"loopback\" }\n";
    let server = Server::config(&format!("{BOTH}{top}{status}"));
    assert_eq!(get(server.address(), "/status", "").status, 200);
    let response = get(server.address(), "/status", "X-Azure-ClientIP: 127.0.0.1\r\n");
    assert_eq!(response.status, 403);
    assert_contains!(response.text(), "Only clients on the server's own machine");
    // Behind the PROXY protocol.
    let server = Server::config(&format!("{BOTH_PROXY}{top}{INFO}"));
    let field = "X-Azure-ClientIP: 192.0.2.9\r\n";
    for (header, client) in [(V1.to_vec(), "203.0.113.7:4711"), (v2([10, 1, 2, 3], 80), "192.0.2.9")] {
        assert_eq!(fact(&ask_behind(server.address(), &header, field), "client"), client);
    }
}

#[test]
fn networks_of_trusted_proxies_are_in_a_file() {
    let folder = Folder::with(&[("cdn.txt", "# the CDN\n127.0.0.0/8\n")]);
    let text = format!("{BOTH}trusted_proxies = [\"10.0.0.0/8\", \"file:cdn.txt\"]\n{INFO}");
    folder.write("rudy.toml", &text);
    let mut server = Server::build().config_of(folder).start();
    let addresses = [server.address(), v6_address(&server)];
    let clients = || {
        addresses.map(|address| {
            let response = get(address, "/info", "X-Forwarded-For: 203.0.113.7, 10.0.0.2\r\n");
            fact(&response, "client").split(':').next().unwrap_or_default().to_owned()
        })
    };
    let replace = |server: &Server, text: &str| {
        let new = server.path().write("new.txt", text);
        fs::rename(new, server.path().join("cdn.txt")).expect("the folder can be written");
    };
    assert_eq!(clients(), ["203.0.113.7", "["]);
    replace(&server, "<html>\n");
    server.wait_for_line("line 1 is no network");
    assert_eq!(clients(), ["203.0.113.7", "["]);
    replace(&server, "::1\n");
    server.wait_for_line("has changed: it has 1 network of trusted proxies now");
    assert_eq!(clients(), ["127.0.0.1", "203.0.113.7"]);
    let checked = |text: &str| {
        replace(&server, text);
        Rudy::run(["check", &server.path().text("rudy.toml")])
    };
    assert_contains!(checked("::1\n").succeeded(), "file:");
    assert_contains!(checked("").failed_with(2), "it has no networks");
    assert_contains!(checked("::1\n10.0.0.1:80\n").failed_with(2), "line 2 is no network");
}

#[test]
fn a_trusted_forwarded_host_selects_the_site() {
    let sites = "[[site]]\nhosts = [\"own.test\"]\n[[site.route]]\npath = \"/*\"\nrespond = { body = \"own\" }\n\
        [[site]]\nhosts = [\"other.test\"]\n[[site.route]]\npath = \"/moved\"\nredirect = { to = \"http://{host}/\" }\n\
        [[site.route]]\npath = \"/*\"\nrespond = { body = \"other\" }\n";
    let field = "X-Forwarded-Host: other.test\r\n";
    let server = Server::config(&format!("{BOTH}{TRUST}{sites}"));
    assert_eq!(get(server.address(), "/", field).text(), "own");
    let server = Server::config(&format!("{BOTH}{TRUST}trust_forwarded_host = true\n{sites}"));
    assert_eq!(get(server.address(), "/", field).text(), "other");
    assert_eq!(get(server.address(), "/moved", field).field("location"), Some("http://other.test/"));
    assert_eq!(get(server.address(), "/", "X-Forwarded-Host: other.test, own.test\r\n").text(), "own");
    assert_eq!(get(v6_address(&server), "/", field).text(), "own");
}

/// Allows all requests, and reports the client address.
fn authorizer(mut peer: Peer) {
    while let Some(params) = peer.request() {
        let seen = [variable(&params, "REMOTE_ADDR"), variable(&params, "REQUEST_SCHEME")].join(" ");
        peer.respond(format!("Status: 200\r\nVariable-Seen: {seen}\r\n\r\n").as_bytes());
    }
}

/// Responds with these parameters, one per line.
fn app(mut peer: Peer) {
    while let Some(params) = peer.request() {
        let names = ["REMOTE_ADDR", "REMOTE_PORT", "REQUEST_SCHEME", "HTTPS", "SEEN", "HTTP_HOST"];
        let text: String = names.map(|name| format!("{name}={}\n", variable(&params, name))).concat();
        peer.body();
        peer.respond(format!("Content-Type: text/plain\r\n\r\n{text}").as_bytes());
    }
}

/// A server whose app and authorizer return their parameters, and its access log.
fn with_apps(top: &str, format: &str, listen: &str) -> (Server, [App; 2]) {
    let (app, authorizer) = (App::start(app), App::start(authorizer));
    let server = Server::config(&format!(
        "{listen}{top}access_log = {{ path = \"access.log\", format = \"{format}\" }}\n[[site]]\n\
         authorize = {{ address = \"{}\" }}\n[[site.route]]\npath = \"/*\"\nfastcgi = {{ address = \"{}\" }}\n",
        authorizer.address(),
        app.address()
    ));
    (server, [app, authorizer])
}

fn last_line(log: &Path) -> String {
    eventually("the line is written", || Some(fs::read_to_string(log).ok()?.lines().next_back()?.to_owned()))
}

#[test]
fn apps_authorizers_and_logs_get_the_client_address() {
    let top = format!("{TRUST}trust_forwarded_host = true\n");
    let fields =
        "X-Forwarded-For: 203.0.113.7:4711\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a.test\r\n";
    for format in ["combined", "json"] {
        let (server, _apps) = with_apps(&top, format, BOTH);
        assert_eq!(
            get(server.address(), "/", fields).text(),
            "REMOTE_ADDR=203.0.113.7\nREMOTE_PORT=4711\nREQUEST_SCHEME=https\nHTTPS=on\n\
             SEEN=203.0.113.7 https\nHTTP_HOST=a.test\n"
        );
        let line = last_line(&server.path().join("access.log"));
        if format == "combined" {
            assert!(line.starts_with("203.0.113.7 - - ["), "{line}");
        } else {
            let line: Value = serde_json::from_str(&line).expect("the text is JSON");
            assert_members!(line, "client": "203.0.113.7", "client_port": 4711, "proxy": "127.0.0.1");
        }
    }
    // Without a port in the field, the app gets no port.
    let (server, _apps) = with_apps(&top, "json", BOTH);
    let response = get(server.address(), "/", "X-Forwarded-For: 203.0.113.7\r\n");
    assert!(response.text().contains("REMOTE_ADDR=203.0.113.7\nREMOTE_PORT=\n"), "{}", response.text());
    // Fields of other peers are ignored.
    let response = get(v6_address(&server), "/", fields);
    assert!(response.text().starts_with("REMOTE_ADDR=::1\n"), "{}", response.text());
    assert!(response.text().contains("HTTPS=\nSEEN=::1 http\nHTTP_HOST=own.test\n"), "{}", response.text());
}

fn v2(address: [u8; 4], port: u16) -> Vec<u8> {
    let (signature, fixed) = (b"\r\n\r\n\0\r\nQUIT\n", [0x21, 0x11, 0, 12]);
    [&signature[..], &fixed, &address, &[198, 51, 100, 1], &port.to_be_bytes(), &[1, 187]].concat()
}

const V1: &[u8] = b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\n";
const INFO_REQUEST: &str = "GET /info HTTP/1.1\r\nHost: a\r\n";

fn ask_behind(address: SocketAddr, header: &[u8], fields: &str) -> Response {
    let request = format!("{INFO_REQUEST}{fields}Connection: close\r\n\r\n");
    Connection::send_to(address, [header, request.as_bytes()].concat()).response()
}

#[test]
fn a_proxy_protocol_header_names_the_client_on_every_engine() {
    for model in engines() {
        let server =
            Server::config(&format!("engine = \"{model}\"\nkeep_alive = true\n{BOTH_PROXY}{TRUST}{INFO}"));
        for header in [V1, &v2([203, 0, 113, 7], 4711)] {
            let response = ask_behind(server.address(), header, "");
            let facts = (fact(&response, "client"), fact(&response, "proxy"));
            assert_eq!(facts, ("203.0.113.7:4711", ""), "{model}");
        }
        // The header arrives in pieces, followed by several requests.
        let mut connection = server.connect();
        for byte in V1 {
            connection.send(&[*byte]);
        }
        for request in 1..=2 {
            connection.send(format!("{INFO_REQUEST}\r\n").as_bytes());
            let response = connection.response();
            assert_eq!(fact(&response, "client"), "203.0.113.7:4711");
            assert_eq!(fact(&response, "request"), request.to_string(), "{model}");
        }
    }
}

#[test]
fn forwarding_fields_are_trusted_if_the_client_of_the_proxy_header_is_a_trusted_proxy() {
    let server = Server::config(&format!("{BOTH_PROXY}{TRUST}{INFO}"));
    let field = "X-Forwarded-For: 192.0.2.9\r\n";
    for (header, client) in [
        // The client is not a trusted proxy, so its fields are ignored.
        (V1.to_vec(), "203.0.113.7:4711"),
        // A second proxy in front of the first.
        (v2([10, 1, 2, 3], 80), "192.0.2.9"),
        // The peer that sent the header is not a trusted proxy.
        (b"PROXY UNKNOWN\r\n".to_vec(), "unknown client of 127.0.0.1"),
    ] {
        assert_eq!(fact(&ask_behind(server.address(), &header, field), "client"), client);
    }
}

/// Sends and waits until the server closes the connection without a response.
fn assert_closed(address: SocketAddr, sent: &[u8]) {
    assert_eq!(Connection::send_to(address, sent).read_to_end(), b"");
}

#[test]
fn a_connection_without_a_proxy_header_is_closed_and_logged() {
    let limits = "limits.proxy_header_timeout = \"200ms\"\n";
    let mut server =
        Server::config(&format!("{limits}{BOTH_PROXY}{TRUST}access_log.path = \"access.log\"\n{INFO}"));
    assert_closed(server.address(), b"GET /info HTTP/1.1\r\nHost: a\r\n\r\n");
    let line = server.wait_for_line("does not start with a PROXY protocol header");
    assert!(line.contains(" client: 127.0.0.1:"), "{line}");
    let line = last_line(&server.path().join("access.log"));
    assert!(line.starts_with("127.0.0.1 - - [") && line.contains("\"-\" 000 0"), "{line}");
    // From an untrusted peer, with any header.
    assert_closed(v6_address(&server), &[V1, b"GET /info HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    server.wait_for_line("the peer is not in `trusted_proxies`");
    // A header that is too slow, and a silent client.
    assert_closed(server.address(), b"PROXY TCP4 ");
    server.wait_for_line("timed out waiting for the PROXY protocol header");
    assert_closed(server.address(), b"");
}

#[test]
fn a_unix_socket_can_be_trusted_and_can_require_headers() {
    let folder = Folder::new();
    let socket = folder.join("rudy.sock");
    for (option, header) in [("", &b""[..]), (",proxy_protocol", V1)] {
        let listen = format!("listen = [\"unix:{},mode=600{option}\"]\n", socket.display());
        let _server = Server::config(&format!("{listen}trusted_proxies = [\"unix\"]\n{INFO}"));
        let request =
            "GET /info HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\nConnection: close\r\n\r\n";
        let text = exchange_unix(&socket, [header, request.as_bytes()].concat());
        let expected = if header.is_empty() { "client: 203.0.113.7\n" } else { "client: 203.0.113.7:4711\n" };
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_reload_can_switch_the_proxy_protocol_of_an_address() {
    let port = free_port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let text = |option: &str| format!("listen = [\"127.0.0.1:{port}{option}\"]\n{TRUST}{INFO}");
    let mut server = Server::config(&text(""));
    let mut reload = |text: &str| server.reload_with(text, "the configuration was reloaded");
    assert!(fact(&get(address, "/info", ""), "client").starts_with("127.0.0.1:"));
    reload(&text(",proxy_protocol"));
    assert_eq!(fact(&ask_behind(address, V1, ""), "client"), "203.0.113.7:4711");
    assert_closed(address, b"GET /info HTTP/1.1\r\n\r\n");
    // A header that is incomplete at the reload can be completed.
    let mut half = Connection::open(address);
    half.send(&V1[..20]);
    reload(&text(""));
    assert!(fact(&get(address, "/info", ""), "client").starts_with("127.0.0.1:"));
    half.send(&[&V1[20..], INFO_REQUEST.as_bytes(), b"\r\n"].concat());
    assert_eq!(fact(&half.response(), "client"), "203.0.113.7:4711");
}

#[test]
fn a_stop_does_not_wait_for_a_proxy_header() {
    let mut server = Server::config(&format!("{BOTH_PROXY}{TRUST}{INFO}"));
    let mut half = server.send(b"PROXY ");
    assert!(!server.stop().contains("aborted"));
    assert_eq!(half.read_to_end(), b"");
}

#[test]
fn the_listen_flag_accepts_proxy_protocol_and_needs_trusted_proxies() {
    let server = Server::build()
        .config(&format!("{TRUST}{INFO}"))
        .args(["--listen", "127.0.0.1:0,proxy_protocol"])
        .start();
    assert_eq!(fact(&ask_behind(server.address(), V1, ""), "client"), "203.0.113.7:4711");
    let output = Rudy::run(["serve", "--listen", "127.0.0.1:0,proxy_protocol", "."]);
    assert_contains!(output.failed_with(2), "`proxy_protocol` needs `trusted_proxies`");
}

#[test]
fn the_limit_per_address_applies_to_clients_behind_proxies() {
    let limits = "limits.connections_per_address = 1\n";
    let server = Server::config(&format!("{limits}{BOTH}{TRUST}{INFO}"));
    let hold = |address, header: &[u8]| {
        let mut connection =
            Connection::send_to(address, [header, INFO_REQUEST.as_bytes(), b"\r\n"].concat());
        let status = connection.response().status;
        (connection, status)
    };
    let proxy = [(); 3].map(|()| hold(server.address(), b""));
    assert_eq!(proxy.map(|(_, status)| status), [200; 3]);
    let other = [(); 2].map(|()| hold(v6_address(&server), b""));
    assert_eq!(other.map(|(_, status)| status), [200, 503]);
    let server = Server::config(&format!("{limits}{BOTH_PROXY}{TRUST}{INFO}"));
    let clients = [V1, V1, &v2([203, 0, 113, 8], 1)].map(|header| hold(server.address(), header));
    assert_eq!(clients.map(|(_, status)| status), [200, 503, 200]);
}

#[test]
fn restricted_handlers_reject_other_clients() {
    let site = "[[site]]\nhosts = \"own.test\"\n[[site.route]]\npath = \"/status\"\nstatus = { allow = \"loopback\" }\n\
        [[site.route]]\npath = \"/info\"\ninfo = { allow = [\"203.0.113.0/24\"] }\n";
    let server = Server::config(&format!("{BOTH}{TRUST}{site}"));
    let status = |path: &str, fields: &str| get(server.address(), path, fields).status;
    assert_eq!(status("/status", ""), 200);
    for field in
        ["X-Forwarded-For: 127.0.0.1", "Via: 1.1 proxy", "X-Real-IP: ::1", "Forwarded: for=127.0.0.1"]
    {
        let response = get(server.address(), "/status", &format!("{field}\r\n"));
        assert_eq!(response.status, 403, "{field}");
        assert!(response.text().contains("this request came through a proxy"), "{}", response.text());
    }
    assert_eq!(status("/info", ""), 403);
    assert_eq!(status("/info", "X-Forwarded-For: 203.0.113.7\r\n"), 200);
    assert_eq!(status("/info", "X-Forwarded-For: 203.0.113.7, 192.0.2.1\r\n"), 403);
    assert_eq!(status("/info", "X-Forwarded-For: 203.0.113.7, unknown\r\n"), 403);
    assert_eq!(get(v6_address(&server), "/info", "X-Forwarded-For: 203.0.113.7\r\n").status, 403);
}

#[test]
fn the_proxy_header_of_curl_is_accepted() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::config(&format!("{BOTH_PROXY}{TRUST}{INFO}"));
    let fetched = curl.run(["--haproxy-protocol", &server.url("/info")]);
    assert_eq!(fetched.status(), 200);
    assert_contains!(String::from_utf8(fetched.body).expect("the bytes are UTF-8"), "client: 127.0.0.1:");
}

/// Starts nginx with these directives in its location, if it is installed.
fn nginx(location: &str) -> Option<rudy_tests::Peer> {
    rudy_tests::Peer::nginx_with(|_, address| {
        format!("server {{ listen {address}; location / {{ {location} }} }}")
    })
}

/// The response of nginx to a client at another address of this machine.
fn get_from(from: Ipv4Addr, address: SocketAddr, fields: &str) -> String {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)
        .expect("a socket can be created");
    net::bind(&socket, &SocketAddrV4::new(from, 0)).expect("all of 127.0.0.0/8 is here");
    net::connect(&socket, &address).expect("nginx listens");
    let mut stream = TcpStream::from(socket);
    let request = format!("GET / HTTP/1.1\r\nHost: own.test\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("nginx reads");
    std::io::read_to_string(&mut stream).expect("nginx responds")
}

#[test]
fn nginx_with_its_documented_configuration_forwards_the_client() {
    let (server, _apps) =
        with_apps("trusted_proxies = [\"127.0.0.1\"]\ntrust_forwarded_host = true\n", "json", BOTH);
    let Some(front) = nginx(&format!(
        "proxy_pass http://{}; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; \
         proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $http_host;",
        server.address()
    )) else {
        return;
    };
    let forged = "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: forged\r\n";
    let text = get_from([127, 0, 0, 2].into(), front.address(), forged);
    assert_contains!(
        text,
        "REMOTE_ADDR=127.0.0.2\nREMOTE_PORT=\nREQUEST_SCHEME=http\nHTTPS=\n",
        "HTTP_HOST=own.test\n"
    );
    let line: Value =
        serde_json::from_str(&last_line(&server.path().join("access.log"))).expect("the text is JSON");
    assert_members!(line, "client": "127.0.0.2", "proxy": "127.0.0.1");
    // nginx and this client have the same trusted address, so the client counts as a proxy too.
    assert_contains!(get_from([127, 0, 0, 1].into(), front.address(), forged), "REMOTE_ADDR=203.0.113.7\n");
}

#[test]
fn requests_that_nginx_forwards_are_not_local() {
    let site = "[[site]]\n[[site.route]]\npath = \"/status\"\nstatus = { allow = \"loopback\" }\n";
    let server = Server::config(&format!("{BOTH}{site}"));
    let pass = format!("proxy_pass http://{};", server.address());
    let Some(front) = nginx(&format!("{pass} proxy_set_header X-Real-IP $remote_addr;")) else {
        return;
    };
    assert_eq!(get(front.address(), "/status", "").status, 403);
    // `loopback` is not sufficient behind a proxy on this machine that adds no forwarding field.
    let silent = nginx(&pass).expect("the program is installed");
    assert_eq!(get(silent.address(), "/status", "").status, 200);
}

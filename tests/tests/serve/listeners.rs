//! Sites that are served at their own addresses.

use rudy_tests::prelude::*;

/// A site with these keys, which responds with `name`.
fn site(name: &str, keys: &str) -> String {
    format!("[[site]]\n{keys}\nroute = [{{ path = '/*', respond = '{name}' }}]\n")
}

/// The status of the response to a request for this host, and its body if it is that of a site.
fn get(connection: &mut Connection, host: &str) -> (u16, String) {
    let response = connection.get("/", &[&format!("Host: {host}")]);
    (response.status, of_site(response.status, response.text()))
}

fn of_site(status: u16, text: &str) -> String {
    if status == 200 { text.to_owned() } else { String::new() }
}

/// Requests these hosts on one connection with HTTP/1.1, and on another one with HTTP/2.
fn assert_serves(address: SocketAddr, hosts: &[(&str, u16, &str)]) {
    let mut connection = Connection::open(address);
    let mut http2 = Http2Connection::open(address, &[]);
    for (stream, (host, status, body)) in (1..).step_by(2).zip(hosts) {
        let expected = (*status, (*body).to_owned());
        assert_eq!(get(&mut connection, host), expected, "{host} at {address}");
        let head = [(":method", "GET"), (":scheme", "http"), (":authority", *host), (":path", "/")];
        http2.frame(kind::HEADERS, END | END_HEADERS, stream, &block(&head));
        let response = http2.response(stream);
        let got = (response.status, of_site(response.status, response.text()));
        assert_eq!(got, expected, "{host} at {address} with HTTP/2");
    }
}

#[test]
fn a_site_is_served_only_at_its_addresses() {
    let port = free_port();
    let wildcard = format!("hosts = 'c.test'\nlisten = [':{port},h2c', '127.0.0.3:0,h2c']");
    let sites = [
        site("public", "hosts = 'a.test'"),
        site("internal", "hosts = ['a.test', 'b.test']\nlisten = '127.0.0.2:0,h2c'"),
        site("other", "listen = '127.0.0.3:0,h2c'"),
        site("wildcard", &wildcard),
    ];
    let server = Server::config(&format!("listen = '127.0.0.1:0,h2c'\n{}", sites.concat()));
    let at = |listener| server.address_of(listener);
    let any = |ip: &str| format!("{ip}:{port}").parse().expect("an address");
    assert_serves(
        at(0),
        &[("a.test", 200, "public"), ("b.test", 421, ""), ("c.test", 421, ""), ("x", 421, "")],
    );
    assert_serves(at(1), &[("b.test", 200, "internal"), ("a.test:80", 200, "internal"), ("c.test", 421, "")]);
    assert_serves(at(2), &[("a.test", 200, "other"), ("c.test", 200, "wildcard"), ("x", 200, "other")]);
    // The configured address decides, not the one that the client has connected to.
    for ip in ["127.0.0.1", "127.0.0.2", "127.0.0.7"] {
        assert_serves(any(ip), &[("c.test", 200, "wildcard"), ("a.test", 421, ""), (ip, 421, "")]);
    }
    let without_host =
        |listener| Connection::send_to(at(listener), b"GET / HTTP/1.0\r\n\r\n").response().status;
    assert_eq!([0, 1, 2].map(without_host), [421, 421, 200]);
}

fn over_unix(path: &Path, host: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    exchange_unix(path, request)[9..12].to_owned()
}

#[test]
fn a_unix_socket_and_inherited_sockets_serve_the_sites_that_name_them() {
    let (socket, inherited) = listen();
    let sites = [
        site("public", "hosts = 'a.test'"),
        site("internal", "hosts = 'b.test'\nlisten = ['unix:site.sock', 'unix:./site.sock']"),
        site("systemd", "hosts = 'c.test'\nlisten = 'systemd'"),
    ];
    let server = Server::build().config(&format!("listen = '127.0.0.1:0'\n{}", sites.concat()));
    let server = server.inheriting(socket).start();
    let path = server.path().join("site.sock");
    let served = |host| {
        let at = |address| get(&mut Connection::open(address), host).0;
        (at(server.address()), over_unix(&path, host), at(inherited))
    };
    assert_eq!(served("a.test"), (200, "421".to_owned(), 421));
    assert_eq!(served("b.test"), (421, "200".to_owned(), 421));
    assert_eq!(served("c.test"), (421, "421".to_owned(), 200));
}

#[test]
fn a_certificate_is_offered_only_at_the_addresses_of_its_site() {
    let Some(certificates) = Certificates::new() else { return };
    let tls = |name: &str| {
        certificates.signed(name, &format!("{name}.test"), Valid::Now);
        let tls = certificates.settings(name);
        format!("hosts = '{name}.test'\ntls = {{ {tls} }}")
    };
    let internal = format!("{}\nlisten = '127.0.0.2:0,tls'", tls("internal"));
    let text = [
        "listen = '127.0.0.1:0,tls'\n".to_owned(),
        site("public", &tls("public")),
        site("internal", &internal),
        // The same certificate at an address with another site.
        site("both", &format!("{}\nlisten = ['127.0.0.1:0,tls', '127.0.0.3:0,tls']", tls("both"))),
    ];
    let server = Server::config(&text.concat());
    let client = TlsClient::new(&certificates, None, false);
    let status = |listener, name: &str| client.status(server.address_of(listener), name, name);
    for (name, expected) in [
        ("public.test", [Some(200), None, None]),
        ("internal.test", [None, Some(200), None]),
        ("both.test", [Some(200), None, Some(200)]),
    ] {
        assert_eq!([0, 1, 2].map(|listener| status(listener, name)), expected, "{name}");
    }
    let mut connection = client.connect(server.address(), "public.test").expect("the site has this name");
    let response = connection.get("internal.test").expect("the connection is open");
    assert_eq!((response.status, response.text().contains("internal")), (421, false));
}

#[test]
fn a_reload_moves_sites_between_listeners_also_for_open_connections() {
    let config = |first: &str, second: &str| {
        [
            site("a", &format!("hosts = 'a.test'\nlisten = '{first}:0'")),
            site("b", &format!("hosts = 'b.test'\nlisten = '{second}:0'")),
            site("both", "hosts = 'both.test'\nlisten = ['127.0.0.1:0', '127.0.0.2:0']"),
        ]
        .concat()
    };
    let mut server = Server::config(&config("127.0.0.1", "127.0.0.2"));
    let mut open = [0, 1].map(|listener| Connection::open(server.address_of(listener)));
    let statuses = |open: &mut [Connection; 2]| {
        let mut at =
            |listener: usize| ["a.test", "b.test", "both.test"].map(|host| get(&mut open[listener], host).0);
        [at(0), at(1)]
    };
    assert_eq!(statuses(&mut open), [[200, 421, 200], [421, 200, 200]]);
    server.path().write("rudy.toml", config("127.0.0.2", "127.0.0.1"));
    server.reload("the configuration was reloaded");
    assert_eq!(statuses(&mut open), [[421, 200, 200], [200, 421, 200]]);
}

/// An upstream whose responses to all requests are fresh, and have this body.
fn cacheable(body: &'static str) -> Upstream {
    Upstream::serve(move |peer, _| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nETag: \"1\"\r\n";
        peer.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()));
    })
}

#[test]
fn sites_with_the_same_host_at_different_addresses_have_separate_stored_responses() {
    let (public, internal) = (cacheable("public"), cacheable("internal"));
    let site = |upstream: &Upstream, keys: &str| {
        let purge = "cache = { purge_from = 'loopback' }";
        format!("[[site]]\n{keys}\n{purge}\nroute = [{{ path = '/*', proxy = '{upstream}' }}]\n")
    };
    let sites = site(&public, "hosts = 'a.test'") + &site(&internal, "listen = '127.0.0.2:0'");
    let server = Server::config(&format!("listen = '127.0.0.1:0'\n{sites}"));
    let get = |listener| {
        let mut connection = Connection::open(server.address_of(listener));
        let (status, body) = get(&mut connection, "a.test");
        // The response is stored after it was sent.
        let hit = eventually("a hit", || {
            let next = connection.get("/", &["Host: a.test"]);
            let is_hit = next.field("cache-status").is_some_and(|status| status.contains("hit"));
            is_hit.then(|| next.text().to_owned())
        });
        (status, body == hit, body)
    };
    for _ in 0..2 {
        assert_eq!(get(0), (200, true, "public".to_owned()));
        assert_eq!(get(1), (200, true, "internal".to_owned()));
    }
    for target in ["/", "/*"] {
        let mut connection = Connection::open(server.address_of(1));
        assert_eq!(connection.exchange("PURGE", target, &["Host: a.test"]).status, 200, "{target}");
        let stored = connection.get("/", &["Host: a.test", "Cache-Control: only-if-cached"]);
        assert_eq!(stored.status, 504, "{target}");
        assert_eq!(get(1).2, "internal");
    }
}

#[test]
fn sites_with_the_same_host_have_separate_names_in_metrics() {
    let (main, own) = (free_port(), free_port());
    let sites = [
        site("public", "hosts = 'a.test'"),
        site("internal", &format!("hosts = 'a.test'\nlisten = '127.0.0.2:{own}'")),
        format!("[[site]]\nlisten = '127.0.0.2:{own}'\nroute = [{{ path = '/*', metrics = {{}} }}]\n"),
    ];
    let server = Server::config(&format!("listen = '127.0.0.1:{main}'\nmetrics = true\n{}", sites.concat()));
    for number in [0, 1, 1] {
        assert_eq!(get(&mut Connection::open(server.address_of(number)), "a.test").0, 200);
    }
    wait_until("all requests are counted", || {
        let mut connection = Connection::open(server.address_of(1));
        let text = connection.get("/", &["Host: any"]).text().to_owned();
        let count = |site: &str, count: u64| {
            let labels = format!("{{site=\"{site}\",route=\"/*\",status=\"2xx\"}}");
            text.contains(&format!("rudy_http_requests_total{labels} {count}\n"))
        };
        count("a.test", 1) && count(&format!("a.test at 127.0.0.2:{own}"), 2)
    });
}

#[test]
fn flags_replace_the_shared_addresses_only() {
    let text = [
        "listen = '127.0.0.1:1'\n".to_owned(),
        site("public", "hosts = 'a.test'"),
        site("internal", "hosts = 'b.test'\nlisten = '127.0.0.2:0,h2c'"),
    ];
    let server = Server::build().config(&text.concat()).args(["--listen", "127.0.0.3:0,h2c"]).start();
    assert_eq!(server.address().ip().to_string(), "127.0.0.3");
    assert_serves(server.address(), &[("a.test", 200, "public"), ("b.test", 421, "")]);
    assert_serves(server.address_of(1), &[("a.test", 421, ""), ("b.test", 200, "internal")]);
}

#[test]
fn a_request_is_explained_at_the_listener_with_its_port() {
    let folder = Folder::new();
    let text = [
        "listen = [':80', ':8443']\n".to_owned(),
        site("public", "hosts = 'a.test'"),
        site("internal", "listen = '127.0.0.1:9000'"),
    ];
    folder.write("rudy.toml", text.concat());
    for (url, listener, last) in [
        ("http://a.test/", "*:80", "Handler   respond: 200 with 6 bytes of text"),
        ("http://a.test:8443/", "*:8443", "Handler   respond: 200 with 6 bytes of text"),
        ("http://a.test:9000/", "127.0.0.1:9000", "Handler   respond: 200 with 8 bytes of text"),
        ("http://127.0.0.1/", "*:80", "Response  421: no site has this host"),
        // Through a proxy with another port.
        ("https://a.test/", "*:80", "Handler   respond: 200 with 6 bytes of text"),
        ("https://b.test/", "127.0.0.1:9000", "Handler   respond: 200 with 8 bytes of text"),
        ("/", "*:80", "Handler   respond: 200 with 6 bytes of text"),
    ] {
        let text = Rudy::command(["check", "--explain", url]).folder(folder.path()).output().stdout;
        assert_eq!(text.lines().next(), Some(&*format!("Listener  {listener}")), "{url}");
        assert_eq!(text.lines().last(), Some(last), "{url}");
    }
}

//! HTTPS with real clients: where certificates come from, the choice of the site, and certificates that are replaced.

use rudy_tests::prelude::*;

/// Copies a certificate and its key to `cert.pem` and `key.pem` in a folder. Each is replaced in one step.
fn install(certificates: &Certificates, name: &str, folder: &Path) {
    certificates.copy(name, folder);
    for (end, to) in [("pem", "cert.pem"), ("key", "key.pem")] {
        let from = folder.join(format!("{name}.{end}"));
        fs::rename(from, folder.join(to)).expect("a temp folder can be written");
    }
}

/// A request with this SNI and host, by a client that trusts the authority. Returns the exit code, status and body.
fn get(
    curl: &Curl,
    certificates: &Certificates,
    server: &Server,
    sni: &str,
    host: &str,
) -> (i32, u16, String) {
    let (authority, port) = (certificates.path("authority"), server.address().port());
    let resolve = format!("{sni}:{port}:127.0.0.1");
    let (host, url) = (format!("Host: {host}"), format!("https://{sni}:{port}/"));
    let result = curl.run(["--cacert", &authority, "--resolve", &resolve, "--header", &host, &url]);
    let status = result.transfers.first().and_then(|transfer| transfer["response_code"].as_u64());
    let body = String::from_utf8_lossy(&result.body).into_owned();
    (result.exit, status.and_then(|status| status.try_into().ok()).unwrap_or(0), body)
}

#[test]
fn a_self_signed_certificate_is_the_same_in_the_next_run() {
    let Some(curl) = Curl::find() else { return };
    let state = Folder::new();
    let start = || {
        let server = Server::build().files(&[("index.html", b"hello")]).args(["--tls", "self-signed"]);
        server.env("STATE_DIRECTORY", state.path()).start()
    };
    let file = || fs::read_dir(state.join("certificates")).unwrap().next().unwrap().unwrap().path();
    let trusted = || file().to_str().unwrap().to_owned();
    let mut kept = None;
    for _ in 0..2 {
        let server = start();
        assert_eq!(kept.get_or_insert_with(trusted), &trusted());
        // OpenSSL accepts no `*` directly below a top-level domain, so not `a.localhost`.
        for host in ["localhost", "127.0.0.1"] {
            let port = server.address().port();
            let resolve = format!("{host}:{port}:127.0.0.1");
            let url = format!("https://{host}:{port}/");
            let result = curl.run(["--cacert", &trusted(), "--resolve", &resolve, &url]);
            assert_eq!((result.exit, &result.body[..]), (0, &b"hello"[..]), "{host}");
        }
        let result = curl.run([format!("http://{}/", server.address())]);
        assert!(result.body.ends_with(b"Use https://.\n"), "{:?}", result.body);
    }
}

#[test]
fn the_local_authority_is_the_same_in_the_next_run() {
    let Some(curl) = Curl::find() else { return };
    let state = Folder::new();
    let authority = state.join("authority.crt");
    let mut first = None;
    for _ in 0..2 {
        let server = Server::build().files(&[("index.html", b"hello")]).args(["--tls", "internal"]);
        let server = server.env("STATE_DIRECTORY", state.path()).start();
        let port = server.address().port();
        let result =
            curl.run(["--cacert", authority.to_str().unwrap(), &format!("https://localhost:{port}/")]);
        assert_eq!((result.exit, &result.body[..]), (0, &b"hello"[..]));
        let made = fs::read(&authority).unwrap();
        assert_eq!(first.get_or_insert_with(|| made.clone()), &made);
        // The next start writes it again.
        fs::remove_file(&authority).unwrap();
    }
}

/// Changes the stores of this machine, and removes the change again.
#[test]
fn a_trusted_local_authority_needs_no_flag() {
    needs!(long());
    let (Some(curl), Some(certutil)) = (Curl::find(), program("certutil")) else { return };
    let folder = Folder::new();
    let (state, home) = (folder.join("state"), folder.join("home"));
    let database = home.join(".pki/nssdb");
    fs::create_dir_all(&database).unwrap();
    let certutil = |arguments: &[&str]| {
        let database = format!("sql:{}", database.display());
        Output::of(Command::new(&certutil).args(arguments).args(["-d", &database])).stdout
    };
    certutil(&["-N", "--empty-password"]);
    let rudy = |command: &str| {
        Rudy::command(["certificates", command]).env("HOME", &home).env("STATE_DIRECTORY", &state).output()
    };
    assert_contains!(rudy("trust").stderr, "`rudy serve --tls internal` makes the authority");
    assert_contains!(rudy("untrust").stderr, "remove each `rudy-local-authority-*`");
    let server = Server::build().files(&[("index.html", b"hello")]).args(["--tls", "internal"]);
    let server = server.env("STATE_DIRECTORY", &state).start();
    let fetch = || curl.run([format!("https://localhost:{}/", server.address().port())]).exit;
    assert_eq!(fetch(), 60, "not trusted");
    let line = rudy("trust").succeeded();
    assert_eq!(fetch(), 0);
    let installed = line.lines().find_map(|line| line.strip_prefix("system: installed as ")).unwrap();
    assert_eq!(fs::metadata(installed).unwrap().permissions().mode() & 0o777, 0o644, "readable by all");
    assert!(certutil(&["-L"]).contains("rudy-local-authority-"));
    assert!(rudy("untrust").is_success());
    assert_eq!(fetch(), 60, "no longer trusted");
    assert!(!certutil(&["-L"]).contains("rudy-local-authority-"));
    assert!(rudy("untrust").is_success(), "a second time");
}

/// Sites `a` and `b` share a certificate for both, `c` has another policy, `plain` has no TLS.
#[test]
fn a_connection_serves_only_the_hosts_that_its_handshake_was_for() {
    let (Some(curl), Some(certificates)) = (Curl::find(), Certificates::new()) else { return };
    for (name, host) in [("ab", "a.test,DNS:b.test"), ("c", "c.test")] {
        certificates.signed(name, host, Valid::Now);
    }
    let site = |name: &str, tls: &str| {
        format!("[[site]]\nhosts = ['{name}.test']\n{tls}\n[[site.route]]\npath = '/*'\nrespond = '{name}'\n")
    };
    let (ab, c) = (certificates.settings("ab"), certificates.settings("c"));
    let sites = [
        site("a", &format!("tls = {{ {ab} }}")),
        site("b", &format!("tls = {{ {ab} }}")),
        site("c", &format!("tls = {{ {c}, min_version = '1.3' }}")),
        site("plain", ""),
    ];
    let server = Server::config(&format!("listen = ['127.0.0.1:0,tls']\n{}", sites.concat()));
    for (sni, host, exit, status) in [
        ("a.test", "a.test", 0, 200),
        ("a.test", "A.TEST:443", 0, 200),
        ("a.test", "b.test", 0, 200),
        ("b.test", "a.test", 0, 200),
        ("a.test", "c.test", 0, 421),
        ("c.test", "a.test", 0, 421),
        ("c.test", "c.test", 0, 200),
        ("a.test", "plain.test", 0, 421),
        ("a.test", "other.test", 0, 421),
        // An alert.
        ("plain.test", "plain.test", 35, 0),
        ("other.test", "a.test", 35, 0),
        // No server name, and no default site.
        ("127.0.0.1", "a.test", 35, 0),
    ] {
        let (got_exit, got_status, body) = get(&curl, &certificates, &server, sni, host);
        assert_eq!((got_exit, got_status), (exit, status), "{sni} {host}: {body}");
    }
}

/// Clients send no server name for an address.
#[test]
fn the_site_of_an_address_is_reached_beside_others() {
    let Some(certificates) = Certificates::new() else { return };
    let site = |name: &str, hosts: &str, names: &str| {
        certificates.signed(name, names, Valid::Now);
        let tls = certificates.settings(name);
        format!("[[site]]\n{hosts}\ntls = {{ {tls} }}\n[[site.route]]\npath = '/*'\nrespond = '{name}'\n")
    };
    let named = site("named", "hosts = 'a.test'", "a.test");
    let by_address = site("address", "hosts = '127.0.0.1'", "b.test,IP:127.0.0.1");
    let default = site("default", "", "c.test");
    let client = TlsClient::new(&certificates, None, false);
    for others in [named.clone(), format!("{named}{default}")] {
        let server = Server::config(&format!("listen = ['127.0.0.1:0,tls']\n{others}{by_address}"));
        let connect = |host| client.connect(server.address(), host)?.get(host);
        for (host, expected) in [("127.0.0.1", "address"), ("a.test", "named")] {
            let response = connect(host).unwrap_or_else(|| panic!("no response: {host}"));
            assert_eq!(response.text(), expected, "{host}");
        }
    }
}

#[test]
fn a_certificate_is_replaced_without_a_restart() {
    let (Some(curl), Some(certificates)) = (Curl::find(), Certificates::new()) else { return };
    for (name, host) in [("first", "a.test"), ("second", "a.test,DNS:b.test"), ("other", "b.test")] {
        certificates.signed(name, host, Valid::Now);
    }
    let folder = Folder::new();
    install(&certificates, "first", folder.path());
    let path = |name: &str| folder.text(name);
    let tls = format!("certificate = '{}', key = '{}'", path("cert.pem"), path("key.pem"));
    let mut server = Server::config(&format!(
        "listen = ['127.0.0.1:0,tls']\n[[site]]\nhosts = ['a.test']\ntls = {{ {tls} }}\n\
         [[site.route]]\npath = '/*'\nrespond = 'a'\n"
    ));
    let is_served =
        |server: &Server| get(&curl, &certificates, server, "a.test", "a.test") == (0, 200, "a".to_owned());
    assert!(is_served(&server));
    // Half of a pair, then one for another site, then a broken file: the old one stays.
    fs::copy(certificates.path("second"), path("cert.pem")).unwrap();
    server.wait_for_line("the key is not the key of the certificate; the old TLS settings stay in use");
    assert!(is_served(&server));
    install(&certificates, "other", folder.path());
    server.wait_for_line("not valid for a.test, but for b.test; the old TLS settings stay in use");
    assert!(is_served(&server));
    fs::write(path("cert.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    server.wait_for_line("is it complete?");
    assert!(is_served(&server));
    install(&certificates, "second", folder.path());
    server.wait_for_line("replaced the TLS settings");
    assert!(is_served(&server));
    // Only the second certificate is valid for this name: the request is valid, but there is no such site.
    let (exit, status, _) = get(&curl, &certificates, &server, "a.test", "b.test");
    assert_eq!((exit, status), (0, 421));
}

#[test]
fn plain_http_is_redirected_to_the_same_url() {
    let state = Folder::new();
    let port = free_port();
    let text = format!(
        "listen = ['127.0.0.1:0', '127.0.0.1:{port},tls']\n[[site]]\nhosts = ['a.test']\ntls = 'self-signed'\n\
         redirect_to_https = true\n[[site.route]]\npath = '/*'\nrespond = 'secret'\n\
         [[site]]\n[[site.route]]\npath = '/*'\nrespond = 'open'\n"
    );
    let server = Server::build().config(&text).env("STATE_DIRECTORY", state.path()).start();
    let leaving = |target: &'static str| ("a.test", target, 308, format!("https://a.test:{port}{target}"));
    for (host, target, status, location) in [
        ("a.test", "/", 308, format!("https://a.test:{port}/")),
        ("A.test:80", "/b%20c?d=/%2F", 308, format!("https://A.test:{port}/b%20c?d=/%2F")),
        ("a.test", "/.well-known/acme-challenge/x", 200, String::new()),
        ("a.test", "//.well-known/x/../acme-challenge/x", 200, String::new()),
        ("a.test", "/.well-known/../x", 308, format!("https://a.test:{port}/.well-known/../x")),
        leaving("/.well-known/acme-challenge/../../x"),
        leaving("/.well-known/acme-challenge/%2e%2e/%2E./x"),
        leaving("/.well-known/acme-challenge/..%2F..%2Fx"),
        ("other.test", "/", 200, String::new()),
    ] {
        for method in ["GET", "POST"] {
            let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
            let response = server.send(request).response();
            let expected = if status == 200 && method == "POST" { 405 } else { status };
            let got = response.field("location").unwrap_or_default().to_owned();
            assert_eq!((response.status, got), (expected, location.clone()), "{method} {host}{target}");
        }
    }
}

#[test]
fn sessions_survive_a_reload_a_restart_and_another_process() {
    let Some(certificates) = Certificates::for_host("a", "a.test") else { return };
    let (state, tls) = (Folder::new(), certificates.settings("a"));
    let keys = state.write("shared-keys", [7; 48]);
    let given = format!("ticket_keys = '{}'\n", keys.display());
    let other = state.write("other-keys", [8; 48]);
    for ticket_keys in ["", &given] {
        let text = |ticket_keys: &str| {
            format!(
                "listen = '127.0.0.1:0,tls'\n{ticket_keys}[[site]]\nhosts = ['a.test']\ntls = {{ {tls} }}\n\
                 [[site.route]]\npath = '/*'\nrespond = 'a'\n"
            )
        };
        let start =
            || Server::build().config(&text(ticket_keys)).env("STATE_DIRECTORY", state.path()).start();
        let client = TlsClient::new(&certificates, None, false).remembering();
        let resumes = |server: &Server| {
            let mut connection = client.connect(server.address(), "a.test").unwrap();
            // The tickets are behind the response.
            assert_eq!(connection.get("a.test").unwrap().status, 200);
            connection.is_resumed()
        };
        let (mut first, second) = (start(), start());
        assert!(!resumes(&first) && resumes(&first) && resumes(&second));
        // A reload that fails does not replace the keys.
        let with_other = text(&format!("ticket_keys = '{}'\n", other.display()));
        first.reload_with(
            &format!("{with_other}[[site]]\nroot = 'nowhere'\n"),
            "the configuration is unchanged",
        );
        assert!(resumes(&first));
        first.reload_with(&text(ticket_keys), "reloaded");
        assert!(resumes(&first));
        drop((first, second));
        assert!(resumes(&start()));
    }
    assert_eq!(state.mode("ticket-keys"), 0o600);
}

#[test]
fn hsts_is_sent_over_https_only() {
    let Some(certificates) = Certificates::for_host("a", "a.test,DNS:b.test") else { return };
    let folder = Folder::with(&[("index.html", "hello")]);
    let tls = format!("tls = {{ {} }}", certificates.settings("a"));
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0,tls', '127.0.0.1:0']\ntrusted_proxies = '127.0.0.1'\n\
         [[site]]\nhosts = ['a.test']\n{tls}\nroot = '{folder}'\n\
         hsts = {{ max_age = '365d', include_subdomains = true, preload = true }}\n\
         [[site.route]]\npath = '/delayed'\ndelay = {{ time = '1ms' }}\n\
         [[site]]\nhosts = ['b.test']\n{tls}\n[[site.route]]\npath = '/*'\nrespond = 'b'\n"
    ));
    let client = TlsClient::new(&certificates, None, false);
    let mut connection = client.connect(server.address(), "a.test").unwrap();
    let expected = Some("max-age=31536000; includeSubDomains; preload");
    for (target, status) in [("/", 200), ("/", 200), ("/delayed", 200), ("/missing", 404), ("/%zz", 400)] {
        let response = connection.get_target("a.test", target).unwrap();
        let value = response.field("strict-transport-security");
        assert_eq!((response.status, value), (status, expected), "{target}");
    }
    for (host, status) in [("b.test", 200), ("c.test", 421)] {
        let response = connection.get(host).unwrap();
        assert_eq!((response.status, response.field("strict-transport-security")), (status, None), "{host}");
    }
    let plain = |fields: &[&str]| {
        let mut connection = Connection::open(server.address_of(1));
        let response = connection.get("/", &[&["Host: a.test"], fields].concat());
        response.field("strict-transport-security").map(str::to_owned)
    };
    // A proxy reports the scheme, if it is trusted.
    let forwarded = "X-Forwarded-For: 192.0.2.1";
    assert_eq!(plain(&[forwarded, "X-Forwarded-Proto: https"]).as_deref(), expected);
    assert_eq!(plain(&[forwarded, "X-Forwarded-Proto: http"]), None);
    assert_eq!(plain(&[]), None);
}

#[test]
fn failed_handshakes_are_counted_and_logged_with_their_reason() {
    let Some(certificates) = Certificates::for_host("a", "a.test") else { return };
    let tls = certificates.settings("a");
    let mut server = Server::config(&format!(
        "listen = '127.0.0.1:0,tls'\naccess_log = '-'\n[limits]\nfirst_request_timeout = '300ms'\n\
         [[site]]\nhosts = ['a.test']\ntls = {{ {tls} }}\n\
         [[site.route]]\npath = '/*'\nstatus = {{ allow = 'loopback' }}\n",
    ));
    let client = TlsClient::new(&certificates, None, false).remembering();
    for (bytes, reason) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "was rejected (400): plain HTTP on a port for HTTPS"),
        (b"\x01\x02", "failed: not TLS"),
        (b"", "failed: it was not completed in time"),
    ] {
        Connection::send_to(server.address(), bytes).read_to_end();
        server.wait_for_line(reason);
    }
    assert!(client.connect(server.address(), "b.test").is_none());
    server.wait_for_line("failed: no site with a certificate has this server name: b.test");
    assert_eq!(client.status(server.address(), "a.test", "a.test"), Some(200));
    let status = client.connect(server.address(), "a.test").unwrap().get("a.test").unwrap();
    let status: Value = serde_json::from_str(status.text()).unwrap();
    assert_eq!(status["handshakes"], serde_json::json!({ "completed": 2, "resumed": 1, "failed": 4 }));
}

#[test]
fn the_cipher_suite_is_ours_unless_the_client_prefers_chacha() {
    let Some(openssl) = program("openssl") else { return };
    let server = Server::build().files(&[]).args(["--tls", "self-signed"]);
    let server = server.env("STATE_DIRECTORY", Folder::new().path()).start();
    let handshake = |arguments: &[&str]| {
        let address = server.address().to_string();
        let mut client = Command::new(&openssl);
        client.args(["s_client", "-servername", "localhost", "-connect", &address]).args(arguments);
        let output = client.stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let (aes, chacha) = ("TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256");
    let [aes_12, chacha_12] = ["AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256", "CHACHA20-POLY1305"]
        .map(|name| format!("ECDHE-ECDSA-{name}"));
    for (arguments, expected) in [
        (["-tls1_3", "-ciphersuites", &format!("{aes}:{chacha}")], "Cipher is TLS_AES_128_GCM_SHA256"),
        (["-tls1_3", "-ciphersuites", &format!("{chacha}:{aes}")], "Cipher is TLS_CHACHA20_POLY1305_SHA256"),
        (["-tls1_2", "-cipher", &format!("{aes_12}:{chacha_12}")], "Cipher is ECDHE-ECDSA-AES128-GCM-SHA256"),
        (["-tls1_2", "-cipher", &format!("{chacha_12}:{aes_12}")], "Cipher is ECDHE-ECDSA-CHACHA20-POLY1305"),
        (["-tls1_3", "-sigalgs", "RSA-PSS+SHA256"], "alert handshake failure"),
    ] {
        let text = handshake(&arguments);
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

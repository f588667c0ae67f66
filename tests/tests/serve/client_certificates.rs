//! Client certificates: which clients are accepted, and attempts to bypass it.

use rudy_tests::prelude::*;

/// The sites of the tests: who is accepted, and the settings after the server's certificate.
const SITES: [(&str, &[&str], &str); 5] = [
    ("open", &["none", "a", "b", "revoked"], ""),
    ("a", &["a", "revoked"], "client_certificates = { authority = '{a}' }"),
    ("b", &["b"], "client_certificates = { authority = '{b}' }"),
    ("optional", &["none", "a", "revoked"], "client_certificates = { authority = '{a}', required = false }"),
    ("crl", &["a"], "client_certificates = { authority = '{a}', crl = '{crl}' }"),
];

/// Two authorities, and the certificates of the clients and the server.
struct Setup {
    a: Certificates,
    b: Certificates,
    folder: Folder,
}

impl Setup {
    fn new() -> Option<Self> {
        let (a, b) = (Certificates::new()?, Certificates::new()?);
        let hosts = ["open", "a", "b", "optional", "crl", "forward"].map(|site| format!("{site}.test"));
        a.signed("server", &hosts.join(",DNS:"), Valid::Now);
        a.signed("a", "a.client", Valid::Now);
        a.signed("revoked", "revoked.client", Valid::Now);
        a.signed("expired", "expired.client", Valid::Once);
        a.revoke(&["revoked"]);
        b.signed("b", "b.client", Valid::Now);
        let folder = Folder::new();
        let setup = Self { a, b, folder };
        for (from, to) in [(&setup.a, "a.pem"), (&setup.b, "b.pem")] {
            setup.install(from, "authority", to);
        }
        setup.install(&setup.a, "crl", "crl.pem");
        Some(setup)
    }

    fn path(&self, name: &str) -> String {
        self.folder.text(name)
    }

    /// Replaces a file in one step.
    fn install(&self, from: &Certificates, name: &str, to: &str) {
        fs::copy(from.path(name), self.path("new")).expect("a temp folder can be written");
        fs::rename(self.path("new"), self.path(to)).expect("a temp folder can be written");
    }

    fn site(&self, name: &str, settings: &str, rest: &str) -> String {
        let tls = self.a.settings("server").replace(", key", "\nkey");
        let settings = ["a", "b", "crl"].iter().fold(settings.to_owned(), |settings, name| {
            settings.replace(&format!("{{{name}}}"), &self.path(&format!("{name}.pem")))
        });
        format!(
            "[[site]]\nhosts = ['{name}.test']\n{rest}\n\
             [site.tls]\n{tls}\n{settings}\n"
        )
    }

    fn config(&self, sites: &[(&str, &[&str], &str)]) -> String {
        let respond = "[[site.route]]\npath = '/*'\nrespond = 'ok'\n";
        let sites: String =
            sites.iter().map(|(name, _, settings)| self.site(name, settings, "") + respond).collect();
        format!("listen = ['127.0.0.1:0,tls', '127.0.0.1:0']\n{sites}")
    }

    fn client(&self, name: &str, is_tls12: bool) -> TlsClient {
        let certificate = match name {
            "none" => None,
            "b" => Some((&self.b, name)),
            _ => Some((&self.a, name)),
        };
        TlsClient::new(&self.a, certificate, is_tls12)
    }
}

/// Each combination of client, server name and host, without a ticket and with a ticket of each site.
#[test]
fn a_site_is_reached_only_by_handshakes_that_checked_its_clients() {
    let Some(setup) = Setup::new() else { return };
    let server = Server::config(&setup.config(&SITES));
    let address = server.address();
    for is_tls12 in [false, true] {
        for who in ["none", "a", "b", "revoked"] {
            let client = setup.client(who, is_tls12);
            for (name, accepted, _) in SITES {
                for (host, ..) in SITES {
                    let expected = accepted.contains(&who).then_some(if name == host { 200 } else { 421 });
                    let (server_name, host) = (format!("{name}.test"), format!("{host}.test"));
                    let case = format!("{who} at {server_name} for {host}, TLS 1.2: {is_tls12}");
                    assert_eq!(client.status(address, &server_name, &host), expected, "{case}");
                    for (other, ..) in SITES {
                        let client = client.remembering();
                        // Receives a ticket, if it is accepted there.
                        let _ = client.status(address, &format!("{other}.test"), &format!("{other}.test"));
                        let mut connection = client.connect(address, &server_name);
                        let is_resumed = connection.as_ref().is_some_and(TlsConnection::is_resumed);
                        let got = connection.as_mut().and_then(|connection| connection.get(&host));
                        let got = (got.map(|response| response.status), is_resumed);
                        let of_same_site = other == name && accepted.contains(&who);
                        assert_eq!(got, (expected, of_same_site), "{case}, with a ticket of {other}");
                    }
                }
            }
        }
    }
    let expired = setup.client("expired", false);
    let status = |client: &TlsClient, name: &str| client.status(address, name, name);
    assert_eq!((status(&expired, "a.test"), status(&expired, "open.test")), (None, Some(200)));
    // Over plain HTTP, only sites that require nothing.
    for (name, accepted, _) in SITES {
        let mut connection = Connection::open(server.address_of(1));
        let expected = if accepted.contains(&"none") { 200 } else { 421 };
        let response = connection.get("/", &[&format!("Host: {name}.test")]);
        assert_eq!(response.status, expected, "{name}");
    }
}

/// Certificates that webpki does not read, and nginx accepts.
#[test]
fn a_certificate_in_the_file_and_one_without_extensions_are_accepted() {
    let Some(setup) = Setup::new() else { return };
    setup.a.self_signed("own", "own.client", "critical,CA:TRUE");
    setup.a.self_signed("leaf", "leaf.client", "CA:FALSE");
    setup.a.without_extensions("own-v1", "own-v1");
    setup.a.without_extensions("authority", "v1");
    setup.a.issued("authority", "intermediate", "basicConstraints=critical,CA:TRUE", [&[], &[]]);
    setup.a.issued("authority", "signer", "extendedKeyUsage=serverAuth", [&[], &[]]);
    // From authorities that are not in the file: the last has the name of one that is.
    setup.a.self_signed("other", "other.client", "critical,CA:TRUE");
    setup.a.without_extensions("leaf", "from-leaf");
    setup.b.without_extensions("authority", "b-v1");
    let file =
        ["authority", "own", "leaf", "own-v1"].map(|name| fs::read_to_string(setup.a.path(name)).unwrap());
    // The file has the sections without a line end between them, and with a label of old files.
    let file = file.map(|pem| pem.trim_end().to_owned()).concat();
    let file = file.replacen("BEGIN CERT", "BEGIN X509 CERT", 1).replacen("END CERT", "END X509 CERT", 1);
    setup.folder.write("b.pem", file);
    let mut server = Server::config(&setup.config(&[("b", &[], SITES[2].2)]));
    let (address, name) = (server.address(), "b.test");
    for is_tls12 in [false, true] {
        for who in ["a", "own", "leaf", "own-v1", "v1", "intermediate"] {
            let client = TlsClient::new(&setup.a, Some((&setup.a, who)), is_tls12);
            assert_eq!(client.status(address, name, name), Some(200), "{who}, TLS 1.2: {is_tls12}");
        }
        for (owner, who, why) in [
            (
                &setup.a,
                "other",
                "the client's certificate is that of an authority; add it to the file `authority`",
            ),
            (&setup.a, "expired", "the client's certificate has expired: "),
            (&setup.a, "signer", "the client's certificate is not for TLS clients"),
            (
                &setup.b,
                "b-v1",
                "the client's certificate is of X.509 version 1 and not issued by an authority",
            ),
            (&setup.b, "b", "the client's certificate "),
            (&setup.a, "from-leaf", ""),
        ] {
            server.forget_lines();
            let client = TlsClient::new(&setup.a, Some((owner, who)), is_tls12);
            assert_eq!(client.status(address, name, name), None, "{who}, TLS 1.2: {is_tls12}");
            // Logged once a minute for each reason, and that of the last is one before.
            if !is_tls12 && !why.is_empty() {
                server.wait_for_line(why);
            }
        }
        // The certificate of another with a key of one's own.
        fs::copy(setup.a.path("own-v1"), setup.a.path("stolen")).unwrap();
        fs::copy(setup.a.path("v1").replace(".pem", ".key"), setup.a.path("stolen").replace(".pem", ".key"))
            .unwrap();
        let client = TlsClient::new(&setup.a, Some((&setup.a, "stolen")), is_tls12);
        assert_eq!(client.status(address, name, name), None, "TLS 1.2: {is_tls12}");
    }
}

#[test]
fn a_reload_that_asks_for_certificates_cannot_be_bypassed() {
    let Some(setup) = Setup::new() else { return };
    let mut server = Server::config(&setup.config(&SITES));
    let address = server.address();
    let client = setup.client("none", false).remembering();
    let mut kept = client.connect(address, "open.test").unwrap();
    assert_eq!(kept.get("open.test").unwrap().status, 200);
    assert!(client.connect(address, "open.test").unwrap().is_resumed());

    let mut sites = SITES;
    sites[0].2 = sites[1].2;
    server.reload_with(&setup.config(&sites), "reloaded");
    assert_eq!(kept.get("open.test").unwrap().status, 421);
    assert_eq!(client.status(address, "open.test", "open.test"), None);
    assert_eq!(setup.client("a", false).status(address, "open.test", "open.test"), Some(200));

    // The connection and its tickets are good again with the old settings.
    server.reload_with(&setup.config(&SITES), "reloaded");
    assert!(client.connect(address, "open.test").is_some());
    assert_eq!(client.status(address, "open.test", "open.test"), Some(200));
}

#[test]
fn a_removed_authority_and_a_revoked_certificate_end_access() {
    let Some(setup) = Setup::new() else { return };
    let mut server = Server::config(&setup.config(&SITES));
    let address = server.address();
    for (name, authority, from, to) in
        [("crl", "crl", &setup.a, "crl.pem"), ("a", "authority", &setup.b, "a.pem")]
    {
        let host = format!("{name}.test");
        let client = setup.client("a", false).remembering();
        let mut kept = client.connect(address, &host).unwrap();
        assert_eq!(kept.get(&host).unwrap().status, 200);
        assert!(client.connect(address, &host).unwrap().is_resumed());
        if name == "crl" {
            setup.a.revoke(&["a"]);
        }
        setup.install(from, authority, to);
        server.wait_for_line(&format!("{to} changed"));
        assert_eq!(kept.get(&host).unwrap().status, 421);
        assert_eq!(client.status(address, &host, &host), None);
    }
    assert_eq!(setup.client("b", false).status(address, "a.test", "a.test"), Some(200));
    // A broken file changes nothing.
    fs::write(setup.path("b.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    server.wait_for_line("the old TLS settings stay in use");
    assert_eq!(setup.client("b", false).status(address, "b.test", "b.test"), Some(200));
}

#[test]
fn access_rules_use_the_subject_of_the_verified_certificate() {
    let Some(setup) = Setup::new() else { return };
    for (name, subject) in [
        ("alice", "/O=Team/CN=alice"),
        ("comma", "/O=Team/CN=alice,O=Team"),
        ("other", "/O=CN=alice,O=Team/CN=mallory"),
        ("longer", "/O=Team/CN=alice2"),
    ] {
        setup.a.signed_for(subject, name, "a.client", Valid::Now);
    }
    let rules = "[[site.route]]\npath = '/any'\nrespond = 'ok'\naccess = { allow = 'anyone', certificate = '*' }\n\
                 [[site.route]]\npath = '/but'\nrespond = 'ok'\naccess = { deny = 'anyone', certificate = 'CN=alice,*' }\n\
                 [[site.route]]\npath = '/*'\nrespond = 'ok'\naccess = { allow = 'anyone', certificate = 'CN=alice,O=*' }\n";
    let site = setup.site("optional", SITES[3].2, "") + rules;
    let server = Server::config(&format!("listen = ['127.0.0.1:0,tls', '127.0.0.1:0']\n{site}"));
    let host = "optional.test";
    let spoofed = "SSL_CLIENT_S_DN: CN=alice,O=Team\r\nSSL-Client-Verify: SUCCESS\r\n";
    for is_tls12 in [false, true] {
        for (who, expected) in [
            ("none", [403, 403, 200]),
            ("a", [403, 200, 200]),
            ("alice", [200, 200, 403]),
            ("comma", [403, 200, 200]),
            ("other", [403, 200, 200]),
            ("longer", [403, 200, 200]),
        ] {
            let client = setup.client(who, is_tls12).remembering();
            // The second connection resumes the session of the first.
            for is_resumed in [false, true] {
                let mut connection = client.connect(server.address(), host).expect("it is accepted");
                assert_eq!(connection.is_resumed(), is_resumed, "{who}");
                let statuses = ["/", "/any", "/but"].map(|target| {
                    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{spoofed}\r\n");
                    connection.exchange(&request).status
                });
                assert_eq!(statuses, expected, "{who}, TLS 1.2: {is_tls12}, resumed: {is_resumed}");
            }
        }
        for who in ["expired", "b"] {
            assert!(setup.client(who, is_tls12).status(server.address(), host, host).is_none(), "{who}");
        }
    }
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n{spoofed}\r\n");
    let mut connection = Connection::send_to(server.address_of(1), request);
    assert_eq!(connection.response().status, 403);
}

#[test]
fn apps_and_the_access_log_get_the_facts_of_the_certificate() {
    let Some(setup) = Setup::new() else { return };
    setup.a.signed_for("/C=DE/O=Äpfel, Birnen\\+Co/CN=#alice ", "alice", "a.client,DNS:b.client", Valid::Now);
    let app = App::serve(|peer, params| {
        let mut text = String::from("Content-Type: text/plain\r\n\r\n");
        let pairs = params
            .iter()
            .map(|(name, value)| (String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
        let wanted = pairs.filter(|(name, _)| name.starts_with("SSL_") || name == "HTTPS");
        text.extend(wanted.map(|(name, value)| format!("{name}={value}\n")));
        peer.respond(text.as_bytes());
    });
    let log = setup.path("access.log");
    let route = format!("[[site.route]]\npath = '/*'\nfastcgi = {{ address = '{app}' }}\n");
    let site = |name: &str, settings: &str| setup.site(name, settings, "") + &route;
    let server = Server::config(&format!(
        "listen = '127.0.0.1:0,tls'\naccess_log = {{ path = '{log}', format = 'json' }}\n{}{}{}",
        site("open", ""),
        site("optional", SITES[3].2),
        site("forward", "client_certificates = { authority = '{a}', forward = true }"),
    ));
    let text = |who: &str, host: &str| {
        let mut connection = setup.client(who, false).connect(server.address(), host).unwrap();
        connection.get(host).unwrap().text().to_owned()
    };
    let common = "HTTPS=on\nSSL_PROTOCOL=TLSv1.3\nSSL_CIPHER=TLS_AES_128_GCM_SHA256\n";
    assert_eq!(text("alice", "open.test"), common);
    assert_eq!(text("none", "optional.test"), format!("{common}SSL_CLIENT_VERIFY=NONE\n"));
    // As Apache formats them.
    let format = ["-subject", "-issuer", "-nameopt", "RFC2253,-esc_msb,sep_comma_plus", "-serial", "-dates"];
    let expected = setup.a.facts("alice", &format);
    let of = |key: &str| {
        let line = expected.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.strip_prefix('=').unwrap_or(line).to_owned()
    };
    let facts = format!(
        "{common}SSL_CLIENT_VERIFY=SUCCESS\nSSL_CLIENT_S_DN={}\nSSL_CLIENT_I_DN={}\nSSL_CLIENT_M_SERIAL={}\n\
         SSL_CLIENT_V_START={}\nSSL_CLIENT_V_END={}\nSSL_CLIENT_SAN_DNS_0=a.client\nSSL_CLIENT_SAN_DNS_1=b.client\n",
        of("subject"),
        of("issuer"),
        of("serial"),
        of("notBefore"),
        of("notAfter"),
    );
    assert_eq!(text("alice", "optional.test"), facts);
    let pem = fs::read_to_string(setup.a.path("alice")).unwrap();
    assert_eq!(text("alice", "forward.test"), format!("{facts}SSL_CLIENT_CERT={pem}\n"));
    for part in ["\"tls\":\"TLSv1.3\",\"cipher\":\"TLS_AES_128_GCM_SHA256\"", "\"client_certificate\":\"CN="]
    {
        setup.folder.wait_for("access.log", part);
    }
}

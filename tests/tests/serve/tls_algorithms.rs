//! The cipher suites, curves and tickets of sites, as `openssl s_client` sees them, and what `rudy check` says about lists.

use rudy_tests::prelude::*;

/// A site for `a.test` with this `tls` table.
fn site(name: &str, tls: &str) -> String {
    let route = format!("[[site.route]]\npath = '/*'\nrespond = '{name}'\n");
    format!("[[site]]\nhosts = ['{name}.test']\ntls = {{ {tls} }}\n{route}")
}

/// Visits a site of a server. Returns what `openssl s_client` prints, with all messages of the handshake, until the server closes.
fn visit(openssl: &Path, server: &Server, name: &str, arguments: &[&str]) -> String {
    let address = server.address().to_string();
    let mut client = Command::new(openssl);
    client.args(["s_client", "-msg", "-ign_eof", "-servername", name, "-connect", &address]).args(arguments);
    let pipes = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = pipes.spawn().expect("openssl can be started");
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    // A client without a connection has ended.
    let _ = client.stdin.take().expect("the stream is piped").write_all(request.as_bytes());
    let output = client.wait_with_output().expect("its output can be read");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// An RSA key.
const RSA: [&str; 3] = ["-newkey", "rsa:2048", "-nodes"];

const ALERT: &str = "alert handshake failure";

/// A server of `a.test` with this setting of `tls`, and of `b.test` without.
fn two_sites(setting: &str) -> Option<(PathBuf, Certificates, Server)> {
    let (openssl, certificates) = (program("openssl")?, Certificates::for_host("a", "a.test")?);
    certificates.signed("b", "b.test", Valid::Now);
    let [a, b] = ["a", "b"].map(|name| certificates.settings(name));
    let sites = [site("a", &format!("{a}, {setting}")), site("b", &b)].concat();
    let server = Server::config(&format!("listen = ['127.0.0.1:0,tls']\n{sites}"));
    Some((openssl, certificates, server))
}

#[test]
fn a_site_has_the_suites_of_its_list() {
    let list =
        "cipher_suites = 'TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:ECDHE-ECDSA-AES256-GCM-SHA384'";
    let Some((openssl, _certificates, server)) = two_sites(list) else { return };
    let chacha = "TLS_CHACHA20_POLY1305_SHA256";
    let aes = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
    for (name, arguments, expected) in [
        ("a.test", ["-tls1_3", "-ciphersuites", chacha], ALERT),
        ("b.test", ["-tls1_3", "-ciphersuites", chacha], "Cipher is TLS_CHACHA20_POLY1305_SHA256"),
        ("a.test", ["-tls1_3", "-ciphersuites", aes], "Cipher is TLS_AES_256_GCM_SHA384"),
        ("b.test", ["-tls1_3", "-ciphersuites", aes], "Cipher is TLS_AES_128_GCM_SHA256"),
        ("a.test", ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], ALERT),
        ("b.test", ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], "Cipher is ECDHE-ECDSA-AES128"),
        ("a.test", ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"], "Cipher is ECDHE-ECDSA-AES256"),
    ] {
        let text = visit(&openssl, &server, name, &arguments);
        assert!(text.contains(expected), "{name} {arguments:?}: {text}");
    }
}

#[test]
fn a_site_has_the_curves_of_its_list_in_their_order() {
    let list = "curves = ['X25519MLKEM768', 'secp384r1', 'X25519']";
    let Some((openssl, _certificates, server)) = two_sites(list) else { return };
    for version in ["-tls1_3", "-tls1_2"] {
        for (name, groups, expected) in [
            ("a.test", "X25519:P-384", "Server Temp Key: ECDH, secp384r1"),
            ("b.test", "X25519:P-384", "Server Temp Key: X25519"),
            ("a.test", "P-256:X25519", "Server Temp Key: X25519"),
            ("a.test", "P-256", ALERT),
            ("b.test", "P-256:X25519", "Server Temp Key: ECDH, prime256v1"),
        ] {
            let text = visit(&openssl, &server, name, &[version, "-groups", groups]);
            assert!(text.contains(expected), "{version} {name} {groups}: {text}");
        }
    }
}

/// A client that lists a group which its version does not have: no library sends this.
#[test]
fn a_client_of_tls_1_2_gets_a_group_of_its_version() {
    let list = "curves = ['X25519MLKEM768', 'X25519']";
    let Some((openssl, _certificates, server)) = two_sites(list) else { return };
    // The first message of openssl, to a listener that notes it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let arguments = ["s_client", "-tls1_2", "-servername", "a.test", "-groups", "P-521:X25519", "-connect"];
    let mut client = Command::new(openssl);
    client.args(arguments).arg(&address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut client = client.spawn().expect("openssl can be started");
    let mut hello = vec![0; 4096];
    let (mut stream, _) = listener.accept().unwrap();
    let length = stream.read(&mut hello).unwrap();
    drop(stream);
    client.wait().unwrap();
    hello.truncate(length);
    let groups = [0, 10, 0, 6, 0, 4, 0, 25, 0, 29];
    let at = hello.windows(groups.len()).position(|part| part == groups).expect("the groups are listed");
    // X25519MLKEM768 instead of P-521.
    hello[at + 6..at + 8].copy_from_slice(&[0x11, 0xec]);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&hello).unwrap();
    let mut record = [0];
    stream.read_exact(&mut record).unwrap();
    assert_eq!(record, [22], "a ServerHello, and no alert");
}

#[test]
fn a_site_without_tickets_issues_none_and_resumes_no_session() {
    let Some((openssl, certificates, server)) = two_sites("tickets = false") else { return };
    for version in ["-tls1_3", "-tls1_2"] {
        for (name, has_ticket) in [("a.test", false), ("b.test", true)] {
            let text = visit(&openssl, &server, name, &[version]);
            assert!(text.contains("HTTP/1.1 200 OK"), "{version} {name}: {text}");
            assert_eq!(text.contains("NewSessionTicket"), has_ticket, "{version} {name}: {text}");
        }
    }
    for is_tls12 in [false, true] {
        let client = TlsClient::new(&certificates, None, is_tls12).remembering();
        let is_resumed = |name: &str| {
            let mut connection = client.connect(server.address(), name).unwrap();
            assert_eq!(connection.get(name).unwrap().status, 200);
            connection.is_resumed()
        };
        assert_eq!(["a.test", "a.test"].map(is_resumed), [false, false]);
        assert_eq!(["b.test", "b.test"].map(is_resumed), [false, true]);
        // The ticket of one site is none for another.
        assert!(!is_resumed("a.test"));
    }
}

#[test]
fn sessions_and_connections_are_for_sites_with_the_same_lists() {
    let Some(certificates) = Certificates::for_host("ab", "a.test,DNS:b.test") else { return };
    let tls = certificates.settings("ab");
    let text = |lists: [&str; 2]| {
        let [a, b] = lists.map(|list| format!("{tls}, {list}"));
        format!("listen = ['127.0.0.1:0,tls']\n{}{}", site("a", &a), site("b", &b))
    };
    let (curves, suites) =
        ("curves = ['X25519']", "cipher_suites = 'TLS_AES_128_GCM_SHA256', min_version = '1.3'");
    let mut server = Server::config(&text([curves, curves]));
    let address = server.address();
    let client = TlsClient::new(&certificates, None, false);
    for (lists, is_same) in
        [([curves, curves], true), ([suites, curves], false), ([suites, "tickets = false"], false)]
    {
        server.reload_with(&text(lists), "reloaded");
        let status = client.status(address, "b.test", "a.test");
        assert_eq!(status, Some(if is_same { 200 } else { 421 }), "{lists:?}");
    }
    server.reload_with(&text([curves, curves]), "reloaded");
    let client = client.remembering();
    let mut kept = client.connect(address, "a.test").unwrap();
    assert_eq!(kept.get("a.test").unwrap().status, 200);
    assert!(client.connect(address, "a.test").unwrap().is_resumed());
    server.reload_with(&text(["curves = ['X25519', 'secp256r1']", curves]), "reloaded");
    assert_eq!(kept.get("a.test").unwrap().status, 421);
    assert!(!client.connect(address, "a.test").unwrap().is_resumed());
}

#[test]
fn a_site_has_a_certificate_for_each_of_its_hosts() {
    let Some(certificates) = Certificates::for_host("a", "a.test") else { return };
    certificates.signed("b", "b.test", Valid::Now);
    let file = |name: &str| {
        format!("[[site.tls.certificates]]\n{}\n", certificates.settings(name).replace(", ", "\n"))
    };
    let text = |hosts: &str, names: &[&str]| {
        let files: String = names.iter().map(|name| file(name)).collect();
        format!(
            "listen = ['127.0.0.1:0,tls']\n[[site]]\nhosts = {hosts}\nroute = [{{ path = '/*', respond = 'ok' }}]\n{files}"
        )
    };
    let server = Server::config(&text("['a.test', 'b.test']", &["a", "b"]));
    // It trusts only valid certificates for the server name.
    let client = TlsClient::new(&certificates, None, false);
    for (name, host, status) in [
        ("a.test", "a.test", 200),
        ("b.test", "b.test", 200),
        ("a.test", "b.test", 421),
        ("b.test", "a.test", 421),
    ] {
        assert_eq!(client.status(server.address(), name, host), Some(status), "{name} {host}");
    }
    for (hosts, names, expected) in [
        ("['a.test', 'c.test']", &["a"][..], "the certificate is not valid for c.test, but for a.test"),
        ("['a.test', 'b.test', 'c.test']", &["a", "b"], "no certificate is valid for c.test"),
        ("['a.test']", &["a", "b"], "the certificate is not valid for a.test, but for b.test"),
    ] {
        let (is_valid, output) = check(&text(hosts, names));
        assert!(!is_valid && output.contains(expected), "{hosts}: {output}");
    }
}

/// Checks a configuration. Returns whether it is valid, and what was printed.
fn check(text: &str) -> (bool, String) {
    let folder = Folder::with(&[("rudy.toml", text)]);
    // Other users can read it.
    folder.set_mode(".", 0o755);
    let output = Rudy::command(["check", "rudy.toml"]).folder(&folder).output();
    (output.is_success(), output.stdout + &output.stderr)
}

#[test]
fn a_list_must_suffice_for_all_versions_and_certificates() {
    let Some(certificates) = Certificates::for_host("ecdsa", "a.test") else { return };
    certificates.issued("authority", "rsa", "extendedKeyUsage=serverAuth", [&RSA, &[]]);
    let made = "source = 'self-signed'".to_owned();
    let rsa = certificates.settings("rsa");
    let (of_rsa, of_ecdsa) = ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256");
    let new = "TLS_AES_128_GCM_SHA256";
    for (tls, list, expected) in [
        (&made, format!("cipher_suites = ['{of_ecdsa}']"), "`cipher_suites` has nothing for TLS 1.3"),
        (&made, format!("cipher_suites = '{new}'"), "`cipher_suites` has nothing for TLS 1.2"),
        (&made, format!("cipher_suites = '{new}', min_version = '1.3'"), ""),
        (
            &made,
            format!("cipher_suites = '{new}:{of_rsa}'"),
            "fits the certificate self-signed (ECDSA P-256)",
        ),
        (&rsa, format!("cipher_suites = '{new}:{of_ecdsa}'"), "rsa.pem (RSA 2048)"),
        (&rsa, format!("cipher_suites = '{new}:{of_rsa}'"), ""),
        (
            &made,
            "cipher_suites = 'ECDHE-ECDSA-AES128-GCM-SHA265'".to_owned(),
            "did you mean \"ECDHE-ECDSA-AES128-GCM-SHA256\"?",
        ),
        (
            &made,
            "cipher_suites = 'HIGH:!aNULL'".to_owned(),
            "\"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256\", found \"HIGH\"",
        ),
        (&made, "curves = ['X25519MLKEM768']".to_owned(), "`curves` has nothing for TLS 1.2"),
        (&made, "curves = 'X25519:prime256v1'".to_owned(), ""),
        (&made, "curves = ['secp521r1']".to_owned(), "did you mean \"secp256r1\"?"),
        (&made, "tickets = false, early_data = true".to_owned(), "`early_data` needs session tickets"),
        (&made, "tickets = false".to_owned(), ""),
    ] {
        let host = if *tls == rsa { "localhost" } else { "a.test" };
        let text = format!(
            "listen = '127.0.0.1:0,tls'\n[[site]]\nhosts = '{host}'\nroot = '.'\ntls = {{ {tls}, {list} }}\n"
        );
        let (is_valid, output) = check(&text);
        assert_eq!(is_valid, expected.is_empty(), "{list}: {output}");
        assert!(output.contains(expected), "{list}: {output}");
    }
}

#[test]
fn sites_take_what_they_do_not_set_from_the_table_for_all() {
    let text = "listen = '127.0.0.1:0,tls'\ntls = { min_version = '1.3', tickets = false, curves = 'X25519' }\n\
         [[site]]\nhosts = 'a.test'\nroot = '.'\ntls = 'self-signed'\n\
         [[site]]\nhosts = 'b.test'\nroot = '.'\ntls = { source = 'self-signed', min_version = '1.2', tickets = true }\n\
         [[site]]\nhosts = 'plain.test'\nroot = '.'\n";
    let (is_valid, output) = check(text);
    assert!(is_valid, "{output}");
    for (key, uses) in [
        ("tls.min_version", "1 of 3 sites (replaced in 1 site)"),
        ("tls.curves", "2 of 3 sites"),
        ("tls.tickets", "1 of 3 sites (replaced in 1 site)"),
    ] {
        let line = output.lines().find(|line| line.trim_start().starts_with(key)).unwrap_or(&output);
        assert!(line.ends_with(uses), "{line}");
    }
    let Some(openssl) = program("openssl") else { return };
    let server = Server::config(text);
    let reached =
        |name, arguments: &[&str]| visit(&openssl, &server, name, arguments).contains("Cipher is ECDHE");
    assert!(reached("b.test", &["-tls1_2"]) && !reached("b.test", &["-tls1_2", "-groups", "P-256"]));
    assert!(!reached("a.test", &["-tls1_2"]));
}

//! What `rudy check` and the start say about the files of `tls`, and the file with secrets that `--tls-key-log` writes.

use rudy_tests::prelude::*;

/// A site with this `tls` table, and these lines before it.
fn config(top: &str, tls: &str) -> String {
    format!(
        "listen = '127.0.0.1:0,tls'\n{top}\n[[site]]\nhosts = ['a.test']\ntls = {{ {tls} }}\n\
         [[site.route]]\npath = '/*'\nrespond = 'a'\n"
    )
}

/// Checks a site. Returns whether it is valid, and what was printed.
fn check(top: &str, tls: &str) -> (bool, String) {
    let folder = Folder::with(&[("rudy.toml", config(top, tls))]);
    // Other users can read it.
    folder.set_mode(".", 0o755);
    let output = Rudy::command(["check", "rudy.toml"]).folder(&folder).output();
    (output.is_success(), output.stderr)
}

#[test]
fn a_certificate_that_expires_soon_is_reported() {
    let Some(certificates) = Certificates::new() else { return };
    certificates.signed("a", "a.test", Valid::ForAnotherDayAndAHalf);
    let (is_valid, text) = check("", &certificates.settings("a"));
    let expected =
        format!("warning: the certificate for a.test ({}) expires in 35 hours (", certificates.path("a"));
    assert!(is_valid && text.contains(&expected), "{text}");
    let mut server = Server::config(&config("", &certificates.settings("a")));
    server.wait_for_line(" expires in 35 hours (");
}

#[test]
fn an_unusable_file_is_reported_with_its_key() {
    let Some(certificates) = Certificates::for_host("a", "a.test") else { return };
    certificates.signed("old", "a.test", Valid::Once);
    certificates.revoke(&[]);
    let tls = certificates.settings("a");
    let file = |content: &[u8]| {
        let path = certificates.path(&format!("file-{}-{}", content.len(), content.last().unwrap_or(&0)));
        fs::write(&path, content).unwrap();
        path
    };
    let clients = |rest: String| format!("{tls}, client_certificates = {{ {rest} }}");
    let authority = certificates.path("authority");
    for (tls, expected) in [
        (certificates.settings("old"), "the certificate has expired (2020-01-02T00:00:00Z)"),
        (format!("{tls}, ocsp = '{}'", file(b"x")), "the file is no OCSP response in DER"),
        (format!("{tls}, ocsp = '{}'", file(&[0x30, 3, 10, 1, 6])), "reports an error instead of a status"),
        (format!("{tls}, ocsp = '/nonexistent'"), "cannot read /nonexistent"),
        (clients("authority = '/nonexistent'".to_owned()), "cannot read /nonexistent"),
        (clients(format!("authority = '{}'", file(b""))), "the file has no certificate"),
        (
            clients(format!("authority = '{authority}', crl = '{authority}'")),
            "the file has no revocation list",
        ),
        (clients(String::new()), "the key `authority` is missing"),
    ] {
        let (is_valid, text) = check("", &tls);
        assert!(!is_valid && text.contains(expected), "{tls}: {text}");
    }
    let (is_valid, text) = check("", &format!("{tls}, ocsp = '{}'", file(&[0x30, 3, 10, 1, 0])));
    assert!(is_valid, "{text}");
    let crl = certificates.path("crl");
    assert!(check("", &clients(format!("authority = '{authority}', crl = '{crl}'"))).0);
    for keys in ["/nonexistent".to_owned(), file(b"short")] {
        let (is_valid, text) = check(&format!("ticket_keys = '{keys}'"), &tls);
        assert!(!is_valid && text.contains(&format!("cannot use {keys}")), "{text}");
    }
}

#[test]
fn files_are_checked_as_the_user_of_the_server() {
    let Some(certificates) = Certificates::new() else { return };
    if !geteuid().is_root() {
        skip_unsupported("only root can become another user");
        return;
    }
    certificates.signed("a", "a.test", Valid::Now);
    let (is_valid, text) = check("user = '65534'", &certificates.settings("a"));
    let expected =
        "let the group of Rudy's user read it, or pass it with `LoadCredential=` in the systemd unit";
    assert!(!is_valid && text.contains(expected), "{text}");
}

#[test]
fn secrets_are_written_only_with_the_flag() {
    let Some(certificates) = Certificates::for_host("a", "a.test") else { return };
    let secrets = certificates.path("secrets");
    let path = certificates.path("a");
    let key = path.replace(".pem", ".key");
    let client = TlsClient::new(&certificates, None, false);
    for is_on in [false, true] {
        let server =
            Server::build().files(&[("index.html", b"a")]).args(["--tls-cert", &path, "--tls-key", &key]);
        let server = if is_on { server.arg("--tls-key-log") } else { server };
        let mut server = server.env("SSLKEYLOGFILE", &secrets).start();
        assert_eq!(client.status(server.address(), "a.test", "a.test"), Some(200));
        let Ok(text) = fs::read_to_string(&secrets) else {
            assert!(!is_on);
            continue;
        };
        assert!(is_on && text.contains("CLIENT_TRAFFIC_SECRET_0 "), "{text}");
        let widths: Vec<_> = text.lines().map(|line| line.split(' ').map(str::len).nth(1)).collect();
        assert!(widths.iter().all(|width| *width == Some(64)), "{text}");
        server.wait_for_line("its readers can decrypt all traffic");
        assert_eq!(fs::metadata(&secrets).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let output = Rudy::run(["serve", ".", "--listen", "127.0.0.1:0", "--tls-key-log"]);
    assert!(output.stderr.contains("the variable SSLKEYLOGFILE is not set"));
}

/// The file is published: a private key in it would be, too.
#[test]
fn only_the_certificate_of_an_authority_can_be_trusted() {
    let Some(certificates) = Certificates::new() else { return };
    certificates.self_signed("server", "a.test", "CA:FALSE");
    let read = |path: String| fs::read_to_string(path).unwrap();
    let (certificate, key) =
        (read(certificates.path("server")), read(certificates.path("server").replace(".pem", ".key")));
    let file = certificates.path("file");
    for (content, expected) in [
        (certificate.clone(), "is not that of an authority"),
        (format!("{certificate}{key}"), "the file has a private key"),
        (certificate.repeat(2), "the file has 2 certificates"),
        ("x".to_owned(), "the file has 0 certificates"),
    ] {
        fs::write(&file, content).unwrap();
        assert_contains!(Rudy::run(["certificates", "trust", "--authority", &file]).failed_with(1), expected);
    }
}

#[test]
fn early_data_has_conditions() {
    let clients = "source = 'self-signed', early_data = true, client_certificates = { authority = 'a' }";
    let (is_valid, text) = check("", clients);
    assert!(
        !is_valid && text.contains("`early_data` and `client_certificates` exclude each other"),
        "{text}"
    );
    let (is_valid, text) = check("", "source = 'self-signed', early_data = true");
    assert!(is_valid && text.contains("keep their sessions in memory: after a restart"), "{text}");
}

//! Tests `rudy tls`: every fault of a chain, in words, with servers of OpenSSL; phases, resumption and early data with `rudy serve`.

use rudy_tests::prelude::*;

/// Responds at once, with something that is not HTTP.
const NO_HTTP: &str = "-rev";

/// A key and a signature that OpenSSL accepts only at this level.
const ALLOW_WEAK: [&str; 2] = ["-cipher", "DEFAULT@SECLEVEL=0"];

fn tls(arguments: &[&str]) -> Output {
    Rudy::command(["tls"]).args(arguments).output()
}

fn report(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = tls(&[&["--json"], arguments].concat());
    let value = serde_json::from_str(&output.stdout);
    (output.code, value.unwrap_or_else(|error| panic!("{error}: {output:?}")))
}

/// Returns the exit code, the kinds of problems, and their texts.
fn problems(server: &TlsServer, authority: &str, arguments: &[&str]) -> (Option<i32>, Vec<String>, String) {
    let address = format!("localhost:{}", server.port);
    let trust = if authority.is_empty() { vec![] } else { vec!["--cacert", authority] };
    let (code, report) = report(&[&[address.as_str()], &trust[..], arguments].concat());
    let problems = report["problems"].as_array().expect("a list");
    let texts = |key: &'static str| {
        problems
            .iter()
            .map(move |problem| problem[key].as_str().expect("text").to_owned())
            .collect::<Vec<_>>()
    };
    (code, texts("kind"), texts("text").join("; "))
}

#[track_caller]
fn assert_problem(found: &(Option<i32>, Vec<String>, String), kind: &str, text: &str) {
    let (code, kinds, texts) = found;
    assert_eq!((*code, kinds.as_slice()), (Some(3), &[kind.to_owned()][..]), "{texts}");
    assert!(texts.contains(text), "{texts}");
}

#[test]
fn a_valid_chain_has_no_problem_and_one_that_expires_soon_fails_a_monitor() {
    let Some(certificates) = Certificates::new() else { return };
    certificates.signed("good", "localhost", Valid::ForAnotherDayAndAHalf);
    let (server, authority) = (certificates.serve_with("good", &[NO_HTTP]), certificates.path("authority"));
    assert_eq!(problems(&server, &authority, &[]), (Some(0), vec![], String::new()));
    assert_eq!(problems(&server, &authority, &["--expires-within", "1d"]).0, Some(0));
    assert_eq!(problems(&server, &authority, &["--expires-within", "14d"]).0, Some(3));
    let address = format!("localhost:{}", server.port);
    let text = tls(&["--cacert", &authority, "--expires-within", "14d", &address]);
    let why = "expires in 1 day, and so within 14 days";
    assert!(text.stderr.contains(why), "{text:?}");
    assert!(text.stdout.contains("No problem with the certificates"), "{text:?}");
}

#[test]
fn the_time_and_the_name_of_a_certificate_are_checked() {
    let Some(certificates) = Certificates::new() else { return };
    let authority = certificates.path("authority");
    for (name, host, valid, kind, text) in [
        ("old", "localhost", Valid::Once, "expired", "the certificate of CN=old expired "),
        ("early", "localhost", Valid::Later, "not_yet_valid", "the certificate of CN=early is valid only "),
        ("other", "example.test", Valid::Now, "wrong_name", "is for example.test and not for localhost"),
    ] {
        certificates.signed(name, host, valid);
        let server = certificates.serve_with(name, &[NO_HTTP]);
        assert_problem(&problems(&server, &authority, &[]), kind, text);
    }
    let server = certificates.serve_with("other", &[NO_HTTP]);
    let named = problems(&server, &authority, &["--server-name", "example.test"]);
    assert_eq!(named.0, Some(0), "{named:?}");
}

#[test]
fn the_reason_for_missing_trust_is_the_chain_the_authority_or_the_certificate_itself() {
    let Some(certificates) = Certificates::new() else { return };
    let authority = certificates.path("authority");
    certificates.issued("authority", "middle", "basicConstraints=critical,CA:TRUE", [&[], &[]]);
    certificates.issued("middle", "leaf", "extendedKeyUsage=serverAuth", [&[], &[]]);
    let missing = certificates.serve_with("leaf", &[NO_HTTP]);
    let text = "the server sends none of CN=middle, the issuer of CN=leaf";
    assert_problem(&problems(&missing, &authority, &[]), "missing_intermediate", text);
    let whole = certificates.serve_with("leaf", &[NO_HTTP, "-cert_chain", "middle.pem"]);
    assert_eq!(problems(&whole, &authority, &[]), (Some(0), vec![], String::new()));

    certificates.self_signed("alone", "localhost", "CA:FALSE");
    let alone = certificates.serve_with("alone", &[NO_HTTP]);
    assert_problem(&problems(&alone, &authority, &[]), "self_signed", "no authority vouches for it");
    let trusted = problems(&alone, &certificates.path("alone"), &[]);
    assert_eq!(trusted.0, Some(0), "{trusted:?}");

    let chain = ["middle", "authority"].map(|name| fs::read_to_string(certificates.path(name)).unwrap());
    fs::write(certificates.path("chain"), chain.concat()).unwrap();
    let known = certificates.serve_with("leaf", &[NO_HTTP, "-cert_chain", "chain.pem"]);
    let text = "the chain ends with CN=authority, which is not trusted";
    assert_problem(&problems(&known, &certificates.path("alone"), &[]), "untrusted_authority", text);
}

#[test]
fn weak_keys_and_signatures_are_named() {
    let Some(certificates) = Certificates::new() else { return };
    let authority = certificates.path("authority");
    let arguments = [&[NO_HTTP], &ALLOW_WEAK[..]].concat();
    let usage = "extendedKeyUsage=serverAuth";
    certificates.issued("authority", "short", usage, [&["-newkey", "rsa:1024", "-nodes"], &[]]);
    let found = problems(&certificates.serve_with("short", &arguments), &authority, &[]);
    assert_eq!(found.0, Some(3));
    // The key is too short for the client's library, too.
    assert_eq!(found.1, ["weak_key", "no_proof_of_key"], "{}", found.2);
    assert!(found.2.contains("the key of CN=short is too short: RSA 1024"), "{}", found.2);
    certificates.issued("authority", "sha1", usage, [&[], &["-sha1"]]);
    let found = problems(&certificates.serve_with("sha1", &arguments), &authority, &[]);
    assert!(found.1.contains(&"weak_signature".to_owned()), "{found:?}");
    assert!(found.2.contains("can be forged: ECDSA with SHA-1"), "{}", found.2);
}

#[test]
fn revoked_certificates_are_found_by_a_list_and_by_ocsp() {
    let Some(certificates) = Certificates::new() else { return };
    let (authority, list) = (certificates.path("authority"), certificates.path("crl"));
    for name in ["kept", "lost"] {
        certificates.signed(name, "localhost", Valid::Now);
    }
    certificates.revoke(&["lost"]);
    let (kept, lost) =
        (certificates.serve_with("kept", &[NO_HTTP]), certificates.serve_with("lost", &[NO_HTTP]));
    assert_eq!(problems(&kept, &authority, &["--crl", &list]), (Some(0), vec![], String::new()));
    let found = problems(&lost, &authority, &["--crl", &list]);
    assert_problem(&found, "revoked", "the certificate of CN=lost was revoked ");
    assert_eq!(problems(&lost, &authority, &[]).0, Some(0), "without a list");

    certificates.self_signed("alone", "localhost", "CA:FALSE");
    let alone = certificates.serve_with("alone", &[NO_HTTP]);
    let found = problems(&alone, &certificates.path("alone"), &["--crl", &list]);
    let text = "it is from CN=authority, which has issued none of these certificates";
    assert_problem(&found, "unusable_revocation_list", text);

    certificates.ocsp("lost");
    let stapled = certificates.serve_with("lost", &[NO_HTTP, "-status_file", "ocsp.der"]);
    assert_problem(&problems(&stapled, &authority, &[]), "revoked", "as the stapled OCSP response reports");
    certificates.ocsp("kept");
    let stapled = certificates.serve_with("kept", &[NO_HTTP, "-status_file", "ocsp.der"]);
    let (_, report) = report(&["--cacert", &authority, &format!("localhost:{}", stapled.port)]);
    assert_eq!(report["ocsp"]["state"], "good", "{report}");
}

#[test]
fn phases_have_their_round_trips_and_a_resumed_session_sends_early_data() {
    let Some(certificates) = Certificates::new() else { return };
    let (_server, url) = early_server(&certificates);
    let (code, report) = report(&["--cacert", &certificates.path("authority"), &url]);
    assert_eq!(code, Some(0), "{report}");
    for (key, expected) in [
        ("version", Value::from("TLSv1.3")),
        ("key_exchange_group", "X25519MLKEM768".into()),
        ("is_post_quantum", true.into()),
        ("alpn", "h2".into()),
        ("is_resumed", true.into()),
        ("early_data", "accepted".into()),
    ] {
        assert_eq!(report[key], expected, "{key}: {report}");
    }
    assert!(report["tickets"].as_u64() >= Some(1), "{report}");
    let round_trips = |visit: &str| {
        let phases = ["tcp_connected", "tls_done", "first_byte"];
        phases.map(|phase| report[visit]["phases"][phase]["round_trips"].as_u64().expect("a number"))
    };
    assert_eq!(round_trips("full"), [1, 1, 1], "{report}");
    assert_eq!(round_trips("resumed"), [1, 1, 0], "{report}");
    let bytes = |visit: &str| report[visit]["phases"]["tls_done"]["received_bytes"].as_u64();
    assert!(bytes("full") > bytes("resumed"), "the certificates are not sent again: {report}");
    let packets = &report["full"]["phases"]["tcp_connected"];
    // SYN and ACK; SYN with ACK.
    assert_eq!((packets["sent_packets"].as_u64(), packets["received_packets"].as_u64()), (Some(2), Some(1)));
}

#[test]
fn a_server_without_tls_and_a_closed_port_are_different_errors() {
    let server = Server::files(&[("a.txt", b"hello\n")]);
    let port = server.address().port();
    let (code, report) = report(&[&format!("127.0.0.1:{port}")]);
    assert_eq!(code, Some(1), "{report}");
    assert_contains!(report["error"].as_str().expect("text"), "the server does not speak TLS on this port");
    tls(&["http://127.0.0.1/"]).with_code(2);
}

/// A server with early data, and a URL of it.
fn early_server(certificates: &Certificates) -> (Server, String) {
    certificates.signed("a", "localhost", Valid::Now);
    let tls = certificates.settings("a");
    let server = Server::config(&format!(
        "listen = '127.0.0.1:0,tls'\n[[site]]\ntls = {{ {tls}, early_data = true }}\n\
         [[site.route]]\npath = '/*'\nrespond = 'hello'\n"
    ));
    let url = format!("https://localhost:{}/", server.address().port());
    (server, url)
}

#[test]
fn bench_counts_full_and_resumed_handshakes_and_early_data() {
    let Some(certificates) = Certificates::new() else { return };
    let (_server, url) = early_server(&certificates);
    // A connection that is closed after a response to early data has no new ticket. A full handshake has two.
    for (arguments, resumed) in [
        (&["--tls-resume", "off"][..], 0..=0),
        (&["--tls-resume", "on"], 49..=49),
        (&["--tls-early-data"], 30..=49),
    ] {
        let output = ["bench", "--plain", "--json", "-", "-c", "1", "-n", "50", "--disable-keepalive"];
        let output = Rudy::command(output).args(["--cacert", &certificates.path("authority"), &url]);
        let output = output.args(arguments).output();
        let report = output.json();
        let count = |key: &str| report[key].as_u64().expect("a count");
        assert_eq!((count("succeeded"), count("handshakes")), (50, 50), "{report}");
        assert!(resumed.contains(&count("handshakes_resumed")), "{arguments:?}: {report}");
        let early_data = if arguments == ["--tls-early-data"] { count("handshakes_resumed") } else { 0 };
        assert_eq!(count("early_data_accepted"), early_data, "{arguments:?}");
        assert!(report["handshake_cpu_s"].as_f64() > Some(0.0), "{report}");
    }
    Rudy::run(["bench", "--tls-resume", "off", "http://127.0.0.1:1/"]).with_code(2);
}

#[test]
fn a_simulated_round_trip_is_in_every_phase_but_that_of_early_data() {
    let Some(certificates) = Certificates::new() else { return };
    let (_server, url) = early_server(&certificates);
    let (code, report) = report(&["--cacert", &certificates.path("authority"), "--round-trip", "50ms", &url]);
    assert_eq!(code, Some(0), "{report}");
    // Only lower bounds: a busy machine takes longer.
    let at = |visit: &str, phase: &str| report[visit]["phases"][phase]["at_s"].as_f64().expect("a time");
    let full = ["tcp_connected", "tls_done", "first_byte"].map(|phase| at("full", phase));
    assert!(full[0] >= 0.05 && full[1] >= 0.1 && full[2] >= 0.15, "{full:?}");
    assert!(at("resumed", "first_byte") >= 0.1, "{report}");
}

#[test]
fn get_shows_the_handshake_and_what_k_accepts() {
    let Some(certificates) = Certificates::new() else { return };
    let (_server, url) = early_server(&certificates);
    let text = Rudy::run(["get", "-k", "--http1.1", &url, &url]).stderr;
    assert_contains!(text, "X25519MLKEM768", "tls_handshake       full");
    assert_contains!(text, "certificate         expires 2120-01-01T00:00:00Z");
    // A machine without trusted authorities cannot judge.
    if Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
        assert!(text.contains("problem             an intermediate certificate is missing"), "{text}");
    }
}

//! Tests the verification of certificates by `get`, `bench` and `flood`, with `openssl s_server`.

use rudy_tests::prelude::*;

/// Commands with few requests, one connection at a time, because the server handles no more.
const COMMANDS: [&[&str]; 3] =
    [&["get", "-q"], &["bench", "-c", "1", "-n", "3"], &["flood", "-c", "1", "--ramp", "10ms"]];

fn run(command: &[&str], flags: &[&str], server: &TlsServer) -> Output {
    Rudy::command(command).args(flags).arg(server.url()).output()
}

fn accepted(flags: &[&str], server: &TlsServer) {
    for command in COMMANDS {
        let text = run(command, flags, server).succeeded();
        match command[0] {
            "get" => assert!(text.contains("TLSv1.3"), "{text}"),
            "bench" => assert!(text.contains("100 % of 3 requests"), "{text}"),
            _ => assert!(
                text.contains("opened       1 of 1") && text.contains("responses    2xx: 1"),
                "{text}"
            ),
        }
    }
}

fn rejected(flags: &[&str], server: &TlsServer, message: &str) {
    for command in COMMANDS {
        let text = run(command, flags, server).failed_with(1);
        assert!(text.contains(&format!("TLS failed: {message}")), "{command:?}: {text}");
        assert!(text.contains("-k accepts"), "{command:?}: {text}");
    }
}

#[test]
fn a_certificate_of_a_trusted_authority_is_accepted() {
    let Some(certificates) = Certificates::for_host("server", "localhost") else { return };
    let server = certificates.serve("server");
    accepted(&["--cacert", &certificates.path("authority")], &server);
    accepted(&["-k"], &server);
    let unknown = "the certificate is not signed by a trusted authority (--cacert FILE adds one";
    rejected(&[], &server, unknown);
    certificates.self_signed("other", "authority", "critical,CA:TRUE");
    rejected(&["--cacert", &certificates.path("other")], &server, unknown);
}

#[test]
fn a_wrong_name_and_an_expired_certificate_are_reported() {
    let Some(certificates) = Certificates::new() else { return };
    let authority = certificates.path("authority");
    certificates.signed("elsewhere", "elsewhere.test", Valid::Now);
    let message = "the certificate is for elsewhere.test and not for localhost (-k";
    rejected(&["--cacert", &authority], &certificates.serve("elsewhere"), message);
    certificates.signed("expired", "localhost", Valid::Once);
    rejected(&["--cacert", &authority], &certificates.serve("expired"), "the certificate expired ");
}

/// curl accepts a certificate that is itself in the trust file, regardless of its issuer; webpki alone does not.
#[test]
fn a_trusted_certificate_is_accepted_for_its_name_and_validity_period() {
    let Some(certificates) = Certificates::new() else { return };
    for constraints in ["critical,CA:TRUE", "critical,CA:FALSE"] {
        certificates.self_signed("own", "localhost", constraints);
        accepted(&["--cacert", &certificates.path("own")], &certificates.serve("own"));
        certificates.self_signed("own", "elsewhere.test", constraints);
        let message = "the certificate is for elsewhere.test and not for localhost";
        rejected(&["--cacert", &certificates.path("own")], &certificates.serve("own"), message);
    }
    certificates.signed("server", "localhost", Valid::Now);
    accepted(&["--cacert", &certificates.path("server")], &certificates.serve("server"));
    certificates.signed("expired", "localhost", Valid::Once);
    let expired = certificates.serve("expired");
    rejected(&["--cacert", &certificates.path("expired")], &expired, "the certificate expired ");
    certificates.self_signed("authority-as-server", "localhost", "critical,CA:TRUE");
    let message = "the certificate is a CA certificate and not that of a server";
    rejected(&[], &certificates.serve("authority-as-server"), message);
}

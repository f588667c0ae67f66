//! Whose certificates are accepted: by `get`, `bench` and `flood` alike, from a server that is not ours.

use std::process::{Command, Output, Stdio};

use rudy_tests::{Certificates, TlsServer, Valid, binary};

/// What each command is given to ask a server a few times, one connection after the other, as the server takes them.
const COMMANDS: [&[&str]; 3] =
    [&["get", "-q"], &["bench", "-c", "1", "-n", "3"], &["flood", "-c", "1", "--ramp", "10ms"]];

fn run(command: &[&str], flags: &[&str], server: &TlsServer) -> Output {
    let mut rudy = Command::new(binary());
    rudy.args(command).args(flags).arg(server.url()).stdin(Stdio::null());
    for name in ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        rudy.env_remove(name);
    }
    rudy.output().expect("rudy can be started")
}

fn accepted(flags: &[&str], server: &TlsServer) {
    for command in COMMANDS {
        let output = run(command, flags, server);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        match command[0] {
            "get" => assert!(text.contains("TLSv1.3"), "{text}"),
            "bench" => assert!(text.contains("100 % of 3 right"), "{text}"),
            _ => assert!(
                text.contains("opened       1 of 1") && text.contains("answers      2xx: 1"),
                "{text}"
            ),
        }
    }
}

fn refused(flags: &[&str], server: &TlsServer, said: &str) {
    for command in COMMANDS {
        let output = run(command, flags, server);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?} {text}");
        assert!(text.contains(&format!("TLS failed: {said}")), "{command:?}: {text}");
        assert!(text.contains("-k accepts"), "{command:?}: {text}");
    }
}

#[test]
fn what_an_authority_has_signed_is_accepted_where_it_is_trusted() {
    let Some(certificates) = Certificates::new() else { return };
    certificates.signed("server", "localhost", Valid::Now);
    let server = certificates.serve("server");
    accepted(&["--cacert", &certificates.path("authority")], &server);
    accepted(&["-k"], &server);
    let unknown = "the certificate is not signed by a trusted authority (--cacert FILE adds one";
    refused(&[], &server, unknown);
    certificates.self_signed("other", "authority", "critical,CA:TRUE");
    refused(&["--cacert", &certificates.path("other")], &server, unknown);
}

#[test]
fn a_name_that_is_not_the_servers_and_a_time_that_is_over_are_told() {
    let Some(certificates) = Certificates::new() else { return };
    let authority = certificates.path("authority");
    certificates.signed("elsewhere", "elsewhere.test", Valid::Now);
    let said = "the certificate is for elsewhere.test and not for localhost (-k";
    refused(&["--cacert", &authority], &certificates.serve("elsewhere"), said);
    certificates.signed("expired", "localhost", Valid::Once);
    refused(&["--cacert", &authority], &certificates.serve("expired"), "the certificate expired ");
}

/// What curl accepts and webpki alone does not: a certificate that is itself trusted, whoever has signed it.
#[test]
fn a_certificate_that_stands_in_the_file_itself_is_accepted_for_its_name_and_time() {
    let Some(certificates) = Certificates::new() else { return };
    for constraints in ["critical,CA:TRUE", "critical,CA:FALSE"] {
        certificates.self_signed("own", "localhost", constraints);
        accepted(&["--cacert", &certificates.path("own")], &certificates.serve("own"));
        certificates.self_signed("own", "elsewhere.test", constraints);
        let said = "the certificate is for elsewhere.test and not for localhost";
        refused(&["--cacert", &certificates.path("own")], &certificates.serve("own"), said);
    }
    certificates.signed("server", "localhost", Valid::Now);
    accepted(&["--cacert", &certificates.path("server")], &certificates.serve("server"));
    certificates.signed("expired", "localhost", Valid::Once);
    let expired = certificates.serve("expired");
    refused(&["--cacert", &certificates.path("expired")], &expired, "the certificate expired ");
    certificates.self_signed("authority-as-server", "localhost", "critical,CA:TRUE");
    let said = "the certificate is that of an authority, which signs others";
    refused(&[], &certificates.serve("authority-as-server"), said);
}

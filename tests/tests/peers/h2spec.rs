//! h2spec, the tests of RFC 9113 (then RFC 7540) and RFC 7541 for servers. It sends valid and invalid frames, and checks each reaction.

use std::process::Command;

use rudy_tests::{Server, go_program, long};

/// The number of tests of version 2.2.1, with those that check what a server should do (`--strict`).
const TESTS: &str = "146 tests, 146 passed, 0 skipped, 0 failed";

/// More than the window of a test, which is one byte.
const FILES: &[(&str, &[u8])] = &[("index.html", &[b'x'; 100_000])];

/// Without a failure or a known deviation. The path of a file, of a listing that is rejected, and of nothing.
#[test]
fn all_tests_pass_without_tls() {
    for path in ["/", "/index.html", "/missing"] {
        let arguments = ["--listen", "127.0.0.1:0,h2c"];
        check(Server::build().files(FILES).args(arguments).start(), &["--path", path]);
    }
}

#[test]
fn all_tests_pass_with_tls() {
    let state = tempfile::tempdir().expect("a temp folder can be created");
    let server = Server::build().files(FILES).args(["--tls", "internal"]);
    check(server.env("STATE_DIRECTORY", state.path()).start(), &["--tls", "--insecure"]);
}

/// The requests of a proxy wait for another server, and so do their bodies.
#[test]
fn all_tests_pass_for_a_proxy() {
    let upstream = Server::files(FILES);
    let site = format!("[[site]]\nproxy = \"{}\"\n", upstream.address());
    check(Server::config(&format!("listen = [\"127.0.0.1:0,h2c\"]\n{site}")), &[]);
}

fn check(server: Server, arguments: &[&str]) {
    if !long() {
        return;
    }
    let Some(h2spec) = go_program("h2spec") else { return };
    let port = server.address().port().to_string();
    // The timeout is that of a frame; a busy machine is slow.
    let mut command = Command::new(h2spec);
    command.args(["--strict", "--timeout", "20", "--host", "127.0.0.1", "--port", &port]).args(arguments);
    let output = command.output().expect("h2spec starts");
    let text = String::from_utf8_lossy(&output.stdout);
    // Its status is 0 also if it could not connect.
    assert!(output.status.success() && text.contains(TESTS), "{arguments:?}: {text}");
}

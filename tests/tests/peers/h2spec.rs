//! h2spec, the tests of RFC 9113 (then RFC 7540) and RFC 7541 for servers. It sends valid and invalid frames, and checks each reaction.

use rudy_tests::prelude::*;

/// All tests, with those for what a server should do (`--strict`): there is no known deviation.
const PASSED: &str = "146 tests, 146 passed, 0 skipped, 0 failed";

/// More than the windows of the tests.
const FILES: &[(&str, &[u8])] = &[("index.html", &[b'x'; 100_000])];

#[test]
fn all_tests_pass_for_files_and_errors() {
    let server = Server::config("listen = [\"127.0.0.1:0,h2c\"]\n[[site]]\nroot = \".\"\n");
    for (name, content) in FILES {
        server.path().write(name, content);
    }
    for path in ["/", "/missing"] {
        check(&server, &["--path", path]);
    }
}

#[test]
fn all_tests_pass_with_tls() {
    let state = Folder::new();
    let server = Server::build().files(FILES).args(["--tls", "internal"]);
    check(&server.env("STATE_DIRECTORY", state.path()).start(), &["--tls", "--insecure"]);
}

/// Requests and their bodies wait for another server.
#[test]
fn all_tests_pass_for_a_proxy() {
    let upstream = Server::files(FILES);
    let route = format!("[[site.route]]\npath = \"/*\"\nproxy = \"http://{}\"\n", upstream.address());
    check(&Server::config(&format!("listen = [\"127.0.0.1:0,h2c\"]\n[[site]]\n{route}")), &[]);
}

fn check(server: &Server, arguments: &[&str]) {
    needs!(long());
    let Some(h2spec) = go_program("h2spec") else { return };
    let port = server.address().port().to_string();
    let mut command = Command::new(h2spec);
    // A busy machine may need longer than the default, which is 2 seconds for each reaction.
    command.args(["--strict", "--timeout", "20", "--host", "127.0.0.1", "--port", &port]).args(arguments);
    let output = command.output().expect("h2spec starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains(PASSED), "{arguments:?}: {text}");
}

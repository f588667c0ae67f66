//! The admin socket, and the commands that use it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};

use rudy_tests::{Certificates, Server, Valid, binary, eventually};
use rustix::net::sockopt::socket_peercred;
use rustix::process::Signal;

/// A server with this admin socket, and a site with a self-signed certificate.
fn config(socket: &str) -> String {
    format!(
        "listen = '127.0.0.1:0,tls'\nadmin_socket = '{socket}'\n\
         [[site]]\nhosts = ['a.test']\ntls = 'self-signed'\n[[site.route]]\npath = '/*'\nrespond = 'a'\n"
    )
}

fn certificates(arguments: &[&str]) -> Output {
    let output = Command::new(binary()).arg("certificates").args(arguments).output();
    output.expect("rudy can be started")
}

/// Sends bytes, and returns the lines of the response.
fn send(socket: &Path, bytes: &[u8]) -> Vec<String> {
    let mut stream = UnixStream::connect(socket).expect("the server listens");
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    BufReader::new(stream).lines().map_while(Result::ok).collect()
}

#[test]
fn certificates_are_listed_with_their_last_error() {
    let Some(authority) = Certificates::new() else { return };
    authority.signed("a", "a.test,DNS:b.test", Valid::Now);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::copy(authority.path("a"), path("cert.pem")).unwrap();
    fs::copy(authority.path("a").replace(".pem", ".key"), path("key.pem")).unwrap();
    let mut server = Server::config(&format!(
        "listen = '127.0.0.1:0,tls'\n[[site]]\nhosts = ['a.test']\n\
         tls = {{ certificate = '{}', key = '{}' }}\n[[site.route]]\npath = '/*'\nrespond = 'a'\n",
        path("cert.pem"),
        path("key.pem")
    ));
    let pid = server.pid().to_string();
    let output = certificates(&["--pid", &pid]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let expected = format!("source   {}", path("cert.pem"));
    for part in [
        "a.test, b.test\n  expires  2120-01-01 (in 34",
        "issuer   CN=authority",
        "key      ECDSA P-256",
        &expected,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("error"), "{text}");
    fs::write(path("cert.pem"), "x").unwrap();
    server.wait_for_line("the old TLS settings stay in use");
    let output = certificates(&["--pid", &pid, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let certificate = &json["certificates"][0];
    assert_eq!(certificate["not_after"], "2120-01-01T00:00:00Z");
    let message = certificate["last_error"]["message"].as_str().unwrap();
    assert!(message.contains("the file has no certificate"), "{message}");
}

#[test]
fn requests_are_answered_or_rejected_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let mut server =
        Server::build().config(&config(path.to_str().unwrap())).env("STATE_DIRECTORY", folder.path()).start();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let request = b"{\"command\":\"certificates\"}\n";
    assert!(send(&path, request)[0].starts_with("{\"certificates\":[{\"names\":["));
    let two = send(&path, &[&request[..], b"{\"command\":\"certificates\",\"x\":1}\n"].concat());
    assert_eq!(two.len(), 2);
    let long = vec![b' '; 70_000];
    for (request, expected) in [
        (&b"certificates\n"[..], "unknown request: expected"),
        (b"{\"command\":\"stop\"}\n", "unknown variant `stop`, expected `certificates`"),
        (b"{\"command\":\"certificates\"}", "a request is a line of at most 65536 bytes"),
        (&long, "a request is a line of at most 65536 bytes"),
        (b"\xff\n", "unknown request"),
    ] {
        let lines = send(&path, request);
        assert!(
            lines.len() == 1 && lines[0].starts_with("{\"error\":\"") && lines[0].contains(expected),
            "{lines:?}"
        );
    }
    assert_eq!(send(&path, b""), Vec::<String>::new());
    // Silent clients delay neither the server nor, once they are gone, others.
    let silent: Vec<_> = (0..30).filter_map(|_| UnixStream::connect(&path).ok()).collect();
    server.signal(Signal::HUP);
    server.wait_for_line("was reloaded");
    drop(silent);
    assert_eq!(send(&path, request).len(), 1);
    assert_eq!(certificates(&["--socket", path.to_str().unwrap()]).status.code(), Some(0));
}

#[test]
fn the_socket_follows_reloads_and_is_removed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| config(path(name).to_str().unwrap());
    let mut server = Server::build().config(&text("one")).env("STATE_DIRECTORY", folder.path()).start();
    let file = server.path().join("rudy.toml");
    let mut reload = |name: &str, expected: &str| {
        fs::write(&file, text(name)).unwrap();
        server.forget_lines();
        server.signal(Signal::HUP);
        server.wait_for_line(expected);
    };
    reload("two", "was reloaded");
    assert!(!path("one").exists() && path("two").exists());
    // A file of another program stays, and so does the old socket.
    fs::write(path("file"), "x").unwrap();
    reload("file", "the file at this path is not a socket");
    assert_eq!(fs::read(path("file")).unwrap(), b"x");
    assert_eq!(send(&path("two"), b"{\"command\":\"certificates\"}\n").len(), 1);
    // The socket of another server stays, too.
    let mut other = Command::new(binary());
    fs::write(path("other.toml"), text("two")).unwrap();
    let output =
        other.arg("serve").arg(path("other.toml")).env("STATE_DIRECTORY", folder.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && stderr.contains("another process listens on this socket"),
        "{stderr}"
    );
    server.signal(Signal::TERM);
    server.wait();
    assert!(!path("two").exists());
    // A stale socket is replaced.
    drop(std::os::unix::net::UnixListener::bind(path("one")).unwrap());
    let server = Server::build().config(&text("one")).env("STATE_DIRECTORY", folder.path()).start();
    assert_eq!(send(&path("one"), b"{\"command\":\"certificates\"}\n").len(), 1);
    drop(server);
}

#[test]
fn an_upgrade_takes_over_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let text = config(path.to_str().unwrap()) + "[limits]\nidle_timeout = '1s'\n";
    let mut server = Server::build().config(&text).env("STATE_DIRECTORY", folder.path()).start();
    server.signal(Signal::USR2);
    server.wait_for_line("has replaced process");
    assert_eq!(send(&path, b"{\"command\":\"certificates\"}\n").len(), 1);
    let listener = socket_peercred(UnixStream::connect(&path).unwrap()).unwrap().pid;
    assert_ne!(u32::try_from(listener.as_raw_pid()).unwrap(), server.pid());
    // The old process forwards the signal.
    server.signal(Signal::TERM);
    server.wait();
    eventually("the socket is removed", || (!path.exists()).then_some(()));
}

#[test]
fn a_missing_server_is_explained() {
    for (arguments, expected) in [
        (&["--socket", "/nonexistent/admin.sock"][..], "no server listens on /nonexistent/admin.sock"),
        (&["--pid", "1"], "process 1 has no admin socket at its default path"),
        (&["--pid", "4000000000"], "there is no process 4000000000"),
    ] {
        let output = certificates(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains(expected), "{stderr}");
    }
}

/// `rudy certificates` with a program that is no admin socket behind it.
#[test]
fn a_foreign_socket_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let foreign = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 10];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 400\n").unwrap();
    });
    let output = certificates(&["--socket", path.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("did not respond as an admin socket"));
    foreign.join().unwrap();
}

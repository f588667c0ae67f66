//! The hosts for which a folder is served: protection of local files against DNS rebinding.

use rudy_tests::prelude::*;

const PAGE: &[(&str, &[u8])] = &[("index.html", b"page")];

/// The response to a raw request.
fn exchange(server: &Server, request: &str) -> String {
    String::from_utf8_lossy(&server.exchange(request.as_bytes())).into_owned()
}

fn status_for(server: &Server, host: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    exchange(server, &request)[9..12].to_owned()
}

/// `expected` has the statuses, each before the hosts that get it.
fn assert_statuses(server: &Server, expected: &str) {
    let mut status = "";
    for word in expected.split_whitespace() {
        if word.len() == 3 && word.parse::<u16>().is_ok() {
            status = word;
        } else {
            assert_eq!(status_for(server, word), status, "{word}");
        }
    }
}

#[test]
fn a_local_server_responds_only_to_names_of_this_machine() {
    let server = Server::files(PAGE);
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let reached = "200 127.0.0.1 127.0.0.1:8080 192.0.2.7 [::1]:8080 LOCALHOST.:1 app.localhost";
    assert_statuses(&server, &format!("{reached} {name}"));
    let others = "421 evil.example evil.example:80 localhost.evil.example 127.0.0.1.evil.example";
    assert_statuses(&server, &format!("{others} 400 127.0.0.1@evil.example [::1].evil.example"));
    assert_eq!(status_for(&server, ""), "400");
}

#[test]
fn the_host_of_an_absolute_target_has_precedence() {
    let server = Server::files(PAGE);
    for (target, host, status) in [
        ("http://evil.example/", "localhost", "421"),
        ("http://localhost/", "evil.example", "200"),
        ("http://localhost@evil.example/", "localhost", "400"),
        ("http://localhost:80@evil.example/", "localhost", "400"),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(&exchange(&server, &request)[9..12], status, "{target} {host}");
    }
}

#[test]
fn a_request_without_a_host_gets_its_response() {
    let server = Server::files(PAGE);
    assert!(exchange(&server, "GET / HTTP/1.0\r\n\r\n").ends_with("\r\n\r\npage"));
    let forged = exchange(&server, "GET / HTTP/1.0\r\nHost: evil.example\r\n\r\n");
    assert!(forged.starts_with("HTTP/1.1 421 "), "{forged}");
}

#[test]
fn the_page_for_another_host_names_the_flag_and_does_not_reveal_the_folder() {
    let server = Server::files(&[("index.html", b"page"), ("404.html", b"page"), ("a.txt", b"page")]);
    for target in ["/", "/a.txt", "/nowhere"] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: Evil.example\r\nConnection: close\r\n\r\n");
        let response = exchange(&server, &request);
        assert!(response.starts_with("HTTP/1.1 421 "), "{response}");
        assert!(response.contains("Start Rudy with --host evil.example to allow the name."), "{response}");
        assert!(!response.contains("page\r\n") && !response.ends_with("page"), "{response}");
    }
}

#[test]
fn flags_allow_one_name_or_all_names() {
    let one = Server::build().files(PAGE).args(["--host", "a.test", "--host=*.b.test"]).start();
    assert_statuses(&one, "200 a.test x.b.test:1 localhost 421 b.test c.test");
    let all = Server::build().files(PAGE).args(["--host", "*"]).start();
    assert_statuses(&all, "200 evil.example localhost");
}

#[test]
fn a_public_server_responds_to_every_name_unless_some_are_given() {
    let open = Server::build().files(PAGE).args(["--listen", ":0"]).start();
    assert_statuses(&open, "200 evil.example");
    let named = Server::build().files(PAGE).args(["--listen", ":0", "--host", "a.test"]).start();
    assert_statuses(&named, "421 evil.example 200 a.test 127.0.0.1");
}

#[test]
fn a_unix_socket_is_local() {
    let folder = Folder::new();
    let path = folder.join("sock");
    let _server = Server::build().files(PAGE).arg("--listen").arg(format!("unix:{}", path.display())).start();
    for (host, status) in [("evil.example", "421"), ("localhost", "200")] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let response = exchange_unix(&path, request);
        assert_eq!(&response[9..12], status, "{host}");
    }
}

#[test]
fn inherited_sockets_are_local_if_their_addresses_are() {
    for (address, status) in [("127.0.0.1:0", "421"), ("0.0.0.0:0", "200")] {
        let socket = TcpListener::bind(address).expect("a port is free");
        let folder = Folder::with(&[("index.html", "page")]);
        let server = Server::build()
            .arg(folder.path())
            .args(["--listen", "systemd"])
            .through_shell("exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"")
            .stdin(OwnedFd::from(socket))
            .start();
        assert_statuses(&server, &format!("{status} evil.example 200 localhost"));
    }
}

#[test]
fn a_configured_default_site_serves_every_host() {
    let server = Server::config("listen = [\"127.0.0.1:0\"]\n[[site]]\nroot = \".\"\n");
    server.path().write("index.html", "page");
    assert_statuses(&server, "200 evil.example");
}

#[test]
fn a_reload_keeps_the_hosts() {
    let mut server = Server::build().files(PAGE).args(["--host", "a.test"]).start();
    server.signal(Signal::HUP);
    server.wait_for_line("SIGHUP");
    assert_statuses(&server, "421 evil.example 200 a.test");
}

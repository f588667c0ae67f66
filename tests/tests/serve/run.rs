//! The life of a server: start, addresses, signals, reload, logs, stop.

use rudy_tests::prelude::*;

/// A configuration with one site that always responds with `body`, and more lines before the site.
fn config_with_response(body: &str, more: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\n{more}\n[[site]]\n[[site.route]]\npath = \"/*\"\nrespond = {{ body = \"{body}\" }}\n"
    )
}

/// Serves more zeroes at `target` than any socket buffer holds.
const LARGE: u64 = 256 * 1024 * 1024;

fn make_large_file(folder: &Path) {
    let file = fs::File::create(folder.join("large")).expect("a temp folder can be written");
    file.set_len(LARGE).expect("a hole costs nothing");
}

fn serve_large_file() -> Server {
    let server = Server::files(&[]);
    make_large_file(server.path());
    server
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The line of a reload that succeeds, and of one that does not.
const TAKEN_OVER: &str = "the configuration was reloaded";
const KEPT: &str = "the configuration is unchanged";

/// A server with a site that always responds with `body`.
fn serve(body: &str) -> Server {
    Server::config(&config_with_response(body, ""))
}

fn build() -> Builder {
    Server::build().config(&config_with_response("hello", ""))
}

#[test]
fn a_folder_is_served_at_the_printed_address() {
    let server = Server::files(&[("index.html", b"<p>hello"), (".secret", b"no")]);
    assert_eq!(server.get("/").status_and_text(), (200, "<p>hello"));
    assert_eq!(server.get("/.secret").status, 404);
}

#[test]
fn listen_accepts_a_port_alone() {
    let server = Server::build().files(&[("index.html", b"page")]).args(["-p", "0"]).start();
    assert_eq!(server.get("/").text(), "page");
    assert_eq!(server.addresses().len(), 2, "that port, and the one that every test asks for");
}

#[test]
fn listings_and_the_fallback_page_need_their_flags() {
    let files: &[(&str, &[u8])] = &[("a/b.txt", b"b"), ("index.html", b"page")];
    let plain = Server::files(files);
    assert_eq!((plain.get("/a/").status, plain.get("/client/route").status), (404, 404));
    let with_flags = Server::build().files(files).args(["--browse", "--spa"]).start();
    assert!(with_flags.get("/a/").text().contains("b.txt"));
    assert_eq!(with_flags.get("/client/route").text(), "page");
}

#[test]
fn a_configuration_needs_no_flag_and_is_reloaded() {
    let folder = Folder::new();
    let path = folder.write("site.toml", config_with_response("first", ""));
    let mut server = Server::build().arg(&path).start();
    assert_eq!(server.get("/").text(), "first");
    fs::write(&path, config_with_response("second", "")).unwrap();
    server.reload("the configuration was reloaded");
    assert_eq!(server.get("/").text(), "second");
    // It stays a configuration when its path becomes a folder.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    server.reload("the configuration is unchanged");
    assert_eq!(server.get("/").text(), "second");
}

#[test]
fn a_folder_with_the_suffix_toml_is_a_folder() {
    let folder = Folder::new();
    let path = folder.join("a.toml");
    fs::create_dir(&path).unwrap();
    path.write("index.html", "page");
    assert_eq!(Server::folder(&path).get("/").text(), "page");
}

#[test]
fn the_error_page_404_html_of_the_folder_is_used() {
    let server = Server::files(&[("404.html", b"<p>lost"), ("index.html", b"page")]);
    assert_eq!(server.get("/nowhere").status_and_text(), (404, "<p>lost"));
}

#[test]
fn the_start_up_lines_name_surprising_defaults() {
    let mut server = Server::files(&[("rudy.toml", b"")]);
    let limits = ["this machine only", "--browse", "hidden files", "rudy.toml"];
    for part in limits.into_iter().chain(["--access-log FILE", "--tls self-signed"]) {
        server.wait_for_line(part);
    }
}

#[test]
fn a_server_listens_on_several_addresses_of_several_kinds() {
    let folder = Folder::new();
    let socket = folder.join("rudy.sock");
    let listen = ["--listen", "127.0.0.1:0", "--listen", "[::1]:0", "--listen"];
    let server = build().args(listen).arg(format!("unix:{}", socket.display())).start();
    assert_eq!(server.addresses().len(), 3);
    assert_eq!(server.get("/").text(), "hello");
    let response = exchange_unix(&socket, b"GET / HTTP/1.0\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("hello"), "{response}");
}

#[test]
fn a_port_in_use_is_an_error_with_its_owner_and_exit_code_1() {
    let (_taken, address) = listen();
    let message = Server::build().args(["/", "--listen", &address.to_string()]).output().failed_with(1);
    assert_contains!(message, &format!("cannot listen on {address}"), &std::process::id().to_string());
}

#[test]
fn an_access_log_that_cannot_be_opened_is_an_error_with_exit_code_1() {
    let message = Server::build().args(["/", "--access-log", "/nowhere/access.log"]).output().failed_with(1);
    let expected = "error: cannot open the access log /nowhere/access.log: No such file";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn a_response_in_progress_is_finished_after_sigterm() {
    let mut server = serve_large_file();
    let mut connection = server.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    connection.read_exactly(16);
    server.signal(Signal::TERM);
    server.wait_for_line("SIGTERM: stopping");
    let rest = connection.read_to_end().len() as u64;
    assert!(rest > LARGE, "{rest} bytes after the first 16");
    let stderr = server.exits_with(0);
    assert!(stderr.ends_with("notice: stopped"), "{stderr}");
}

#[test]
fn an_idle_connection_does_not_delay_the_stop() {
    let mut server = serve("hello");
    let mut connection = server.send(GET);
    assert_eq!(connection.response().text(), "hello");
    server.signal(Signal::INT);
    server.exits_with(0);
    assert!(connection.is_closed());
}

#[test]
fn a_second_signal_stops_at_once_and_logs_the_aborted_connections() {
    let mut server = serve_large_file();
    let mut connection = server.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    connection.read_exactly(16);
    server.signal(Signal::TERM);
    server.wait_for_line("SIGTERM: stopping");
    server.signal(Signal::INT);
    assert_contains!(server.exits_with(130), "1 connection was aborted");
    assert!((connection.read_to_end().len() as u64) < LARGE);
}

#[test]
fn requests_that_exceed_the_shutdown_timeout_are_aborted() {
    let mut server =
        Server::config("listen = [\"127.0.0.1:0\"]\nshutdown_timeout = \"1ms\"\n[[site]]\nroot = \".\"\n");
    make_large_file(server.path());
    let mut connection = server.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    connection.read_exactly(16);
    server.signal(Signal::TERM);
    let stderr = server.exits_with(0);
    assert!(stderr.ends_with("notice: stopped; 1 connection was aborted"), "{stderr}");
}

#[test]
fn a_new_configuration_applies_to_the_next_request_of_every_connection() {
    let mut server = serve("old");
    let mut connection = server.send(GET);
    assert_eq!(connection.response().text(), "old");
    server.reload_with(&config_with_response("new", ""), TAKEN_OVER);
    assert_eq!(server.get("/").text(), "new");
    connection.send(GET);
    assert_eq!(connection.response().text(), "new");
}

#[test]
fn an_invalid_configuration_is_reported_and_the_old_one_stays() {
    let mut server = serve("old");
    server
        .reload_with("lisen = []\n[[site]]\nrot = \"/\"\n", &format!("errors in the configuration; {KEPT}"));
    server.wait_for_line("unknown key `lisen`");
    server.wait_for_line("unknown key `rot`");
    assert_eq!(server.get("/").text(), "old");
    server.reload_with(&config_with_response("fixed", ""), TAKEN_OVER);
    assert_eq!(server.get("/").text(), "fixed");
}

#[test]
fn a_reload_opens_and_closes_addresses_and_keeps_the_others() {
    let text = config_with_response("hello", "");
    let mut server = Server::config(&text);
    let kept = server.address();
    let more = text.replace("[\"127", "[\"[::1]:0\", \"127");
    let line = server.reload_with(&more, "listening on http://[::1]:");
    let added: SocketAddr = line.split("http://").nth(1).unwrap().trim_end_matches('/').parse().unwrap();
    server.wait_for_line(TAKEN_OVER);
    TcpStream::connect(added).unwrap();
    server.reload_with(&text, TAKEN_OVER);
    assert!(TcpStream::connect(added).is_err());
    assert_eq!(Connection::open(kept).socket().peer_addr().unwrap(), kept);
}

#[test]
fn all_addresses_replace_one_address_of_the_same_port() {
    // A port that is free on one address may be in use on another.
    let port = free_port();
    let at =
        |addresses: &str, body: &str| config_with_response(body, "").replace("\"127.0.0.1:0\"", addresses);
    let mut server = Server::config(&at(&format!("\"127.0.0.1:{port}\""), "one"));
    server.reload_with(&at(&format!("\":{port}\""), "every"), TAKEN_OVER);
    assert_eq!(server.get("/").text(), "every");

    // If binding another address fails, the old listeners are restored.
    let (_taken, other) = listen();
    server.reload_with(&at(&format!("\"127.0.0.1:{port}\", \"{other}\""), "one"), KEPT);
    assert_eq!(server.get("/").text(), "every");
}

#[test]
fn an_address_that_cannot_be_bound_changes_nothing() {
    let mut server = serve("old");
    let (_taken, other) = listen();
    let new = config_with_response("new", "").replacen('[', &format!("[\"{other}\", "), 1);
    server.reload_with(&new, KEPT);
    assert_eq!(server.get("/").text(), "old");
}

#[test]
fn a_signal_reopens_a_renamed_access_log() {
    for (signal, message) in [(Signal::HUP, TAKEN_OVER), (Signal::USR1, "the access log was reopened")] {
        let folder = Folder::new();
        let (log, renamed) = (folder.join("access.log"), folder.join("access.log.1"));
        let mut server = build().arg("--access-log").arg(&log).start();
        assert_eq!(server.get("/before").status, 200);
        folder.wait_for("access.log", "/before");
        fs::rename(&log, &renamed).expect("the log can be renamed");
        server.signal(signal);
        server.wait_for_line(message);
        assert_eq!(server.get("/after").status, 200);
        let after = folder.wait_for("access.log", "/after");
        assert!(!after.contains("/before"), "{after}");
        assert!(!folder.read("access.log.1").contains("/after"));
    }
}

#[test]
fn the_access_log_is_the_same_for_cached_and_uncached_files() {
    let folder = Folder::new();
    let log = folder.join("access.log");
    let server = Server::build().files(&[("a.txt", b"text")]);
    let server = server.args(["--json-log", "--access-log"]).arg(&log).start();
    let request = b"GET /a.txt?b HTTP/1.1\r\nHost: localhost\r\nReferer: one\r\nReferer: two\r\nUser-Agent: me\r\nConnection: close\r\n\r\n";
    let responses = [server.exchange(request), server.exchange(request)];
    assert!(responses.iter().all(|response| response.ends_with(b"\r\n\r\ntext")));
    let sent = responses[0].len();
    let text = folder.wait_until("access.log", |text| text.lines().count() == 2);
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).expect("a line is JSON");
        let members = line.as_object_mut().expect("a line is an object");
        let varying = ["time", "client_port", "connection", "duration_us", "wait_us"];
        members.retain(|name, _| !varying.contains(&&**name));
        let expected = serde_json::json!({
            "client": "127.0.0.1", "method": "GET", "target": "/a.txt?b", "path": "/a.txt", "version": "HTTP/1.1",
            "host": "localhost", "referer": "one", "user_agent": "me", "site": "IP addresses", "route": "/*", "status": 200,
            "body_bytes": 4, "received_bytes": request.len(), "sent_bytes": sent, "ended": "complete",
        });
        assert_eq!(line, expected);
    }
}

/// The threads of a server that write access logs: one for each open log.
fn access_log_threads(server: &Server) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server runs");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "access-log").count()
}

#[test]
fn the_log_of_an_old_configuration_stays_open_until_its_last_exchange() {
    let logging_to = |name: &str| {
        let text = config_with_response("hello", &format!("access_log = {{ path = \"{name}\" }}"));
        text.replace("respond = { body = \"hello\" }", "stream = { interval = \"10ms\" }")
    };
    let mut server = Server::config(&logging_to("old.log"));
    let mut connection = server.send(b"GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(connection.head().status, 200);
    server.reload_with(&logging_to("new.log"), TAKEN_OVER);
    assert_eq!(access_log_threads(&server), 2);
    drop(connection);
    wait_until("the old configuration is released", || access_log_threads(&server) == 1);
    let old = server.path().wait_for("old.log", "/late");
    assert_eq!(old.lines().count(), 1, "{old}");
    assert_eq!(server.path().read("new.log"), "");
}

#[test]
fn a_log_that_cannot_be_opened_changes_nothing() {
    let mut server = serve("old");
    let new = config_with_response("new", "access_log = { path = \"/nowhere/access.log\" }");
    server.reload_with(&new, "cannot open the access log /nowhere/access.log");
    assert_eq!(server.get("/").text(), "old");
}

#[test]
fn the_last_request_is_logged_before_the_server_ends() {
    let folder = Folder::new();
    let log = folder.join("access.log");
    let mut server = build().args(["--json-log", "--access-log"]).arg(&log).start();
    for n in 0..100 {
        assert_eq!(server.get(&format!("/{n}")).status, 200);
    }
    server.stop();
    let text = fs::read_to_string(&log).unwrap();
    let targets = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_members!(line, "status": 200, "ended": "complete");
        line["target"].as_str().unwrap().trim_start_matches('/').parse::<u32>().unwrap()
    });
    let mut targets: Vec<_> = targets.collect();
    targets.sort_unstable();
    assert_eq!(targets, (0..100).collect::<Vec<_>>());
}

#[test]
fn the_access_log_can_go_to_standard_output() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut server = build().args(["--access-log", "-"]).stdout(writer).start();
    assert_eq!(server.get("/a").status, 200);
    let stderr = server.stop();
    drop(server);
    let text = std::io::read_to_string(&mut reader).unwrap();
    assert!(text.contains("] \"GET /a HTTP/1.1\" 200 5 \"-\" \"-\" "), "{text}");
    assert!(!stderr.contains("GET /a"), "{stderr}");
}

#[test]
fn a_rejected_request_is_logged_and_its_kind_is_reported_once() {
    let folder = Folder::new();
    let log = folder.join("access.log");
    let mut server = build().arg("--access-log").arg(&log).start();
    for _ in 0..3 {
        let response = server.exchange(b"GET / HTTP/1.1\r\n\r\n");
        assert!(response.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&response));
    }
    let stderr = server.stop();
    let lines: Vec<_> = stderr.lines().filter(|line| line.contains(" client: ")).collect();
    assert_eq!(lines.len(), 2, "{stderr}");
    assert!(lines[1].ends_with(": 2 more since the last line about it"), "{stderr}");
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("] \"-\" 400 ")).count(), 3, "{text}");
}

#[test]
fn the_service_manager_is_notified_of_state_changes() {
    let folder = Folder::new();
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let next = || {
        let mut buffer = [0; 256];
        let n = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..n].to_vec()).unwrap()
    };
    let mut server = build().env("NOTIFY_SOCKET", &path).start();
    assert_eq!(next(), "READY=1");
    server.signal(Signal::HUP);
    assert!(next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(next(), "READY=1");
    server.stop();
    assert_eq!(next(), "STOPPING=1");
}

#[test]
fn a_socket_of_the_service_manager_is_served() {
    let (socket, address) = listen();
    let server = build().args(["--listen", "systemd"]).inheriting(socket).start();
    assert_eq!(server.address(), address);
    assert_eq!(server.get("/").text(), "hello");
}

#[test]
fn an_unused_inherited_socket_is_reported() {
    let mut server = build().inheriting(listen().0).start();
    server.wait_for_line("sockets passed by the service manager are not used");
}

#[test]
fn file_system_errors_are_logged() {
    let folder = Folder::new();
    let current = folder.join("current");
    folder.write("release/a.txt", "a");
    symlink("release", &current).unwrap();
    let files = format!("files = {{ root = \"{}\", revalidate_after = \"0s\" }}", current.display());
    let config = config_with_response("", "").replace("respond = { body = \"\" }", &files);
    let mut server = Server::config(&config);
    assert_eq!(server.get("/a.txt").text(), "a");
    fs::remove_file(&current).unwrap();
    assert_eq!(server.get("/a.txt").text(), "a");
    server.wait_for_line(" error: ");
}

#[test]
fn a_server_ends_with_its_terminal() {
    if program("script").is_none() {
        return;
    }
    // `script` creates a terminal for the stderr of the server, and copies it to its own stdout.
    let server = build().through_shell("exec script --quiet --command \"$*\" /dev/null >&2").start();
    assert_eq!(server.get("/").text(), "hello");
    server.signal(Signal::KILL);
    // Else it would live on without anybody who could stop it.
    wait_until("it stops", || TcpStream::connect(server.address()).is_err());
}

//! The access log: its fields, conditions, rotation and destinations, and the ids of requests.

use rudy_tests::prelude::*;

/// A configuration with this access log, more lines, and a site that responds with `ok`, or `gone` below `/gone`.
fn config(access_log: &str, more: &str) -> String {
    format!(
        "listen = ['127.0.0.1:0']\n{more}\naccess_log = {access_log}\n[[site]]\n\
         [[site.route]]\npath = '/gone/*'\nrespond = 410\n[[site.route]]\npath = '/*'\nrespond = 'ok'\n"
    )
}

/// The lines of the log, once there are as many.
pub(crate) fn lines(path: &Path, count: usize) -> Vec<String> {
    let text = Path::new("/").wait_until(path, |text| text.lines().count() >= count);
    text.lines().map(str::to_owned).collect()
}

/// Sends `count` requests in a row on a connection, and reads all responses.
fn send_many(address: SocketAddr, count: usize) {
    let request = "GET /some/path HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "GET /some/path HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut connection = Connection::open(address);
    for burst in (0..count).step_by(100) {
        let size = (count - burst).min(100);
        let is_last = burst + size == count;
        let mut bytes = request.repeat(size - usize::from(is_last));
        if is_last {
            bytes.push_str(last);
        }
        connection.send(bytes.as_bytes());
        for _ in 0..size {
            assert_eq!(connection.next_response().status, 200);
        }
    }
}

/// The files of a log and its rotated ones.
fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).expect("the folder exists").flatten().map(|entry| entry.path());
    let is_log = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"access.log"))
    };
    paths.filter(is_log).collect()
}

/// The number of lines in a file, which may be compressed.
fn count_lines(path: &Path) -> usize {
    let tool = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => "zcat",
        Some("zst") => "zstdcat",
        _ => "cat",
    };
    let output = Command::new(tool).arg(path).output().unwrap_or_else(|error| panic!("{tool}: {error}"));
    assert!(output.status.success(), "{tool} {}", path.display());
    output.stdout.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).count()
}

#[test]
fn a_line_has_the_route_the_upstream_and_the_id_that_the_upstream_has_received() {
    let upstream =
        Upstream::serve(|peer, request| peer.respond(request.field("x-request-id").unwrap_or("none")));
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\nrequest_id = {{ response = true }}\n\
         access_log = {{ path = 'access.log', format = 'json' }}\n\
         [[site]]\nhosts = ['localhost']\n[[site.route]]\npath = '/fixed'\nrespond = 'ok'\n\
         [[site.route]]\npath = '/api/*'\nproxy = '{upstream}'\n"
    ));
    let request = "POST /api/x?y HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\nContent-Length: 5\r\n\
                   traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\nhello";
    let response = server.send(request).response();
    let id = response.field("x-request-id").expect("responses have the id").to_owned();
    assert_eq!((response.text(), id.len()), (id.as_str(), 20), "the upstream has the same id");
    let fixed = server.get("/fixed");
    assert!(fixed.field("x-request-id").is_some_and(|other| other != id), "a prepared response has one too");
    let mut lines = lines(&server.path().join("access.log"), 2);
    // The connections are on different workers.
    lines.sort_by_key(|line| line.contains("/fixed"));
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    for (name, value) in [
        ("request_id", id.as_str()),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("site", "localhost"),
        ("route", "/api/*"),
        ("upstream", &upstream.address().to_string()),
    ] {
        assert_eq!(line[name], value, "{name} of {line}");
    }
    assert_members!(line, "attempts": 1, "request_body_bytes": 5);
    assert!(line["upstream_wait_us"].is_u64() && line["upstream_connect_us"].is_u64(), "{line}");
    let line: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!((&line["route"], line.get("upstream")), (&"/fixed".into(), None));
}

#[test]
fn a_line_has_fields_of_the_response_without_what_is_masked_and_some_routes_have_none() {
    let upstream = Upstream::serve(|peer, _| {
        peer.send("HTTP/1.1 303 See Other\r\nLocation: /x?token=secret&a=b\r\nContent-Length: 0\r\n\r\n");
    });
    let log = "{ path = 'access.log', mask_addresses = true, mask_query = 'token', \
               format = '{client} {target} {status} {upstream_status} {response.location} {response.x-own}' }";
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\naccess_log = {log}\nresponse_headers = {{ X-Own = 'own' }}\n[[site]]\n\
         [[site.route]]\npath = '/health'\nrespond = 'fine'\naccess_log = false\n\
         [[site.route]]\npath = '/up'\nproxy = '{upstream}'\n[[site.route]]\npath = '/*'\nrespond = 'ok'\n"
    ));
    for path in ["/health", "/up?a=b&Token=secret", "/health", "/b"] {
        server.get(path);
    }
    let mut lines = lines(&server.path().join("access.log"), 2);
    // The connections are on different workers.
    lines.sort();
    assert_eq!(
        lines,
        ["127.0.0.0 /b 200 - - own", "127.0.0.0 /up?a=b&Token=*** 303 303 /x?token=***&a=b own"]
    );
}

#[test]
fn a_fifo_that_no_program_reads_delays_neither_the_start_nor_a_stop() {
    let folder = Folder::new();
    let [access, errors] = ["access", "errors"].map(|name| folder.join(name));
    for path in [&access, &errors] {
        assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo can be started").success());
    }
    for (access_log, error_log, reopens) in
        [(&access, None, true), (&access, Some(&errors), false), (&access, Some(&errors), true)]
    {
        let more = error_log.map_or_else(String::new, |path| format!("error_log = {path:?}"));
        let mut server = Server::config(&config(&format!("{access_log:?}"), &more));
        assert_eq!(server.get("/").text(), "ok");
        if reopens {
            server.signal(Signal::USR1);
        }
        server.stop();
    }
}

#[test]
fn a_trusted_proxy_may_send_an_id_and_no_other_client() {
    for (trusted, sent, is_kept) in [
        ("trusted_proxies = ['127.0.0.0/8']", "edge-1/42", true),
        ("trusted_proxies = ['127.0.0.0/8']", "two words", false),
        ("trusted_proxies = ['192.0.2.1']", "edge-1/42", false),
    ] {
        let more = format!("request_id = {{ response = true }}\n{trusted}");
        let server = Server::config(&config("{ path = 'access.log', format = '{request_id}' }", &more));
        let id = server.get_with("/", &[&format!("X-Request-Id: {sent}"), "Connection: close"]);
        let id = id.field("x-request-id").expect("it has an id");
        assert_eq!(id == sent, is_kept, "{trusted}: {id}");
        assert_eq!(lines(&server.path().join("access.log"), 1), [id]);
    }
}

#[test]
fn only_requests_that_meet_the_conditions_have_lines() {
    let log = "{ path = 'access.log', format = '{path} {status}', except_paths = ['/gone/health'], statuses = '4xx' }";
    let server = Server::config(&config(log, ""));
    for target in ["/a", "/gone/health", "/gone/x"] {
        let _response = server.get(target);
    }
    assert_eq!(lines(&server.path().join("access.log"), 1), ["/gone/x 410"]);
}

#[test]
fn sites_have_logs_of_their_own_also_after_a_reload() {
    let folder = Folder::new();
    let path = |name: &str| folder.join(name);
    let config = |of_server: &str, of_b: &str| {
        let site = |keys: &str| format!("[[site]]\n{keys}\nroute = [{{ path = '/*', respond = 'ok' }}]\n");
        let own = format!("hosts = 'a.test'\naccess_log = {{ path = {:?}, format = 'json' }}", path("a.log"));
        [
            format!("listen = ['127.0.0.1:0']\naccess_log = {:?}\n", path(of_server)),
            site(&own),
            site(&format!("hosts = 'b.test'\naccess_log = {of_b}")),
            site("hosts = 'c.test'"),
        ]
        .concat()
    };
    let mut server = Server::config(&config("access.log", "false"));
    let mut connection = Connection::open(server.address());
    let mut send = |hosts: &[&str]| {
        for host in hosts {
            connection.send(format!("GET /of-{host} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            connection.next_response();
        }
    };
    let hosts = |name: &str, count| -> Vec<String> {
        let host = |line: &String| {
            let start = line.find("/of-").expect("the path") + "/of-".len();
            line[start..start + "a.test".len()].to_owned()
        };
        lines(&path(name), count).iter().map(host).collect()
    };
    send(&["a.test", "b.test", "c.test", "d.test", "a.test"]);
    assert_eq!(hosts("a.log", 2), ["a.test", "a.test"]);
    assert_eq!(hosts("access.log", 2), ["c.test", "d.test"]);
    assert!(lines(&path("a.log"), 2)[0].starts_with('{'));

    server.reload_with(&config("other.log", "'b.log'"), "the configuration was reloaded");
    send(&["a.test", "b.test", "c.test"]);
    assert!(lines(&server.path().join("b.log"), 1)[0].contains("/of-b.test"));
    assert_eq!(hosts("a.log", 3), ["a.test"; 3]);
    assert_eq!(hosts("other.log", 1), ["c.test"]);

    for name in ["a.log", "other.log"] {
        fs::rename(path(name), path(&format!("{name}.1"))).expect("the log exists");
    }
    server.signal(Signal::USR1);
    server.wait_for_line("the access log was reopened");
    send(&["a.test", "c.test"]);
    assert_eq!([hosts("a.log", 1), hosts("other.log", 1)], [["a.test"], ["c.test"]]);
}

#[test]
fn rotation_under_load_loses_no_line() {
    if program("zstd").is_none() {
        return;
    }
    for compress in ["zstd", "gzip"] {
        let log = format!(
            "{{ path = 'access.log', rotate = {{ size = '64k', keep = 1000, compress = '{compress}' }} }}"
        );
        let mut server = Server::config(&config(&log, ""));
        // At most one rotation a second: go on until there are three files.
        let mut sent = 0;
        wait_until("the log is rotated twice", || {
            let address = server.address();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(move || send_many(address, 500));
                }
            });
            sent += 2000;
            files(server.path()).len() >= 3
        });
        let end = if compress == "zstd" { "zst" } else { "gz" };
        wait_until("the older file is compressed", || {
            files(server.path()).iter().any(|path| path.extension().is_some_and(|found| found == end))
        });
        let folder = server.path().to_owned();
        let stderr = server.stop();
        let is_partial = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "part");
        let written = files(&folder);
        let counted: usize =
            written.iter().filter(|path| !is_partial(path)).map(|path| count_lines(path)).sum();
        // A file and its compressed copy are both there while the copy is completed.
        let copies = written.iter().filter(|path| {
            let copy = PathBuf::from(format!("{}.{end}", path.display()));
            copy.exists()
        });
        let twice: usize = copies.map(|path| count_lines(path)).sum();
        assert_eq!(counted - twice, sent, "{written:?}\n{stderr}");
    }
}

#[test]
fn renaming_the_log_and_a_signal_lose_no_line() {
    let mut server = Server::config(&config("'access.log'", ""));
    let path = server.path().join("access.log");
    let mut sent = 0;
    for number in 1..=5 {
        let address = server.address();
        thread::scope(|scope| {
            scope.spawn(move || send_many(address, 2000));
            fs::rename(&path, server.path().join(format!("access.log.{number}"))).unwrap();
            server.signal(Signal::USR1);
        });
        sent += 2000;
        server.wait_for_line("the access log was reopened");
        server.forget_lines();
    }
    let folder = server.path().to_owned();
    server.stop();
    let written = files(&folder);
    assert_eq!(written.len(), 6, "{written:?}");
    assert_eq!(written.iter().map(|path| count_lines(path)).sum::<usize>(), sent);
}

#[test]
fn a_full_disk_is_reported_once_and_requests_go_on() {
    let mut server = Server::config(&config("'/dev/full'", ""));
    send_many(server.address(), 1000);
    server.wait_for_line("cannot write: No space left on device");
    send_many(server.address(), 1000);
    assert_eq!(server.get("/").status, 200);
    let stderr = server.stop();
    assert_eq!(stderr.matches("cannot write").count(), 1, "{stderr}");
}

#[test]
fn the_error_log_has_lines_of_the_levels_in_force_with_their_routes() {
    let upstream = Upstream::serve(|peer, _| peer.respond("ok"));
    let config = |level: &str| {
        format!(
            "listen = ['127.0.0.1:0']\n[error_log]\npath = 'error.log'\nformat = 'json'\n\
             levels = {{ proxy = '{level}' }}\n[[site]]\nhosts = ['localhost']\n\
             [[site.route]]\npath = '/api/*'\nproxy = '{upstream}'\n"
        )
    };
    let server = Server::config(&config("error"));
    let log = server.path().join("error.log");
    let requests =
        || lines(&log, 1).into_iter().filter(|line| line.contains("GET request")).collect::<Vec<_>>();
    assert_eq!(server.get("/api/1").status, 200);
    server.path().write("rudy.toml", config("debug"));
    server.signal(Signal::HUP);
    eventually("the level changes", || {
        assert_eq!(server.get("/api/2").status, 200);
        requests().pop()
    });
    let line: Value = serde_json::from_str(&requests()[0]).expect("a line is JSON");
    for (name, value) in
        [("severity", "debug"), ("target", "proxy"), ("site", "localhost"), ("route", "/api/*")]
    {
        assert_eq!(line[name], value, "{line}");
    }
    fs::rename(&log, log.with_extension("old")).expect("the log can be renamed");
    server.signal(Signal::USR1);
    wait_until("the log is opened again", || log.exists());
    assert_eq!(server.get("/api/3").status, 200);
    assert!(lines(&log, 1).iter().all(|line| line.starts_with('{')));
}

#[test]
fn lines_go_to_syslog() {
    let folder = Folder::new();
    let path = folder.join("log");
    let receiver = UnixDatagram::bind(&path).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let log = format!("{{ syslog = 'unix:{}', format = '{{path}} {{status}}' }}", path.display());
    let mut server = Server::config(&config(&log, ""));
    let received = || {
        let mut buffer = [0; 1024];
        let length = receiver.recv(&mut buffer).expect("a message comes");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!(server.get("/a").status, 200);
    let message = received();
    assert!(message.starts_with("<30>1 ") && message.ends_with(" - /a 200"), "{message}");
    // A receiver that is gone does not stop requests.
    fs::remove_file(&path).unwrap();
    drop(receiver);
    assert_eq!(server.get("/b").status, 200);
    server.wait_for_line(&format!("access log syslog unix:{}: cannot write", path.display()));
    assert_eq!(server.get("/c").status, 200);
}

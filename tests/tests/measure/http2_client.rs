//! Tests `rudy get`, `rudy bench` and `rudy flood` over HTTP/2: with nginx, and with a server that refuses, resets and ends.

use rudy_http::h2::ErrorCode;
use rudy_tests::prelude::*;
use rudy_tests::{Peer, Reply, start_http2_server};

/// Parses the objects of `rudy get --json`.
fn get(arguments: &[&str]) -> Vec<Value> {
    Rudy::command(["get", "--json"]).args(arguments).output().json_lines()
}

/// Runs `rudy bench --http2` and returns its exit code and report.
fn bench(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = Rudy::run([&["bench", "--http2", "--plain", "--json", "-"], arguments].concat());
    (output.code, output.json())
}

/// The values of a key in several reports.
fn values<'v>(reports: &'v [Value], key: &str) -> Vec<&'v Value> {
    reports.iter().map(|report| &report[key]).collect()
}

/// Starts a server with 100 streams on each connection, and returns its URL.
fn serve(reply: impl Fn(usize, usize) -> Reply + Send + Sync + Clone + 'static) -> String {
    format!("http://{}/", start_http2_server(100, reply))
}

/// What `rudy get` writes on stderr, which fails.
fn failed_get(url: &str) -> String {
    Rudy::run(["get", "--http2-prior-knowledge", url]).failed_with(1)
}

#[test]
fn a_server_with_tls_chooses_the_protocol() {
    let Some(certificates) = Certificates::for_host("server", "localhost") else { return };
    let (file, authority) = (certificates.path("server"), certificates.path("authority"));
    let key = file.replace(".pem", ".key");
    let Some(nginx) = Peer::nginx(Some((&file, &key)), "") else { return };
    let (hello, large) = (nginx.url("https", "/hello"), nginx.url("https", "/large"));
    let reports = get(&["--cacert", &authority, &hello, &large, &hello]);
    assert_eq!(values(&reports, "http_version"), ["2", "2", "2"], "{reports:?}");
    assert_eq!(values(&reports, "body_bytes"), [5, 300_000, 5]);
    assert_eq!(values(&reports, "reused"), [false, true, true]);
    assert_eq!(values(&reports, "error_kind"), [&Value::Null; 3]);
    let reports = get(&["--cacert", &authority, "--http1.1", &hello]);
    assert_eq!(values(&reports, "http_version"), ["1.1"]);
    let (code, report) = bench(&["--cacert", &authority, "--streams", "5", "-c", "2", "-n", "200", &hello]);
    assert_eq!((code, report["succeeded"].as_u64()), (Some(0), Some(200)), "{report}");
    assert_members!(report["config"], "http_version": "2", "streams": 5);
}

#[test]
fn a_server_without_http_2_is_reported() {
    let Some(certificates) = Certificates::for_host("server", "localhost") else { return };
    // `openssl s_server` chooses no protocol.
    let server = certificates.serve("server");
    let authority = certificates.path("authority");
    let reports = get(&["--cacert", &authority, &server.url()]);
    assert_eq!(values(&reports, "http_version"), ["1.0"], "{reports:?}");
    let output =
        Rudy::run(["bench", "--http2", "--cacert", &authority, "-n", "1", &server.url()]).with_code(1);
    let expected = "the server does not support HTTP/2: its TLS did not choose h2 (ALPN)";
    assert!(output.stderr.contains(expected), "{}", output.stderr);
    // Without TLS, the client uses HTTP/2 anyway.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("a bound socket has an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for command in [&["get", "--http2-prior-knowledge"][..], &["bench", "--http2", "-c", "1", "-n", "1"]] {
        let stderr = Rudy::run([command, &[&url]].concat()).failed_with(1);
        assert_contains!(stderr, "the server responds with HTTP/1");
    }
}

#[test]
fn a_head_is_written_as_by_curl_and_a_body_is_sent() {
    let Some(nginx) = Peer::nginx(None, "location /upload { client_max_body_size 9m; return 201 \"\"; }")
    else {
        return;
    };
    let flag = "--http2-prior-knowledge";
    let output = Rudy::run(["get", flag, "-i", &nginx.url("http", "/hello")]);
    let text = output.stdout;
    assert!(text.starts_with("HTTP/2 200 \r\nserver: nginx/"), "{text}");
    assert!(text.ends_with("\r\n\r\nhello") && text.contains("\r\ncontent-length: 5\r\n"), "{text}");
    assert!(output.stderr.contains("\n  status              200 (HTTP/2)\n"), "{}", output.stderr);
    let heads = Rudy::run(["get", flag, "-I", &nginx.url("http", "/large")]).succeeded();
    assert_contains!(heads, "content-length: 300000");
    let body = format!("@{}", nginx.folder().write("body", vec![b'x'; 2_000_000]).display());
    let reports = get(&[flag, "-b", &body, &nginx.url("http", "/upload")]);
    assert_eq!(values(&reports, "status"), [201], "{reports:?}");
}

#[test]
fn connections_that_a_server_ends_are_replaced() {
    let Some(nginx) = Peer::nginx(None, "keepalive_requests 5; http2_max_concurrent_streams 3;") else {
        return;
    };
    let url = nginx.url("http", "/hello");
    let reports = get(&["--http2-prior-knowledge", "--repeat", "12", &url]);
    assert_eq!(values(&reports, "status"), vec![200; 12], "{reports:?}");
    let new = values(&reports, "reused").iter().filter(|reused| **reused == false).count();
    assert!((2..=4).contains(&new), "{reports:?}");
    let (code, report) = bench(&["--streams", "10", "-c", "2", "-n", "300", &url]);
    assert_eq!((code, report["succeeded"].as_u64()), (Some(0), Some(300)), "{report}");
    assert_eq!(report["allowed_streams"], 3);
    let output = Rudy::run(["bench", "--http2", "--streams", "10", "-c", "1", "-n", "50", &url]);
    assert_contains!(output.stdout, "streams      10 on each connection at most; the server allows only 3");
    assert!(output.stderr.starts_with("1 connection, 1 thread, HTTP/2 with 10 concurrent streams on each, "));
}

#[test]
fn an_open_loop_uses_all_streams() {
    let url = serve(|_, _| Reply::Status(200));
    let load = ["--streams", "50", "-c", "1", "-R", "500", "-d", "1", "--warm-up-time", "0", &url];
    let (code, report) = bench(&load);
    assert_eq!((code, report["requests"].as_u64()), (Some(0), Some(500)), "{report}");
    assert_eq!(report["connections_opened"], 1);
}

#[test]
fn refused_requests_are_sent_again() {
    // Each third request is refused.
    let url = serve(|_, request| match request % 3 {
        0 => Reply::Reset(ErrorCode::REFUSED_STREAM),
        _ => Reply::Status(200),
    });
    let (code, report) = bench(&["--streams", "4", "-c", "1", "-n", "100", &url]);
    assert_eq!((code, report["succeeded"].as_u64()), (Some(0), Some(100)), "{report}");
    assert!(report["repeated"].as_u64() >= Some(30), "{report}");
    // And on a new connection.
    let url = serve(|connection, request| match (connection, request) {
        (0, 1) => Reply::Reset(ErrorCode::REFUSED_STREAM),
        _ => Reply::Status(200),
    });
    let reports = get(&["--http2-prior-knowledge", "-b", "x", &url, &url]);
    assert_eq!(values(&reports, "status"), [200, 200], "{reports:?}");
    assert!(reports[1]["new_because"].as_str().is_some_and(|reason| reason.contains("sent again")));
}

#[test]
fn a_server_that_refuses_everything_is_reported() {
    let url = serve(|_, _| Reply::Reset(ErrorCode::REFUSED_STREAM));
    let (code, report) = bench(&["--streams", "4", "-c", "1", "-n", "10", &url]);
    assert_eq!((code, report["failures"]["refused"]["count"].as_u64()), (Some(1), Some(10)), "{report}");
    assert_contains!(failed_get(&url), "error: the server refused the stream (REFUSED_STREAM)");
}

#[test]
fn resets_and_errors_of_a_server_are_reported() {
    for (reply, kind, message) in [
        (Reply::Reset(ErrorCode::CANCEL), "reset", "error: the server reset the stream: CANCEL"),
        (
            Reply::Close(ErrorCode::ENHANCE_YOUR_CALM),
            "short_body",
            "error: the server closed the connection: ENHANCE_YOUR_CALM: for a test",
        ),
    ] {
        let url = serve(move |_, _| reply);
        let (code, report) = bench(&["-c", "1", "-n", "10", &url]);
        assert_eq!((code, report["failures"][kind]["count"].as_u64()), (Some(1), Some(10)), "{report}");
        assert_contains!(failed_get(&url), message);
    }
}

#[test]
fn requests_after_the_last_one_of_a_connection_move_to_the_next() {
    let url = serve(|_, request| match request {
        2 => Reply::LastStatus(421),
        _ => Reply::Status(200),
    });
    let (code, report) = bench(&["--streams", "8", "-c", "1", "-n", "60", &url]);
    assert_eq!((code, report["requests"].as_u64()), (Some(0), Some(60)), "{report}");
    assert_eq!(report["status_codes"], json!({"200": 40, "421": 20}), "{report}");
    assert_eq!((&report["connections_opened"], report["repeated"].as_u64() > Some(0)), (&20.into(), true));
}

#[test]
fn a_flood_opens_streams() {
    let Some(nginx) = Peer::nginx(None, "http2_max_concurrent_streams 20;") else { return };
    let url = nginx.url("http", "/hello?{}");
    let flood = |streams: &str| -> Value {
        let fixed = ["flood", "--http2", "--idle", "-c", "2", "--ramp", "0", "-d", "1", "--json"];
        Rudy::run([&fixed[..], &["--streams", streams, &url]].concat()).json()
    };
    let report = flood("15");
    assert_eq!(report["opened"], 30, "{report}");
    assert_eq!(report["status_classes"][2], 30, "{report}");
    assert_members!(report, "streams_per_connection": 15, "http_version": "2");
}

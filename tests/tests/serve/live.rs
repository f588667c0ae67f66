//! Slow responses on every engine: streams, delayed responses, and `info`.

use rudy_tests::prelude::*;

const SITE: &str = r#"
listen = ["127.0.0.1:0"]
keep_alive = true

[[site]]
route = [
    { path = "/test/*", stream = { interval = "20ms" } },
    { path = "/three/*", stream = { interval = "10ms", count = 3, text = "{n}", welcome = "" } },
    { path = "/events", stream = { interval = "10ms", format = "sse" } },
    { path = "/wait", delay = { time = "10ms" } },
    { path = "/info", info = { allow = "loopback" } },
    { path = "/status", status = { allow = "loopback" } },
]
"#;

fn serve(site: &str, model: Model) -> Server {
    Server::build().config(site).engine(model).start()
}

fn ask(server: &Server, method: &str, path: &str) -> Connection {
    server.send(format!("{method} {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
}

#[test]
fn a_stream_sends_a_welcome_and_then_single_chunks() {
    for model in engines() {
        let server = serve(SITE, model);
        let mut connection = ask(&server, "GET", "/test/7");
        let head = connection.head();
        assert_eq!((head.status, head.field("transfer-encoding")), (200, Some("chunked")), "{model}");
        assert_eq!(head.field("cache-control"), Some("no-store"), "{model}");
        let welcome = connection.chunk().expect("the response is endless");
        assert_eq!(welcome, "Goconntest welcomes you! Your Id: /test/7\n", "{model}");
        for number in 1..=5 {
            let chunk = connection.chunk().expect("the response is endless");
            assert_eq!(chunk, format!("Chunk {number} for id /test/7\n"), "{model}");
        }
    }
}

#[test]
fn streams_end_when_their_clients_leave() {
    let server = serve(SITE, Model::PerCore);
    for id in 0..5 {
        let mut connection = ask(&server, "GET", &format!("/test/{id}"));
        assert_eq!(connection.head().status, 200);
        let welcome = connection.chunk().expect("the response is endless");
        assert_eq!(welcome, format!("Goconntest welcomes you! Your Id: /test/{id}\n"));
    }
}

#[test]
fn a_connection_is_reused_after_a_finite_stream() {
    let server = serve(SITE, Model::PerCore);
    let mut connection = ask(&server, "GET", "/three/1");
    assert_eq!(connection.response().text(), "1\n2\n3\n");
    assert_eq!(connection.get("/wait", &[]).text(), "Delayed by 10ms.\n");
}

#[test]
fn for_http_1_0_a_stream_ends_with_the_connection() {
    let server = serve(SITE, Model::PerCore);
    let response = server.exchange(b"GET /three/1 HTTP/1.0\r\n\r\n");
    let response = String::from_utf8(response).expect("it is ASCII");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head ends");
    assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
    assert_eq!(body, "1\n2\n3\n");
}

#[test]
fn a_head_request_gets_only_the_head() {
    let server = serve(SITE, Model::PerCore);
    let mut connection = ask(&server, "HEAD", "/events");
    let head = connection.head_response();
    assert_eq!((head.status, head.field("content-type")), (200, Some("text/event-stream")));
    assert_eq!(connection.get("/wait", &[]).status, 200);
}

#[test]
fn curl_receives_events_as_they_are_sent() {
    let Some(curl) = Curl::find() else { return };
    let server = serve(SITE, Model::PerCore);
    let mut command = curl.command();
    command.arg("--no-buffer").arg(server.url("/events")).stdout(Stdio::piped());
    let mut child = command.spawn().expect("curl can be started");
    let stdout = BufReader::new(child.stdout.take().expect("the stream is piped"));
    let lines: Vec<_> = stdout.lines().map_while(Result::ok).take(9).collect();
    child.kill().expect("curl is still running");
    child.wait().expect("curl is a child process");
    let events = "id: 0\ndata: Goconntest welcomes you! Your Id: /events\n\n\
                  id: 1\ndata: Chunk 1 for id /events\n\nid: 2\ndata: Chunk 2 for id /events\n";
    assert_eq!(lines, events.split('\n').collect::<Vec<_>>());
}

#[test]
fn a_stalled_client_is_dropped_and_counted() {
    let text = "x".repeat(1024 * 1024);
    let stream = format!("stream = {{ interval = \"10ms\", queue = 2, text = \"{text}\" }}");
    let site = SITE.replace("stream = { interval = \"20ms\" }", &stream);
    let server = serve(&site, Model::PerCore);
    let mut stalled = ask(&server, "GET", "/test/1");
    wait_until("it is dropped", || server.json("/status")["connections"]["dropped"] == 1);
    // The client still receives what the kernel has buffered; then the response ends early.
    let received = stalled.read_to_end();
    assert!(!received.ends_with(b"0\r\n\r\n"));
}

#[test]
fn many_delayed_responses_all_arrive() {
    let server = serve(SITE, Model::PerCore);
    let mut connections: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send(b"GET /wait HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    }
    for mut connection in connections {
        // With `Connection: close`, so that engines with few threads do not wait for this connection.
        assert_eq!(connection.response().text(), "Delayed by 10ms.\n");
    }
}

#[test]
fn info_identifies_the_process_and_thread() {
    for model in engines() {
        let server = serve(SITE, model);
        let text = server.get("/info").text().to_owned();
        assert!(text.starts_with(&format!("process: {}\n", server.pid())), "{model}: {text}");
        let fact = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            value.map(str::to_owned)
        };
        assert_eq!(fact("engine"), Some(model.to_string()));
        assert_eq!(fact("task").is_some(), !model.has_thread_per_connection(), "{model}: {text}");
        let thread = fact("thread").expect("each response names its thread");
        let name = fs::read_to_string(format!("/proc/{}/task/{thread}/comm", server.pid()));
        if model != Model::Thread {
            // The thread engine's thread may have ended with its connection.
            let name = name.expect("the thread belongs to the server");
            let is_named = fact("thread_name").is_some_and(|full| full.starts_with(name.trim_end()));
            assert!(is_named, "{model}: {text}");
        }
    }
}

#[test]
fn info_numbers_the_requests_of_a_connection() {
    let server = serve(SITE, Model::PerCore);
    let mut connection = server.connect();
    let mut ask = || {
        connection.send(b"GET /info HTTP/1.1\r\nHost: test\r\nAccept: application/json\r\n\r\n");
        let json: Value = serde_json::from_slice(&connection.response().body).expect("the text is JSON");
        json
    };
    let (first, second) = (ask(), ask());
    assert_eq!(first["connection"], second["connection"]);
    assert_eq!((&first["request"], &second["request"]), (&1.into(), &2.into()));
    assert_eq!((&first["requests_in_all"], &second["requests_in_all"]), (&1.into(), &2.into()));
    drop(connection);
    let next: String = server.get("/info").text().to_owned();
    assert!(!next.contains(&format!("connection: {}\n", first["connection"])), "{next}");
}

#[test]
fn a_stop_ends_streams_cleanly() {
    let mut server = serve(SITE, Model::PerCore);
    let mut connection = ask(&server, "GET", "/test/1");
    assert_eq!(connection.head().status, 200);
    assert!(connection.chunk().is_some());
    server.signal(Signal::TERM);
    // The last chunk shows the client that the stream is complete.
    while connection.chunk().is_some() {}
    drop(connection);
    let log = server.exits_with(0);
    assert!(!log.contains("cut"), "{log}");
}

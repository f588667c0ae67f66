//! `rudy status` and the dashboard, on a running server.

use rudy_tests::prelude::*;

/// An upstream that responds to `/fast` at once, to `/echo` with a change of protocol, and otherwise when the gate opens.
struct Slow {
    /// Dropped first, so that no thread of the upstream waits.
    gate: Sender<()>,
    upstream: Upstream,
}

impl Slow {
    fn start() -> Self {
        let (gate, opened): (Sender<()>, Receiver<()>) = channel();
        let opened = Arc::new(Mutex::new(opened));
        let upstream = Upstream::serve(move |peer, request| match request.target() {
            "/fast" => peer.respond("fast"),
            "/echo" => {
                peer.send(
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
                );
                let received = peer.read_exactly(5);
                peer.send(received);
                peer.wait_for_end();
            }
            _ => {
                // Fails at the end of the test.
                let _ = opened.lock().map(|opened| opened.recv());
                peer.respond("slow");
            }
        });
        Self { gate, upstream }
    }
}

/// With it, each exchange has a record. Without it, an exchange that waits has one for a report.
const ACCESS_LOG: &str = "access_log = { path = \"access.log\", format = \"json\" }\n";

fn config(upstream: &Upstream, more: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0,h2c\"\n[[site]]\n\
         [[site.route]]\npath = \"/dashboard\"\ndashboard = {{ interval = \"100ms\" }}\n{more}\
         [[site.route]]\npath = \"/*\"\nproxy = \"{upstream}\"\n"
    )
}

fn status(server: &Server, arguments: &[&str]) -> Output {
    server.rudy(&[&["status"], arguments].concat())
}

fn json(server: &Server, arguments: &[&str]) -> Value {
    status(server, &[&["--json"], arguments].concat()).json()
}

/// Waits until there are as many active requests. Returns them.
fn active(server: &Server, count: usize, arguments: &[&str]) -> Vec<Value> {
    let mut last = Value::Null;
    eventually(&format!("{count} active requests with {arguments:?}"), || {
        last = json(server, arguments);
        let requests = last["active"].as_array().expect("a list");
        (requests.len() == count).then(|| requests.clone())
    })
}

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n").into_bytes()
}

fn wait_for_phase(server: &Server, phase: &str) -> Value {
    active(server, 1, &["--phase", phase]).remove(0)
}

#[test]
fn a_request_to_a_slow_upstream_is_shown_with_what_it_waits_for() {
    for log in ["", ACCESS_LOG] {
        shows_what_a_request_waits_for(log);
    }
}

fn shows_what_a_request_waits_for(log: &str) {
    let slow = Slow::start();
    let server = Server::config(&(log.to_owned() + &config(&slow.upstream, "")));
    assert_eq!(active(&server, 0, &[]), Vec::<Value>::new());
    let mut connection = server.send(get("/report?token=secret"));
    let request = wait_for_phase(&server, "waiting");
    assert_members!(request, "method": "GET", "host": "a.test", "path": "/report", "client": "127.0.0.1");
    let upstream = slow.upstream.to_string();
    let (address, route) = (upstream.trim_start_matches("http://"), "/*");
    assert_members!(request, "upstream": address, "route": route);
    assert!(request["id"].as_str().is_some_and(|id| id.ends_with(".1")), "{request}");
    assert_eq!(active(&server, 1, &["--queries"])[0]["path"], "/report?token=secret");
    for (arguments, count) in [
        (["--path", "/rep"], 1),
        (["--path", "/other"], 0),
        (["--client", "127.0.0.0/8"], 1),
        (["--client", "::1"], 0),
        (["--host", "A.test"], 1),
        (["--min-age", "1h"], 0),
        (["--limit", "0"], 0),
    ] {
        active(&server, count, &arguments);
    }
    let text = status(&server, &[]).stdout;
    let counts = "active       1 request: 0 receiving, 1 waiting, 0 sending, 0 in tunnels";
    assert_contains!(text, "waiting", "GET a.test/report", counts);
    assert!(!text.contains("secret"), "{text}");
    let report = json(&server, &[]);
    assert_members!(report["connections"], "open": 1, "idle": 0);
    assert_eq!(report["upstreams"][0]["active"], 1);
    assert_eq!(report["top"]["paths"][0]["name"], "/report");
    assert_members!(report["holders"][0], "client": "127.0.0.1", "active": 1);
    slow.gate.send(()).expect("the upstream runs");
    assert_eq!(connection.response().text(), "slow");
    active(&server, 0, &[]);
    assert_eq!(json(&server, &[])["connections"]["idle"], 1);
}

#[test]
fn a_request_is_listed_while_its_body_and_its_response_are_transferred() {
    let slow = Slow::start();
    let route = "[[site.route]]\npath = \"/stream\"\nstream = { interval = \"10ms\" }\n";
    let server = Server::config(&config(&slow.upstream, route));
    let upload = server.send(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n0123456789");
    let request = eventually("the start of the body is counted", || {
        let request = wait_for_phase(&server, "receiving");
        (request["received_bytes"] == 10).then_some(request)
    });
    assert_members!(request, "method": "POST", "path": "/upload");
    let mut stream = server.send(get("/stream"));
    stream.head();
    assert!(stream.chunk().is_some());
    let request = eventually("the first chunk is counted", || {
        let request = wait_for_phase(&server, "sending");
        (request["sent_bytes"].as_u64() > Some(0)).then_some(request)
    });
    assert_eq!(request["path"], "/stream");
    // The row of a client that is gone goes, too.
    drop(stream);
    active(&server, 0, &["--phase", "sending"]);
    drop(upload);
    active(&server, 0, &[]);
}

#[test]
fn a_killed_request_ends_and_is_logged() {
    let slow = Slow::start();
    let mut server = Server::config(&(ACCESS_LOG.to_owned() + &config(&slow.upstream, "")));
    let [mut first, mut second] = [server.connect(), server.connect()];
    first.send(&get("/first"));
    let id = active(&server, 1, &[])[0]["id"].as_str().expect("an id").to_owned();
    second.send(&get("/second"));
    active(&server, 2, &[]);
    assert_eq!(status(&server, &["--kill", &id]).succeeded(), "ended 1 request\n");
    assert_eq!(first.read_to_end(), b"");
    assert_eq!(active(&server, 1, &[])[0]["path"], "/second");
    server.wait_for_line("by `rudy status`, 1 active request of");
    let log = server.path().wait_for("access.log", "/first");
    let line = log.lines().find(|line| line.contains("/first")).expect("it is there");
    assert!(line.contains("\"ended\":\"killed\""), "{line}");
    let stderr = status(&server, &["--kill", &id]).failed_with(1);
    assert_eq!(stderr, format!("error: no active request is {id}\n"));
    assert_eq!(status(&server, &["--kill-client", "192.0.2.0/24"]).code, Some(1));
    assert_eq!(status(&server, &["--kill-client", "127.0.0.1"]).code, Some(0));
    assert_eq!(second.read_to_end(), b"");
    // The upstream and the connection pool are not harmed.
    assert_eq!(server.get("/fast").text(), "fast");
}

#[test]
fn a_stream_of_http2_is_killed_without_the_others() {
    let slow = Slow::start();
    let server = Server::config(&config(&slow.upstream, ""));
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.get(1, "/first");
    connection.get(3, "/second");
    let requests = active(&server, 2, &[]);
    let first = requests.iter().find(|request| request["path"] == "/first").expect("it is active");
    assert_eq!(first["version"], "HTTP/2.0");
    status(&server, &["--kill", first["id"].as_str().expect("an id")]).with_code(0);
    let reset = connection.wait_for(kind::RST_STREAM);
    assert_eq!((reset.stream, &*reset.payload), (1, &[0, 0, 0, 8][..]));
    assert_eq!(active(&server, 1, &[])[0]["path"], "/second");
    // One of the two is for the request that was killed.
    slow.gate.send(()).and_then(|()| slow.gate.send(())).expect("the upstream runs");
    assert_eq!(connection.response(3).text(), "slow");
}

#[test]
fn a_tunnel_is_listed_with_its_bytes_and_can_be_killed() {
    let slow = Slow::start();
    let server = Server::config(&config(&slow.upstream, ""));
    let mut connection = server.send(
        b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(connection.head().status, 101);
    connection.send(b"hello");
    assert_eq!(connection.read_exactly(5), b"hello");
    let request = wait_for_phase(&server, "tunnel");
    assert_members!(request, "received_bytes": 5, "sent_bytes": 5);
    assert_eq!(json(&server, &[])["connections"]["tunnels"], 1);
    status(&server, &["--kill", request["id"].as_str().expect("an id")]).with_code(0);
    assert_eq!(connection.read_to_end(), b"");
    active(&server, 0, &[]);
}

#[test]
fn active_requests_survive_a_reload_and_end_with_the_server() {
    let slow = Slow::start();
    let mut server = Server::config(&config(&slow.upstream, ""));
    let mut connection = server.send(get("/slow"));
    active(&server, 1, &[]);
    server.reload("was reloaded");
    assert_eq!(active(&server, 1, &[])[0]["path"], "/slow");
    server.signal(Signal::TERM);
    server.wait_for_line("stopping");
    assert_eq!(active(&server, 1, &[])[0]["phase"], "waiting");
    slow.gate.send(()).expect("the upstream runs");
    assert_eq!(connection.response().text(), "slow");
    assert!(server.wait().0.success());
}

#[test]
fn a_live_view_repeats_the_report() {
    let slow = Slow::start();
    let server = Server::config(&config(&slow.upstream, ""));
    let pid = server.pid().to_string();
    let mut child = Rudy::command(["status", "--live", "--json", "-i", "10ms", "--pid", &pid]).spawn();
    let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let reports = BufRead::lines(output).take(3).map_while(Result::ok);
    let reports: Vec<Value> = reports.map(|line| serde_json::from_str(&line).expect("a report")).collect();
    assert_eq!(reports.len(), 3);
    assert!(reports.iter().all(|report| report["pid"] == server.pid()), "{reports:?}");
    // Its output is closed, so it ends.
    assert!(child.wait().expect("it ends").success());
}

/// Reads an event of the dashboard. Events may come in several chunks.
fn event(connection: &mut Connection) -> Value {
    let mut text = String::new();
    loop {
        text += &connection.chunk().expect("the stream goes on");
        if let Some(data) = text.lines().find_map(|line| line.strip_prefix("data: "))
            && text.ends_with("\n\n")
        {
            return serde_json::from_str(data).expect("an update");
        }
    }
}

#[test]
fn two_dashboards_get_the_same_updates_until_they_are_closed() {
    let slow = Slow::start();
    let server = Server::config(&config(&slow.upstream, ""));
    let mut viewers = [server.connect(), server.connect()];
    for viewer in &mut viewers {
        viewer.send(b"GET /dashboard?events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(viewer.head().field("content-type"), Some("text/event-stream"));
    }
    let _connection = server.send(get("/it's?secret=1"));
    for viewer in &mut viewers {
        let update = loop {
            let update = event(viewer);
            let parts = ["active", "charts"].map(|part| update[part].as_str().expect("a part").to_owned());
            if parts[0].contains("/it&#39;s") && parts[1].contains("<svg") {
                break update;
            }
        };
        let summary = update["summary"].as_str().expect("a part");
        assert!(summary.contains("<dt>Waiting</dt><dd>1</dd>"), "{update}");
        assert!(update["charts"].as_str().is_some_and(|text| !text.contains("<style")), "{update}");
    }
    let thread = |name: &str| {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server runs").flatten();
        let is_named = |comm: String| comm.trim() == name;
        tasks.filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(is_named)).count()
    };
    assert_eq!(thread("dashboard"), 1);
    drop(viewers);
    wait_until("the thread ends without viewers", || thread("dashboard") == 0);
}

#[test]
fn the_page_has_a_strict_policy_and_its_parts() {
    let slow = Slow::start();
    let server = Server::config(&config(&slow.upstream, ""));
    for (target, media_type, part) in [
        ("/dashboard", "text/html; charset=utf-8", "<h1>Rudy dashboard</h1>"),
        ("/dashboard?style", "text/css; charset=utf-8", ".chart text"),
        ("/dashboard?script", "text/javascript; charset=utf-8", "EventSource"),
    ] {
        let response = server.get(target);
        assert_eq!((response.status, response.field("content-type")), (200, Some(media_type)), "{target}");
        let policy = response.field("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(response.text().contains(part), "{target}");
        assert!(!response.text().contains("<!--summary-->"), "{target}");
    }
    // A request through a proxy is not one from this machine.
    let request = b"GET /dashboard?events HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
    assert_eq!(server.send(request).response().status, 403);
}

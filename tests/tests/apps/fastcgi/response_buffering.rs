//! Buffering of responses: a client that reads slowly does not occupy a connection to the app.

use rudy_tests::prelude::*;

use crate::fastcgi::site::{CONNECTIONS, Site, assert_same, pattern};

/// More than the socket buffers hold, and more than the server buffers in memory.
pub(crate) const LARGE_BYTES: usize = 5_000_000;

/// More than the kernel ever buffers for a client that does not read.
const HUGE_BYTES: usize = 24_000_000;

/// Sends a response of [`LARGE_BYTES`] or [`HUGE_BYTES`], then an event.
pub(crate) fn send(name: &str, peer: &mut Peer, sender: &Sender<String>) -> bool {
    let media_type = if name == "/huge-events" { "text/event-stream" } else { "text/plain" };
    let bytes = if name == "/large" { LARGE_BYTES } else { HUGE_BYTES };
    peer.body();
    peer.stdout(format!("Content-Type: {media_type}\r\n\r\n").as_bytes());
    pattern(bytes).chunks(60_000).for_each(|piece| peer.stdout(piece));
    peer.respond(b"");
    // The test may have dropped the receiver.
    let _ = sender.send("sent".to_owned());
    true
}

/// Sends a request without reading the response.
pub(crate) fn send_request(site: &Site, target: &str) -> Connection {
    site.server.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"))
}

#[test]
fn a_slow_reader_occupies_no_connection_and_gets_the_complete_response() {
    let site = Site::start(Model::PerCore, send);
    assert_eq!(site.server.get("/app/ok").text(), "fine");
    let before = site.descriptors();
    let clients: Vec<_> = (0..4 * CONNECTIONS).map(|_| send_request(&site, "/app/large")).collect();
    for _ in &clients {
        assert_eq!(site.next_event(), "sent");
    }
    site.assert_all_connections_free(Model::PerCore, "responses that are not read");
    for mut client in clients {
        assert_same(&client.response().body, &pattern(LARGE_BYTES), "a response that was read ahead");
    }
    site.wait_for_descriptors(before + CONNECTIONS, "slow readers");
}

#[test]
fn files_are_freed_when_readers_disconnect() {
    let top = "buffer_total = \"60 MB\"\nlimits.half_close_timeout = \"300ms\"\n";
    let mut site = Site::start_with(Model::PerCore, top, "", send);
    assert_eq!(site.server.get("/app/ok").text(), "fine");
    let before = site.descriptors();
    // Together the responses exceed the limit of all files.
    for round in 0..10 {
        let clients: Vec<_> = (0..2 * CONNECTIONS).map(|_| send_request(&site, "/app/large")).collect();
        for _ in &clients {
            assert_eq!(site.next_event(), "sent", "{round}");
        }
        drop(clients);
        site.wait_for_descriptors(before + CONNECTIONS, "readers that left");
    }
    let log = site.server.stop();
    assert!(!log.contains("cannot store the body"), "{log}");
}

/// Sends a request for a response that cannot be buffered, and reads it late. The log must give the reason `why`; `None` if the
/// server does not try to use a file.
fn assert_waits_for_client(top: &str, more: &str, script: &str, target: &str, why: Option<&str>) {
    let mut site = Site::start_with_shell(Model::PerCore, top, more, script, send);
    let mut client = send_request(&site, target);
    assert_eq!(client.head().status, 200, "{target} {top}{more}");
    if let Some(why) = why {
        site.server.wait_for_line(&format!("cannot store the body: {why}"));
    }
    let early = site.events.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "{target} {top}{more}: the app does not wait for the client");
    // The other connection is still usable.
    for _ in 0..10 {
        assert_eq!(site.server.get("/app/ok").text(), "fine", "{target} {top}{more}");
    }
    let mut body = Vec::new();
    while client.chunk_bytes(&mut body) {}
    assert_same(&body, &pattern(HUGE_BYTES), &format!("{target} {top}{more}"));
    assert_eq!(site.next_event(), "sent");
    site.assert_all_connections_free(Model::PerCore, target);
    let log = site.server.stop();
    assert_eq!(log.contains("cannot store the body"), why.is_some(), "{target} {top}{more}: {log}");
}

#[test]
fn the_app_waits_for_the_client_if_its_response_cannot_be_buffered() {
    let small = "more than 512KiB in all files (half of `buffer_total`)";
    let no_files = folder_without_files();
    let cases = [
        ("", ", response_buffer = 0", "/app/huge", None),
        ("", ", response_buffer = \"1 MiB\"", "/app/huge", None),
        ("buffer_total = \"1 MiB\"\n", "", "/app/huge", Some(small)),
        (&*no_files, "", "/app/huge", Some("/proc: ")),
        // Event streams are never buffered in a file.
        (&no_files, "", "/app/huge-events", None),
    ];
    // At the same time, because each of them waits for its client.
    thread::scope(|scope| {
        for (top, more, target, why) in cases {
            scope.spawn(move || assert_waits_for_client(top, more, "exec \"$@\"", target, why));
        }
    });
}

#[test]
fn with_a_full_disk_the_app_waits_for_the_client() {
    let folder = Folder::new();
    let Some(script) = small_disk(folder.path()) else { return };
    let top = format!("{}buffer_total = \"1 GiB\"\n", buffer_dir(folder.path()));
    let why = format!("{folder}: No space left on device");
    assert_waits_for_client(&top, "", &script, "/app/huge", Some(&why));
}

fn buffer_dir(folder: &Path) -> String {
    format!("buffer_dir = \"{}\"\n", folder.display())
}

/// A folder in which even root cannot create a file.
fn folder_without_files() -> String {
    buffer_dir(Path::new("/proc")) + "buffer_total = \"1 GiB\"\n"
}

#[test]
fn each_piece_is_passed_on_at_once() {
    let (go, permits) = gate::<()>();
    let app = App::serve(move |peer, params| {
        let fields = variable(&params, "QUERY_STRING").replace('&', "\r\n").replace('=', ": ");
        peer.body();
        peer.stdout(format!("{fields}\r\n\r\n").as_bytes());
        for n in 0..5 {
            // It fails after the end of the test.
            let _ = permits.wait();
            peer.stdout(format!("data: {n}\n\n").as_bytes());
        }
        peer.respond(b"");
    });
    let server = Site::build(Model::PerCore, &app.address(), &folder_without_files(), "").start();
    for fields in [
        "Content-Type=text/event-stream",
        "Content-Type=text/event-stream;charset=utf-8&X-Accel-Buffering=yes",
        "Content-Type=text/plain&X-Accel-Buffering=no",
        "Content-Type=text/plain",
    ] {
        let mut client = server.send(format!("GET /app/x?{fields} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let head = client.head();
        assert_eq!((head.status, head.field("x-accel-buffering")), (200, None), "{fields}");
        for n in 0..5 {
            go.send(()).expect("the app listens");
            assert_eq!(client.chunk(), Some(format!("data: {n}\n\n")), "{fields}");
        }
        assert_eq!(client.chunk(), None, "{fields}");
    }
}

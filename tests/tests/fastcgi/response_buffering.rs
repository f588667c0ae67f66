//! Responses that are read ahead where their client is slower than the app, so that it holds no connection.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use rudy_net::engine::Model;
use rudy_tests::fastcgi::{App, Peer, variable};
use rudy_tests::{Connection, PATIENCE};
use tempfile::TempDir;

use crate::disk::small_disk;
use crate::site::{CONNECTIONS, Site, assert_same, pattern};

/// More than the sockets between hold, and than may be in memory.
pub(crate) const LARGE_BYTES: usize = 5_000_000;

/// More than the kernel takes for a client that does not read, with all that it may add to its buffers.
const HUGE_BYTES: usize = 24_000_000;

/// Sends a response of [`LARGE_BYTES`] or [`HUGE_BYTES`], and tells when all of it is sent.
pub(crate) fn send(name: &str, peer: &mut Peer, tell: &Sender<String>) -> bool {
    let media_type = if name == "/huge-events" { "text/event-stream" } else { "text/plain" };
    let bytes = if name == "/large" { LARGE_BYTES } else { HUGE_BYTES };
    peer.body();
    peer.stdout(format!("Content-Type: {media_type}\r\n\r\n").as_bytes());
    pattern(bytes).chunks(60_000).for_each(|piece| peer.stdout(piece));
    peer.respond(b"");
    // A client that has left does not wait for it.
    let _ = tell.send("sent".to_owned());
    true
}

/// A client that asks, and does not read.
pub(crate) fn ask(site: &Site, target: &str) -> Connection {
    let mut client = site.server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").as_bytes());
    client
}

#[test]
fn a_slow_reader_holds_no_connection_and_gets_everything_when_it_reads() {
    let site = Site::start(Model::PerCore, send);
    assert_eq!(site.server.get("/app/ok").text(), "fine");
    let before = site.descriptors();
    let clients: Vec<_> = (0..4 * CONNECTIONS).map(|_| ask(&site, "/app/large")).collect();
    for _ in &clients {
        assert_eq!(site.told(), "sent");
    }
    site.all_places_are_free(Model::PerCore, "responses that are not read");
    for mut client in clients {
        assert_same(&client.response().body, &pattern(LARGE_BYTES), "a response that was read ahead");
    }
    site.descriptors_fall_to(before + CONNECTIONS as u64, "slow readers");
}

#[test]
fn readers_that_leave_free_their_files() {
    let top = "buffer_total = \"30 MB\"\nlimits.half_close_timeout = \"300ms\"\n";
    let mut site = Site::start_with(Model::PerCore, top, "", send);
    assert_eq!(site.server.get("/app/ok").text(), "fine");
    let before = site.descriptors();
    // Together they would take more than the room of all files.
    for round in 0..10 {
        let clients: Vec<_> = (0..2 * CONNECTIONS).map(|_| ask(&site, "/app/large")).collect();
        for _ in &clients {
            assert_eq!(site.told(), "sent", "{round}");
        }
        drop(clients);
        site.descriptors_fall_to(before + CONNECTIONS as u64, "readers that left");
    }
    site.server.signal(rustix::process::Signal::TERM);
    let (_, log) = site.server.wait();
    assert!(!log.contains("cannot be stored"), "{log}");
}

/// Asks for a response for which there is no room, and reads it late. `why` is the reason that the log has to give; none where
/// a file is not wanted at all.
fn waits_for_its_client(top: &str, more: &str, script: &str, target: &str, why: Option<&str>) {
    let mut site = Site::start_with_shell(Model::PerCore, top, more, script, send);
    let mut client = ask(&site, target);
    assert_eq!(client.head().status, 200, "{top}{more}");
    if let Some(why) = why {
        site.server.wait_for_line(&format!("cannot store the body: {why}"));
    }
    let early = site.told.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "{top}{more}: the app does not wait for the client");
    // The other connection is free.
    for _ in 0..10 {
        assert_eq!(site.server.get("/app/ok").text(), "fine", "{top}{more}");
    }
    let mut body = Vec::new();
    while client.chunk_bytes(&mut body) {}
    assert_same(&body, &pattern(HUGE_BYTES), &format!("{top}{more}"));
    assert_eq!(site.told(), "sent");
    site.all_places_are_free(Model::PerCore, target);
    site.server.signal(rustix::process::Signal::TERM);
    let (_, log) = site.server.wait();
    assert_eq!(log.contains("cannot be stored"), why.is_some(), "{top}{more}: {log}");
}

#[test]
fn with_response_buffer_0_the_app_waits_for_its_client() {
    waits_for_its_client("", ", response_buffer = 0", "exec \"$@\"", "/app/huge", None);
}

#[test]
fn beyond_its_bound_a_response_waits_for_its_client() {
    waits_for_its_client("", ", response_buffer = \"1 MiB\"", "exec \"$@\"", "/app/huge", None);
}

#[test]
fn beyond_the_bound_of_all_files_a_response_waits_for_its_client() {
    let why = "more than 1MiB in all files (`buffer_total`)";
    waits_for_its_client("buffer_total = \"1 MiB\"\n", "", "exec \"$@\"", "/app/huge", Some(why));
}

#[test]
fn a_response_for_which_the_disk_has_no_room_waits_for_its_client() {
    let folder = TempDir::new().unwrap();
    let Some(script) = small_disk(folder.path()) else { return };
    let top = format!("{}buffer_total = \"1 GiB\"\n", buffer_dir(folder.path()));
    let why = format!("{}: No space left on device", folder.path().display());
    waits_for_its_client(&top, "", &script, "/app/huge", Some(&why));
}

#[test]
fn a_response_whose_folder_takes_no_file_waits_for_its_client() {
    waits_for_its_client(&no_files(), "", "exec \"$@\"", "/app/huge", Some("/proc: "));
}

#[test]
fn events_that_are_not_read_never_go_to_a_file() {
    waits_for_its_client(&no_files(), "", "exec \"$@\"", "/app/huge-events", None);
}

fn buffer_dir(folder: &Path) -> String {
    format!("buffer_dir = \"{}\"\n", folder.display())
}

/// A folder in which no file can be made, by root neither.
fn no_files() -> String {
    buffer_dir(Path::new("/proc")) + "buffer_total = \"1 GiB\"\n"
}

#[test]
fn each_piece_is_passed_on_as_it_comes() {
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let app = App::start(move |mut peer| {
        while let Some(params) = peer.request() {
            let fields = variable(&params, "QUERY_STRING").replace('&', "\r\n").replace('=', ": ");
            peer.body();
            peer.stdout(format!("{fields}\r\n\r\n").as_bytes());
            for n in 0..5 {
                // It fails once the test is over.
                let _ = may_go.lock().expect("no thread panics with it").recv_timeout(PATIENCE);
                peer.stdout(format!("data: {n}\n\n").as_bytes());
            }
            peer.respond(b"");
        }
    });
    let server = Site::build(Model::PerCore, &app.address(), &no_files(), "").start();
    for fields in [
        "Content-Type=text/event-stream",
        "Content-Type=text/event-stream;charset=utf-8&X-Accel-Buffering=yes",
        "Content-Type=text/plain&X-Accel-Buffering=no",
        "Content-Type=text/plain",
    ] {
        let mut client = server.connect();
        client.send(format!("GET /app/x?{fields} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
        let head = client.head();
        assert_eq!((head.status, head.field("x-accel-buffering")), (200, None), "{fields}");
        for n in 0..5 {
            go.send(()).expect("the app listens");
            assert_eq!(client.chunk(), Some(format!("data: {n}\n\n")), "{fields}");
        }
        assert_eq!(client.chunk(), None, "{fields}");
    }
}

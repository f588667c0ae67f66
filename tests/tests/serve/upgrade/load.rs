//! Requests during upgrades.

use rudy_tests::prelude::*;

use crate::upgrade::rig::{ANY, Rig, ask, text, wait_for_exit};

/// Clients with keep-alive connections, and clients with a connection per request.
const CLIENTS: [u64; 4] = [u64::MAX, u64::MAX, 10, 1];

#[test]
fn no_request_fails_during_simultaneous_reloads_and_upgrades() {
    let mut rig = Rig::start(&text(ANY, "0", ""));
    let load = Load::start(rig.server.address(), &CLIENTS, &["/", "/app"], succeeds);
    for number in 1..=4 {
        rig.server.forget_lines();
        rig.signal(Signal::USR2);
        for reload in 0..5 {
            rig.rewrite(&text(ANY, &format!("{number}.{reload}"), ""));
            rig.signal(Signal::HUP);
            // A pace of reloads, not a wait for one.
            thread::sleep(Duration::from_millis(100));
        }
        let old = rig.is_replaced();
        wait_for_exit(old);
        rig.rewrite(&text(ANY, &number.to_string(), ""));
        rig.signal(Signal::HUP);
        wait_until("the last configuration is in effect", || rig.get("/") == number.to_string());
    }
    let tally = load.stop();
    assert!(tally.responses > 100 && tally.connections > 20, "{tally:?}");
}

#[test]
fn descriptors_do_not_grow_over_20_upgrades() {
    let mut rig = Rig::start(&text(ANY, "hello", ""));
    let mut first = None;
    for _ in 0..20 {
        rig.upgrade_and_wait();
        rig.get("/app");
        rig.is_alone();
        let now = rig.descriptors();
        let first = *first.get_or_insert(now);
        wait_until("descriptors are as many as after the first", || rig.descriptors() <= first);
    }
}

#[test]
fn a_stream_and_a_slow_upload_are_finished_by_the_old_process() {
    let mut rig = Rig::start(&text(ANY, "hello", "shutdown_timeout = \"5s\""));
    let app = rig.get("/app");
    let mut stream = rig.server.send(b"GET /stream HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(stream.head().status, 200);
    assert!(stream.chunk().is_some());
    let mut upload = rig.server.send(b"POST /app HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nab");
    let mut idle = rig.server.connect();
    assert_eq!(ask(&mut idle, "/"), "hello");

    let old = rig.upgrade();
    let new_app = rig.get("/app");
    assert_ne!(app.lines().next(), new_app.lines().next(), "the new process has an app of its own");
    assert!(idle.is_closed());
    upload.send(b"cd");
    let response = upload.response();
    assert_eq!(response.text().lines().next(), app.lines().next(), "the app of the old process responds");
    assert_eq!(response.field("connection"), Some("close"));
    // An endless stream goes on until the last second, and ends cleanly.
    let chunks = std::iter::from_fn(|| stream.chunk()).count();
    assert!(chunks > 100, "{chunks}");
    drop((stream, upload));
    wait_for_exit(old);
    let line = rig.server.wait_for_line("notice: stopped");
    assert!(!line.contains("aborted"), "{line}");
}

#[test]
fn requests_that_do_not_finish_in_time_are_aborted_and_counted() {
    let mut rig = Rig::start(&text(ANY, "hello", "shutdown_timeout = \"1500ms\""));
    let _upload = rig.server.send(b"POST /app HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nab");
    let old = rig.upgrade();
    rig.server.wait_for_line("stopped; 1 connection was aborted");
    wait_for_exit(old);
    assert_eq!(rig.get("/"), "hello");
}

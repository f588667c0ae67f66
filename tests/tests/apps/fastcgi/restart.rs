//! Reload and stop while bodies are buffered and requests wait: no request is lost.

use rudy_tests::prelude::*;

use crate::fastcgi::queue::{Full, send_request, wait_for_connections};
use crate::fastcgi::site::{Site, assert_same, pattern};
use crate::fastcgi::{request_buffering, response_buffering};

/// Replaces `from` by `to` in the configuration, and reloads it.
fn reload(server: &mut Server, from: &str, to: &str) {
    let change = |text: String| {
        assert!(text.contains(from), "{text}");
        text.replace(from, to)
    };
    server.reload_changed(change, "the configuration was reloaded");
}

/// Asserts that the server stops without closing any connection early.
fn assert_stops_cleanly(server: &mut Server) {
    let log = server.exits_with(0);
    assert!(log.ends_with("notice: stopped"), "{log}");
}

#[test]
fn a_reload_loses_no_request_in_the_queue() {
    // A change that keeps the pool, and one that replaces it.
    for (from, to) in [("/soon/*", "/sooner/*"), ("connections = 2", "connections = 3")] {
        let mut full = Full::start(Model::PerCore, "");
        let waiting: Vec<_> = (0..10).map(|_| send_request(&full.server)).collect();
        full.wait_for_queue(waiting.len());
        full.clients.extend(waiting);
        reload(&mut full.server, from, to);
        // A request after the reload.
        let last = send_request(&full.server);
        full.clients.push(last);
        full.respond_to_all();
    }
}

#[test]
fn a_stop_loses_no_request_in_the_queue() {
    let mut full = Full::start(Model::PerCore, "");
    let waiting: Vec<_> = (0..10).map(|_| send_request(&full.server)).collect();
    full.wait_for_queue(waiting.len());
    full.clients.extend(waiting);
    full.server.signal(Signal::TERM);
    full.server.wait_for_line("SIGTERM: stopping");
    full.respond_to_all();
    // The server waits until its clients have closed.
    full.clients.clear();
    assert_stops_cleanly(&mut full.server);
}

#[test]
fn a_reload_and_a_stop_lose_no_buffered_response() {
    let mut site = Site::start(Model::PerCore, response_buffering::send);
    let mut clients: Vec<_> = (0..6).map(|_| response_buffering::send_request(&site, "/app/large")).collect();
    for _ in &clients {
        assert_eq!(site.next_event(), "sent");
    }
    // Change the folder, while the files stay in the old one.
    let folder = Folder::new();
    let buffer_dir = format!("buffer_dir = \"{folder}\"\n[[site]]");
    reload(&mut site.server, "[[site]]", &buffer_dir);
    for mut client in clients.split_off(3) {
        assert_same(&client.response().body, &pattern(response_buffering::LARGE_BYTES), "after a reload");
    }
    // Stop the app before its responses are read.
    site.server.signal(Signal::TERM);
    site.server.wait_for_line("SIGTERM: stopping");
    site.app.stop_listening();
    for mut client in clients {
        assert_same(&client.response().body, &pattern(response_buffering::LARGE_BYTES), "after SIGTERM");
    }
    assert_stops_cleanly(&mut site.server);
}

#[test]
fn a_reload_and_a_stop_lose_no_buffered_body() {
    let mut site = Site::start(Model::PerCore, |_, peer, _| request_buffering::echo(peer));
    let body = pattern(1 << 20);
    let mut uploads: Vec<_> =
        (0..6).map(|_| request_buffering::begin(&site, &body, body.len() - 10)).collect();
    // Wait until all are accepted: the server would not serve a client that is in the accept queue when it stops.
    wait_for_connections(&mut site.server.connect(), uploads.len() + 1);
    reload(&mut site.server, "connections = 2", "connections = 3");
    for (mut client, rest) in uploads.split_off(3) {
        client.send(&rest);
        assert_same(&client.response().body, &body, "after a reload");
    }
    site.server.signal(Signal::TERM);
    site.server.wait_for_line("SIGTERM: stopping");
    for (mut client, rest) in uploads {
        client.send(&rest);
        assert_same(&client.response().body, &body, "after SIGTERM");
    }
    assert_stops_cleanly(&mut site.server);
}

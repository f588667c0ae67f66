//! A reload and a stop while bodies are stored and requests wait: nothing is lost.

use std::fs;

use rudy_net::engine::Model;
use rudy_tests::Server;
use rustix::process::Signal;

use crate::queue::{Full, ask, connections_become};
use crate::request_buffering;
use crate::response_buffering;
use crate::site::{Site, assert_same, pattern};

/// Has the server read its configuration again, in which `from` became `to`.
fn reload(server: &mut Server, from: &str, to: &str) {
    let path = server.path().join("rudy.toml");
    let text = fs::read_to_string(&path).expect("the server has it");
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replace(from, to)).expect("the folder is ours");
    server.forget_lines();
    server.signal(Signal::HUP);
    server.wait_for_line("the configuration was read again");
}

/// The server ends, and has cut no connection.
fn stops_in_order(server: &mut Server) {
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.ends_with("notice: stopped"), "{log}");
}

#[test]
fn a_reload_loses_no_request_in_the_queue() {
    // The same pool, and another one.
    for (from, to) in [("/soon/*", "/sooner/*"), ("connections = 2", "connections = 3")] {
        let mut full = Full::start(Model::PerCore, "");
        let waiting: Vec<_> = (0..10).map(|_| ask(&full.server)).collect();
        full.all_wait(waiting.len());
        full.clients.extend(waiting);
        reload(&mut full.server, from, to);
        // This one comes behind the reload.
        let last = ask(&full.server);
        full.clients.push(last);
        full.answer_all();
    }
}

#[test]
fn a_stop_loses_no_request_in_the_queue() {
    let mut full = Full::start(Model::PerCore, "");
    let waiting: Vec<_> = (0..10).map(|_| ask(&full.server)).collect();
    full.all_wait(waiting.len());
    full.clients.extend(waiting);
    full.server.signal(Signal::TERM);
    full.server.wait_for_line("SIGTERM: stopping");
    full.answer_all();
    // The server waits for clients to close.
    full.clients.clear();
    stops_in_order(&mut full.server);
}

#[test]
fn a_reload_and_a_stop_lose_no_response_that_was_read_ahead() {
    let mut site = Site::start(Model::PerCore, response_buffering::send);
    let mut clients: Vec<_> = (0..6).map(|_| response_buffering::ask(&site, "/app/large")).collect();
    for _ in &clients {
        assert_eq!(site.told(), "sent");
    }
    // The files stay where they are.
    let folder = tempfile::tempdir().expect("a temp folder can be made");
    let buffer_dir = format!("buffer_dir = \"{}\"\n[[site]]", folder.path().display());
    reload(&mut site.server, "[[site]]", &buffer_dir);
    for mut client in clients.split_off(3) {
        assert_same(&client.response().body, &pattern(response_buffering::LARGE_BYTES), "after a reload");
    }
    // The app is gone before its responses are read.
    site.server.signal(Signal::TERM);
    site.server.wait_for_line("SIGTERM: stopping");
    site.app.stop_listening();
    for mut client in clients {
        assert_same(&client.response().body, &pattern(response_buffering::LARGE_BYTES), "after SIGTERM");
    }
    stops_in_order(&mut site.server);
}

#[test]
fn a_reload_and_a_stop_lose_no_body_that_is_stored() {
    let mut site = Site::start(Model::PerCore, |_, peer, _| request_buffering::echo(peer));
    let body = pattern(1 << 20);
    let mut uploads: Vec<_> =
        (0..6).map(|_| request_buffering::begin(&site, &body, body.len() - 10)).collect();
    // Those that are in the accept queue when the server stops would not be served.
    connections_become(&mut site.server.connect(), uploads.len() + 1);
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
    stops_in_order(&mut site.server);
}

//! Clients that disconnect, idle connections that the app has closed, and an app that does not run.

use rudy_tests::prelude::*;

use crate::fastcgi::site::{SHORT_HALF_CLOSE, Site, post, respond_with, wait_for_end};

/// Waits for a disconnect in the phase that the name selects.
fn waits(name: &str, peer: &mut Peer, sender: &Sender<String>) -> bool {
    match name {
        "/before-the-response" => assert_eq!(peer.body(), Some(0)),
        "/in-the-response" => {
            peer.body();
            peer.stdout(b"Content-Type: text/plain\r\n\r\nhalf");
        }
        "/in-the-upload" => assert!(matches!(peer.receive(), Received::Body(_))),
        _ => panic!("the phase {name} is unknown"),
    }
    sender.send(name.to_owned()).expect("the test listens");
    wait_for_end(peer, sender)
}

fn client_leaves(model: Model) {
    let site = Site::start_with(model, SHORT_HALF_CLOSE, ", request_buffering = false", waits);
    site.assert_all_connections_free(model, "the start");
    let before = site.descriptors();
    for phase in ["/before-the-response", "/in-the-response", "/in-the-upload"] {
        let head = format!("/app{phase} HTTP/1.1\r\nHost: test\r\n");
        let body = "a".repeat(1000);
        let client = site.server.send(match phase {
            "/in-the-upload" => format!("POST {head}Content-Length: 1000000\r\n\r\n{body}"),
            _ => format!("GET {head}\r\n"),
        });
        assert_eq!(site.next_event(), phase, "{model}");
        drop(client);
        assert_eq!(site.next_event(), "cancelled", "{model}: {phase}");
        site.assert_all_connections_free(model, phase);
        site.wait_for_descriptors(before + 2, phase);
    }
}

#[test]
fn a_disconnect_cancels_the_request_and_frees_its_connection() {
    thread::scope(|scope| {
        for model in engines() {
            scope.spawn(move || client_leaves(model));
        }
    });
}

#[test]
fn a_disconnect_closes_the_connection_to_an_app_that_ignores_aborts() {
    let site = Site::start_with(Model::PerCore, SHORT_HALF_CLOSE, "", |name, peer, sender| {
        peer.body();
        sender.send(name.to_owned()).expect("the test listens");
        // Most apps ignore `FCGI_ABORT_REQUEST`, and write nothing while they work.
        while !matches!(peer.receive(), Received::Closed) {}
        sender.send("closed".to_owned()).expect("the test listens");
        false
    });
    let client = site.server.send(b"GET /app/at-work HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(site.next_event(), "/at-work");
    drop(client);
    assert_eq!(site.next_event(), "closed");
}

#[test]
fn only_a_safe_request_is_repeated_when_a_reused_connection_closes() {
    let (sender, events) = mpsc::channel();
    // Responds once per connection, and closes it at the second request.
    let app = App::start(move |mut peer| {
        for is_again in [false, true] {
            if peer.request().is_none() {
                return;
            }
            sender.send(is_again).expect("the test listens");
            if is_again || !respond_with(&mut peer, "fine") {
                return;
            }
        }
    });
    let site = Site { server: Site::server(Model::PerCore, &app, ""), app, events: mpsc::channel().1 };
    let requests = || std::iter::from_fn(|| events.try_recv().ok()).collect::<Vec<_>>();
    assert_eq!(site.server.get("/app/x").text(), "fine");
    assert_eq!(site.server.get("/app/x").text(), "fine");
    assert_eq!(requests(), [false, true, false], "the request was sent twice");
    // RFC 9110 §9.2.1: only safe methods are repeated, because repeating an idempotent one may have an effect.
    for (method, body) in [("POST", "order"), ("POST", ""), ("PUT", ""), ("DELETE", "")] {
        assert_eq!(send_request(&site, method, body).status, 502, "{method}");
        assert_eq!(requests(), [true], "{method}: the request was sent once");
        assert_eq!(send_request(&site, method, body).text(), "fine", "{method}");
        assert_eq!(requests(), [false], "{method}");
    }
}

fn send_request(site: &Site, method: &str, body: &str) -> Response {
    site.server.send_body(method, "/app/x", body)
}

#[test]
fn a_request_that_could_not_be_sent_is_repeated_with_any_method() {
    let (site, end) = Site::with_read_closed_connection();
    assert_eq!(site.server.get("/app/x").text(), "fine");
    assert_eq!(site.next_event(), "read closed");
    assert_eq!(send_request(&site, "DELETE", "").text(), "fine");
    assert_eq!(site.app.accepted(), 2);
    drop(end);
}

#[test]
fn idle_connections_that_the_app_has_closed_are_not_reused() {
    let site = Site::start(Model::PerCore, |_, peer, _| respond_with(peer, "ordered"));
    for round in 0..20 {
        assert_eq!(site.post("/app/order", b"one").text(), "ordered", "{round}");
        site.app.close_all();
    }
    assert_eq!(site.app.accepted(), 20);
}

#[test]
fn an_app_that_is_not_running_is_502_until_it_is_back() {
    let mut site = Site::start(Model::PerCore, |_, peer, _| respond_with(peer, "fine"));
    assert_eq!(site.server.get("/app/ok").text(), "fine");
    site.app.stop_listening();
    assert_eq!(site.server.get("/app/ok").status, 502);
    assert_eq!(site.post("/app/ok", b"abc").status, 502);
    site.server.wait_for_line("app.sock: No such file or directory (os error 2); is the app running?");
    site.app.listen();
    assert_eq!(site.server.get("/app/ok").text(), "fine");
}

/// Responds or closes the connection during an upload that it does not read.
fn reads_nothing(name: &str, peer: &mut Peer, _: &Sender<String>) -> bool {
    assert!(matches!(peer.receive(), Received::Body(_)));
    match name {
        "/rejects" => peer.respond(b"Status: 403\r\n\r\nno"),
        _ => return false,
    }
    // Discard the rest of the body.
    while !matches!(peer.receive(), Received::Closed) {}
    false
}

#[test]
fn a_response_before_the_end_of_an_upload_is_passed_on() {
    let site = Site::start_with(Model::PerCore, "", ", request_buffering = false", reads_nothing);
    for (target, status) in [("/app/rejects", 403), ("/app/closes", 502)] {
        let mut client = site.server.connect();
        // More than the socket buffers hold, so the app must respond before the end of the upload.
        let head = post(target, &[]);
        let head = String::from_utf8(head).unwrap().replace("Length: 0", "Length: 50000000");
        client.send(head.as_bytes());
        client.send(&vec![b'a'; 100_000]);
        assert_eq!(client.response().status, status, "{target}");
        drop(client);
        site.assert_all_connections_free(Model::PerCore, target);
    }
}

#[test]
fn an_unbuffered_upload_is_as_slow_as_the_app() {
    let (go, permits) = gate::<()>();
    let app = App::start(move |mut peer| {
        if peer.request().is_some() {
            permits.wait().expect("the test sends a permit");
            let body = peer.body();
            peer.respond(format!("Content-Type: text/plain\r\n\r\n{body:?}").as_bytes());
        }
    });
    let server = Site::server(Model::PerCore, &app, ", request_buffering = false");
    let mut client = server.connect();
    let bytes = 64 << 20;
    let request = post("/app/x", &vec![b'a'; bytes]);
    // Send until all buffers are full.
    let socket = client.socket().try_clone().unwrap();
    socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut sent = 0;
    while let Ok(written @ 1..) = (&socket).write(&request[sent..]) {
        sent += written;
    }
    assert!(sent < bytes / 2, "{sent} bytes were sent to an app that reads nothing");
    let mut process = Process::open(server.pid()).unwrap();
    let peak = process.sample().unwrap().memory.peak_rss_bytes;
    assert!(peak < 64 << 20, "{peak} bytes of memory");
    go.send(()).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    client.send(&request[sent..]);
    assert_eq!(client.response().text(), format!("Some({bytes})"));
}

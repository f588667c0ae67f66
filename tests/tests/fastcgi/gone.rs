//! A client that leaves, a kept connection that died, and an app that is not there.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use rudy_net::engine::Model;
use rudy_observe::Process;
use rudy_tests::fastcgi::{App, Peer, Received};
use rudy_tests::{PATIENCE, Response, engines};

use crate::site::{SHORT_HALF_CLOSE, Site, answer_with, post, wait_for_end};

/// Waits, in the phase that the name says, for the client to leave.
fn waits(name: &str, peer: &mut Peer, tell: &Sender<String>) -> bool {
    match name {
        "/before-the-answer" => assert_eq!(peer.body(), Some(0)),
        "/in-the-answer" => {
            peer.body();
            peer.stdout(b"Content-Type: text/plain\r\n\r\nhalf");
        }
        "/in-the-upload" => assert!(matches!(peer.receive(), Received::Body(_))),
        _ => panic!("the phase {name} is not known"),
    }
    tell.send(name.to_owned()).expect("the test listens");
    wait_for_end(peer, tell)
}

fn client_leaves(model: Model) {
    let site = Site::start_with(model, SHORT_HALF_CLOSE, ", request_buffering = false", waits);
    site.all_places_are_free(model, "the start");
    let before = site.descriptors();
    for phase in ["/before-the-answer", "/in-the-answer", "/in-the-upload"] {
        let mut client = site.server.connect();
        let request = match phase {
            "/in-the-upload" => format!(
                "POST /app{phase} HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n{}",
                "a".repeat(1000)
            ),
            _ => format!("GET /app{phase} HTTP/1.1\r\nHost: test\r\n\r\n"),
        };
        client.send(request.as_bytes());
        assert_eq!(site.told(), phase, "{model}");
        drop(client);
        assert_eq!(site.told(), "cancelled", "{model}: {phase}");
        site.all_places_are_free(model, phase);
        site.descriptors_fall_to(before + 2, phase);
    }
}

#[test]
fn an_app_is_told_that_its_client_has_left_and_its_place_is_free() {
    std::thread::scope(|scope| {
        for model in engines() {
            scope.spawn(move || client_leaves(model));
        }
    });
}

#[test]
fn an_app_that_does_not_listen_finds_its_connection_closed_when_its_client_has_left() {
    let site = Site::start_with(Model::PerCore, SHORT_HALF_CLOSE, "", |name, peer, tell| {
        peer.body();
        tell.send(name.to_owned()).expect("the test listens");
        // Most apps do not know `FCGI_ABORT_REQUEST`, and say nothing for as long as they are at work.
        while !matches!(peer.receive(), Received::Closed) {}
        tell.send("closed".to_owned()).expect("the test listens");
        false
    });
    let mut client = site.server.connect();
    client.send(b"GET /app/at-work HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(site.told(), "/at-work");
    drop(client);
    assert_eq!(site.told(), "closed");
}

#[test]
fn a_safe_request_on_a_kept_connection_that_dies_is_asked_again_and_another_is_not() {
    let (tell, told) = mpsc::channel();
    // Answers once on each connection, and closes it when asked again.
    let app = App::start(move |mut peer| {
        for is_again in [false, true] {
            if peer.request().is_none() {
                return;
            }
            tell.send(is_again).expect("the test listens");
            if is_again || !answer_with(&mut peer, "fine") {
                return;
            }
        }
    });
    let site = Site { server: Site::server(Model::PerCore, &app, ""), app, told: mpsc::channel().1 };
    let asked = || std::iter::from_fn(|| told.try_recv().ok()).collect::<Vec<_>>();
    assert_eq!(site.server.get("/app/x").text(), "fine");
    assert_eq!(site.server.get("/app/x").text(), "fine");
    assert_eq!(asked(), [false, true, false], "it was asked twice");
    // RFC 9110 §9.2.1: twice the same is not always nothing, even where twice does no more than once.
    for (method, body) in [("POST", "order"), ("POST", ""), ("PUT", ""), ("DELETE", "")] {
        assert_eq!(ask(&site, method, body).status, 502, "{method}");
        assert_eq!(asked(), [true], "{method}: it was asked once");
        assert_eq!(ask(&site, method, body).text(), "fine", "{method}");
        assert_eq!(asked(), [false], "{method}");
    }
}

fn ask(site: &Site, method: &str, body: &str) -> Response {
    let mut connection = site.server.connect();
    let length = body.len();
    let head = format!("{method} /app/x HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    connection.send(format!("{head}{body}").as_bytes());
    connection.response()
}

#[test]
fn a_request_of_which_nothing_could_be_sent_is_sent_on_another_connection_whatever_it_asks() {
    let (site, end) = Site::with_deaf_connection();
    assert_eq!(site.server.get("/app/x").text(), "fine");
    assert_eq!(site.told(), "deaf");
    assert_eq!(ask(&site, "DELETE", "").text(), "fine");
    assert_eq!(site.app.accepted(), 2);
    drop(end);
}

#[test]
fn connections_that_an_app_has_closed_in_the_meantime_are_not_used_for_anything() {
    let site = Site::start(Model::PerCore, |_, peer, _| answer_with(peer, "ordered"));
    for round in 0..20 {
        assert_eq!(site.post("/app/order", b"one").text(), "ordered", "{round}");
        site.app.close_all();
    }
    assert_eq!(site.app.accepted(), 20);
}

#[test]
fn an_app_that_is_gone_is_502_until_it_is_back() {
    let mut site = Site::start(Model::PerCore, |_, peer, _| answer_with(peer, "fine"));
    assert_eq!(site.server.get("/app/ok").text(), "fine");
    site.app.stop_listening();
    assert_eq!(site.server.get("/app/ok").status, 502);
    assert_eq!(site.post("/app/ok", b"abc").status, 502);
    site.server.wait_for_line("app.sock: No such file or directory (os error 2); does the app run?");
    site.app.listen();
    assert_eq!(site.server.get("/app/ok").text(), "fine");
}

/// Answers, or breaks off, while a body goes up that it does not read.
fn reads_nothing(name: &str, peer: &mut Peer, _: &Sender<String>) -> bool {
    assert!(matches!(peer.receive(), Received::Body(_)));
    match name {
        "/refuses" => peer.respond(b"Status: 403\r\n\r\nno"),
        _ => return false,
    }
    // What it is sent is not looked at.
    while !matches!(peer.receive(), Received::Closed) {}
    false
}

#[test]
fn an_answer_before_the_body_has_gone_up_is_passed_on() {
    let site = Site::start_with(Model::PerCore, "", ", request_buffering = false", reads_nothing);
    for (target, status) in [("/app/refuses", 403), ("/app/breaks-off", 502)] {
        let mut client = site.server.connect();
        // More than all sockets between hold, so that the app must have answered before it has gone up.
        let head = post(target, &[]);
        let head = String::from_utf8(head).unwrap().replace("Length: 0", "Length: 50000000");
        client.send(head.as_bytes());
        client.send(&vec![b'a'; 100_000]);
        assert_eq!(client.response().status, status, "{target}");
        drop(client);
        site.all_places_are_free(Model::PerCore, target);
    }
}

#[test]
fn a_body_goes_up_no_faster_than_the_app_takes_it() {
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let app = App::start(move |mut peer| {
        if peer.request().is_some() {
            may_go.lock().unwrap().recv().expect("the test says when");
            let body = peer.body();
            peer.respond(format!("Content-Type: text/plain\r\n\r\n{body:?}").as_bytes());
        }
    });
    let server = Site::server(Model::PerCore, &app, ", request_buffering = false");
    let mut client = server.connect();
    let bytes = 64 << 20;
    let request = post("/app/x", &vec![b'a'; bytes]);
    // Until nothing more is taken for a while: then everything between is full.
    let socket = client.socket().try_clone().unwrap();
    socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut sent = 0;
    while let Ok(taken @ 1..) = (&socket).write(&request[sent..]) {
        sent += taken;
    }
    assert!(sent < bytes / 2, "{sent} bytes were taken of an app that reads nothing");
    let mut process = Process::open(server.pid()).unwrap();
    let peak = process.sample().unwrap().memory.peak_rss_bytes;
    assert!(peak < 64 << 20, "{peak} bytes of memory");
    go.send(()).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    client.send(&request[sent..]);
    assert_eq!(client.response().text(), format!("Some({bytes})"));
}

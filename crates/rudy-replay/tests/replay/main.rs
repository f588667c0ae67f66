//! Replays between servers with known differences.

mod server;

use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;
use rudy_replay::source::{Format, Line, Log};
use rudy_replay::{Ended, Kind, Options, Place, Replay, Report, Request, Values};
use rudy_request::{Stop, Url, Waiter};
use server::{Head, Server};

/// What the request line has, and the fields of the request.
fn target(head: &Head) -> &str {
    head[0].split(' ').nth(1).unwrap_or_default()
}

fn has(head: &Head, name: &str) -> bool {
    head.iter().any(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))
}

fn response(status: &str, fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A site with files, a redirect, conditional requests and ranges.
fn site(head: &Head) -> Vec<u8> {
    let fields =
        "Content-Type: text/plain\r\nETag: \"a\"\r\nLast-Modified: Mon, 30 Nov 2026 10:00:00 GMT\r\n";
    match target(head) {
        _ if has(head, "if-none-match") || has(head, "if-modified-since") => response("304 No", fields, ""),
        "/moved" => response("301 Moved", "Location: /a\r\n", ""),
        "/none" => response("404 None", "", "none"),
        _ if has(head, "range") => {
            response("206 Part", &format!("{fields}Content-Range: bytes 0-4/5\r\n"), "hello")
        }
        _ => response("200 OK", fields, "hello"),
    }
}

fn url(server: &Server) -> Url {
    format!("http://{}", server.address()).parse().expect("an address makes a URL")
}

fn options(old: Url, new: Url) -> Options {
    Options {
        old,
        new,
        host: None,
        methods: vec![Method::GET],
        rate: 1e5,
        samples: 10,
        ignored: Vec::new(),
        ignores_error_pages: false,
        values: Values::Masked,
        requests: rudy_request::Options::default(),
    }
}

fn run(options: &Options, targets: &[&str]) -> Result<Report, Ended> {
    let (_stop, stopped) = Stop::new().expect("descriptors");
    let waiter = Waiter::stoppable(stopped);
    let mut replay = Replay::new(options, "access.log", &waiter);
    for (target, number) in targets.iter().zip(1..) {
        replay.send(&Request::get(Place(number), target))?;
    }
    Ok(replay.finish())
}

const TARGETS: &[&str] = &["/a", "/b?secret=1", "/moved", "/none", "/a"];

/// The causes and counts when the new server responds differently.
fn causes(new: impl Fn(&Head) -> Vec<u8> + Send + Sync + 'static) -> Vec<(Kind, String, u64)> {
    let (old, new) = (Server::start(site), Server::start(new));
    let report = run(&options(url(&old), url(&new)), TARGETS).expect("both are reachable");
    assert_eq!(report.requests, 5);
    report.groups.into_iter().map(|group| (group.kind, group.cause, group.count)).collect()
}

/// The response of the site with another text in it.
fn replaced(head: &Head, from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(site(head)).expect("the site is text").replace(from, to).into_bytes()
}

#[test]
fn equal_servers_have_no_difference() {
    let (old, new) = (Server::start(site), Server::start(site));
    let report = run(&options(url(&old), url(&new)), TARGETS).expect("both are reachable");
    assert_eq!((report.requests, report.different, report.sampled), (5, 0, 2), "{report}");
    assert!(report.to_string().contains("5 requests, no difference."), "{report}");
    assert_eq!(report.groups, []);
}

#[test]
fn each_planted_difference_is_found_once() {
    for (from, to, kind, cause, count) in [
        ("404 None", "403 No", Kind::Status, "status: 404 → 403", 1),
        ("Location: /a", "Location: /b", Kind::Redirect, "target of 301", 1),
        ("5\r\n\r\nhello", "5\r\n\r\nhallo", Kind::Body, "body of text/plain", 3),
        ("text/plain", "text/css", Kind::Field, "field content-type: text/plain → text/css", 3),
        ("ETag: \"", "ETag: W/\"", Kind::Field, "field etag: strong → weak", 3),
        ("\r\n\r\nnone", "\r\n\r\nnome", Kind::ErrorPage, "body of 404 responses", 1),
        ("ETag", "Set-Cookie: a=b; Secure\r\nETag", Kind::Cookie, "cookie a: absent → secure", 3),
        ("304 No", "200 OK", Kind::Conditional, "with If-None-Match: status: 304 → 200", 2),
        ("206 Part", "200 OK", Kind::Range, "with Range: status: 206 → 200", 2),
        ("0-4/5", "0-4/6", Kind::Range, "with Range: Content-Range", 2),
    ] {
        let causes = causes(move |head| replaced(head, from, to));
        assert!(causes.contains(&(kind, cause.to_owned(), count)), "{to}: {causes:?}");
        let others = causes.iter().filter(|(_, other, _)| {
            // A range has the body and the status, and both conditions have the status.
            !other.starts_with("with ") && other != cause
        });
        assert_eq!(others.count(), 0, "{to}: {causes:?}");
    }
}

#[test]
fn a_connection_without_a_response_is_a_difference() {
    let found = causes(|head| if target(head) == "/none" { Vec::new() } else { site(head) });
    let [(Kind::Error, cause, 1)] = found.as_slice() else { panic!("{found:?}") };
    assert!(cause.starts_with("no complete response: 404 → error ("), "{cause}");
}

#[test]
fn what_the_old_server_changes_itself_is_not_counted() {
    let count = AtomicU64::new(0);
    let changing =
        move |_: &Head| response("200 OK", "", &format!("request {}", count.fetch_add(1, Ordering::SeqCst)));
    let (old, new) = (Server::start(changing), Server::start(|_| response("200 OK", "", "request x")));
    let mut options = options(url(&old), url(&new));
    options.samples = 0;
    let report = run(&options, TARGETS).expect("both are reachable");
    assert_eq!((report.different, report.unstable), (0, 5), "{report}");
}

#[test]
fn reports_mask_values() {
    let (old, new) = (Server::start(site), Server::start(|_| response("500 Broken", "", "")));
    let options = options(url(&old), url(&new));
    let (_stop, stopped) = Stop::new().expect("descriptors");
    let waiter = Waiter::stoppable(stopped);
    let mut replay = Replay::new(&options, "<log>", &waiter);
    let mut request = Request::get(Place(7), "/b?token=hunter2");
    request.fields.insert("cookie", "session=hunter2".parse().expect("a value"));
    request.fields.insert("authorization", "hunter2".parse().expect("a value"));
    replay.send(&request).expect("both are reachable");
    let report = replay.finish();
    for text in [report.to_string(), report.json().expect("it is JSON"), report.html()] {
        assert!(text.contains("token=***") && !text.contains("hunter2"), "{text}");
    }
    assert!(report.html().contains("&lt;log&gt;:7"), "{}", report.html());
    let curl = format!(
        "curl -sS -i --path-as-is -H 'cookie: ***' -H 'authorization: ***' \
         'http://{}/b?token=***' 'http://{}/b?token=***'",
        old.address(),
        new.address()
    );
    assert_eq!(report.groups[0].curl, curl);
}

#[test]
fn the_host_of_the_log_is_sent_to_both_servers() {
    let echo = |head: &Head| {
        let host = head.iter().find(|line| line.to_ascii_lowercase().starts_with("host:"));
        response("200 OK", "", host.map_or("", |line| line.as_str()))
    };
    let (old, new) = (Server::start(echo), Server::start(echo));
    let line = r#"{"method":"GET","target":"/","host":"example.org","status":200}"#;
    let Ok(Line::Request(request)) = Log::new(Format::Detected).line(line.as_bytes()) else {
        panic!("{line}")
    };
    let mut options = options(url(&old), url(&new));
    for (host, expected) in [(None, "host: example.org"), (Some("other.example"), "host: other.example")] {
        options.host = host.map(str::to_owned);
        let (_stop, stopped) = Stop::new().expect("descriptors");
        let waiter = Waiter::stoppable(stopped);
        let mut replay = Replay::new(&options, "log", &waiter);
        let old =
            replay.send(&request).expect("both are reachable").expect("it is valid").expect("a response");
        assert_eq!(String::from_utf8_lossy(&old.body.bytes).to_ascii_lowercase(), expected);
        assert_eq!(replay.finish().different, 0);
    }
}

#[test]
fn a_server_that_is_not_there_ends_the_replay() {
    let (old, gone) = (Server::start(site), Server::start(site));
    let options = options(url(&old), url(&gone));
    drop(gone);
    let Err(Ended::Unreachable(message)) = run(&options, TARGETS) else { panic!("it is gone") };
    assert!(message.starts_with(&format!("cannot reach {}: ", options.new)), "{message}");
}

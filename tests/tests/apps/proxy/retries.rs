//! Which requests are sent again, and which are not.

use std::sync::atomic::Ordering::SeqCst;

use rudy_tests::prelude::*;

use crate::proxy::choice::named;
use crate::proxy::{proxy, proxy_to_all};

/// Serves one request per connection, and closes idle connections only when told.
fn first_request_then_close() -> Upstream {
    Upstream::start(|peer| {
        // A first connection dies with its second request; all others serve any number.
        let mut served = 0;
        while let Some(request) = peer.request() {
            if peer.number == 1 && served == 1 {
                return;
            }
            served += 1;
            peer.respond(&request.target().replace("/app/", ""));
        }
    })
}

#[test]
fn an_idempotent_request_on_a_connection_that_dies_is_sent_again() {
    for (method, body) in [("GET", ""), ("PUT", "abc"), ("DELETE", "")] {
        let upstream = first_request_then_close();
        let server = proxy(&upstream, "");
        assert_eq!(server.get("/app/a").text(), "a");
        assert_eq!(server.send_body(method, "/app/b", body).text(), "b", "{method}");
        assert_eq!(upstream.accepted(), 2, "{method}");
    }
}

#[test]
fn a_post_after_a_restart_of_the_upstream_gets_a_new_connection() {
    let upstream = Upstream::serve(|peer, _| peer.respond("fine"));
    let server = proxy(&upstream, "");
    assert_eq!(server.get("/app/a").text(), "fine");
    upstream.close_all();
    assert_eq!(server.send_body("POST", "/app/b", "abc").text(), "fine");
    wait_until("a second connection", || upstream.accepted() == 2);
}

#[test]
fn a_request_that_an_upstream_drops_reaches_another_one() {
    let broken = Upstream::start(|peer| drop(peer.request()));
    let sound = Upstream::serve(|peer, request| {
        peer.respond(&format!("{} {}", request.target(), String::from_utf8_lossy(&request.body)));
    });
    let upstreams = format!("\"{broken}\", \"{sound}\"");
    let server = proxy_to_all(&upstreams, "choice = \"round-robin\"");
    assert_eq!(server.send_body("PUT", "/a", "abc").text(), "/a abc");
    assert_eq!(broken.accepted(), 1, "the first upstream got the request too");
    // The broken one gets no new connection for a while.
    assert_eq!(server.get("/b").text(), "/b ");
    assert_eq!(broken.accepted(), 1);
}

#[test]
fn a_post_on_a_connection_that_dies_is_sent_again_only_if_configured() {
    for (more, status, connections) in [("", 502, 1), ("retry_non_idempotent = true\n", 200, 2)] {
        let upstream = first_request_then_close();
        let server = proxy(&upstream, more);
        assert_eq!(server.get("/app/a").text(), "a");
        let response = server.send_body("POST", "/app/b", "abc");
        assert_eq!((response.status, response.text() == "b"), (status, status == 200), "{more}");
        assert_eq!(upstream.accepted(), connections, "{more}");
    }
}

#[test]
fn a_request_for_an_upstream_that_is_down_goes_to_another_one() {
    let down = ReservedPort::new();
    let up = Upstream::serve(|peer, _| peer.respond("fine"));
    let upstreams = format!("\"http://{}\", \"{up}\"", down.address());
    let server = proxy_to_all(&upstreams, "choice = \"round-robin\"");
    assert_eq!(server.send_body("POST", "/a", "abc").text(), "fine");
}

/// Responds with this status line, and counts its requests.
fn unavailable(status: &'static str) -> (Upstream, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let upstream = Upstream::serve(move |peer, _| {
        counted.fetch_add(1, SeqCst);
        peer.send(format!("HTTP/1.1 {status}\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nsorr"));
    });
    (upstream, requests)
}

const STATUSES: &str = "choice = \"round-robin\"\nretry_statuses = [429, 503]\n";

#[test]
fn after_a_chosen_status_another_upstream_gets_the_request_if_it_may_be_sent_twice() {
    for (method, body, more, status) in [
        ("GET", "", "", 200),
        ("PUT", "abc", "", 200),
        ("POST", "abc", "", 503),
        ("POST", "abc", "retry_non_idempotent = true", 200),
        // The body is passed on without a copy.
        ("PUT", "abc", "request_buffering = \"off\"", 503),
    ] {
        let ((sorry, requests), fine) = (unavailable("503 Sorry"), named("fine"));
        let server = proxy_to_all(&format!("\"{sorry}\", \"{fine}\""), &format!("{STATUSES}{more}"));
        let response = server.send_body(method, "/a", body);
        assert_eq!(response.status, status, "{method} {more}");
        let text = if status == 200 { "fine" } else { "sorr" };
        assert_eq!((response.text(), requests.load(SeqCst)), (text, 1), "{method} {more}");
    }
}

#[test]
fn a_connection_is_used_again_after_its_response_was_discarded() {
    let ((sorry, requests), fine) = (unavailable("503 Sorry"), named("fine"));
    let server = proxy_to_all(&format!("\"{sorry}\", \"{fine}\""), STATUSES);
    for _ in 0..4 {
        assert_eq!(server.get("/a").text(), "fine");
    }
    assert_eq!(requests.load(SeqCst), 4);
    assert_eq!((sorry.accepted(), fine.accepted()), (1, 1));
}

#[test]
fn a_connection_is_not_used_again_if_its_upstream_has_not_received_all_of_the_body() {
    let (end, has_ended) = channel::<()>();
    let has_ended = Mutex::new(has_ended);
    let early = Upstream::start(move |peer| {
        peer.head();
        peer.send("HTTP/1.1 503 Sorry\r\nContent-Length: 0\r\n\r\n");
        // Reads nothing of the body, and leaves the connection open.
        let _ = has_ended.lock().map(|has_ended| has_ended.recv());
    });
    let fine = named("fine");
    let keys = format!("{STATUSES}request_buffering = \"full\"");
    let server = proxy_to_all(&format!("\"{early}\", \"{fine}\""), &keys);
    let body = "x".repeat(16 << 20);
    for _ in 0..2 {
        assert_eq!(server.send_body("PUT", "/a", &body).text(), "fine");
    }
    assert_eq!(early.accepted(), 2);
    drop(end);
}

#[test]
fn the_last_response_is_passed_on_after_each_upstream_has_got_the_request_once() {
    let [(first, of_first), (second, of_second), (backup, of_backup)] =
        ["503 First", "429 Second", "503 Backup"].map(unavailable);
    let upstreams = format!("{{ url = \"{backup}\", backup = true }}, \"{first}\", \"{second}\"");
    let server = proxy_to_all(&upstreams, STATUSES);
    let response = server.get("/a");
    assert_eq!((response.status, response.text(), response.field("retry-after")), (503, "sorr", Some("7")));
    assert_eq!([of_first, of_second, of_backup].map(|requests| requests.load(SeqCst)), [1, 1, 1]);
    assert_eq!(response.field("proxy-status"), None);
}

#[test]
fn a_status_that_is_not_chosen_is_passed_on() {
    let ((sorry, _), fine) = (unavailable("502 Sorry"), named("fine"));
    let server = proxy_to_all(&format!("\"{sorry}\", \"{fine}\""), STATUSES);
    assert_eq!([(); 2].map(|()| server.get("/a").status), [502, 200]);
}

#[test]
fn check_names_settings_that_need_another_upstream() {
    for (table, expected) in [
        ("upstreams = \"http://a.test\"\nretry_statuses = 503", "has no effect with a single upstream"),
        ("upstreams = [{ url = \"http://127.0.0.1:1\", backup = true }]", "all upstreams are backups"),
        (
            "upstreams = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]\nretry_statuses = 304",
            "expected 400 to 599",
        ),
        (
            "upstreams = [\"http://127.0.0.1:1\", { url = \"http://127.0.0.1:2\", weight = 2, backup = true }]",
            "http://127.0.0.1:1 http://127.0.0.1:2 (weight 2, backup)",
        ),
    ] {
        let site = "listen = \":0\"\n[[site]]\n[[site.route]]\npath = \"/*\"\n[site.route.proxy]\n";
        let text = Rudy::check(&format!("{site}{table}\n")).text();
        assert!(text.contains(expected), "{table}: {text}");
    }
}

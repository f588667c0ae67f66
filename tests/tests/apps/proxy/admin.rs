//! `rudy upstreams`.

use rudy_tests::prelude::*;

use crate::proxy::choice::named;
use crate::proxy::{assert_error, proxy_to_all};

pub(crate) fn upstreams(server: &Server, arguments: &[&str]) -> Output {
    server.rudy(&[&["upstreams"], arguments].concat())
}

/// The value of a key of each upstream.
pub(crate) fn json(server: &Server, key: &str) -> Vec<Value> {
    let json = upstreams(server, &["--json"]).with_code(0).json();
    json["upstreams"].as_array().expect("a list").iter().map(|upstream| upstream[key].clone()).collect()
}

#[test]
fn a_drained_upstream_finishes_its_requests_and_gets_no_new_ones() {
    let (begun, has_begun) = channel();
    let (release, may_respond) = channel();
    let (begun, may_respond) = (Mutex::new(begun), Mutex::new(may_respond));
    let slow = Upstream::serve(move |peer, _| {
        begun.lock().expect("no test fails").send(()).expect("the test waits");
        may_respond.lock().expect("no test fails").recv().expect("the test continues");
        peer.respond("slow");
    });
    let other = named("other");
    let list = format!("\"{slow}\", \"{other}\"");
    let mut server = proxy_to_all(&list, "choice = \"round-robin\"");
    let mut first = server.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    has_begun.recv().expect("the upstream gets the first request");
    let drained = upstreams(&server, &["drain", &slow.address().to_string()]).with_code(0);
    assert_contains!(drained.text(), "draining");
    server.wait_for_line("is drained: it finishes its requests and gets no new ones");
    assert_eq!(json(&server, "state"), ["draining", "up"]);
    assert_eq!(json(&server, "active"), [1, 0]);
    assert!((0..4).all(|_| server.get("/a").text() == "other"));
    // A reload with another setting of the route has a new pool.
    let change = |text: String| text.replace("\"round-robin\"", "\"least-busy\"");
    server.reload_changed(change, "the configuration was reloaded");
    assert!((0..4).all(|_| server.get("/a").text() == "other"));
    assert_eq!(json(&server, "state"), ["draining", "drained", "up"], "the first one is of the old pool");
    release.send(()).expect("the upstream waits");
    assert_eq!(first.response().text(), "slow");
    wait_until("the old pool is gone", || json(&server, "state") == ["drained", "up"]);
    // The last upstream: requests fail at once.
    upstreams(&server, &["drain", &other.url()]).with_code(0);
    assert_error(&server.get("/a"), 503, "destination_unavailable");
    for url in [slow.url(), other.url()] {
        upstreams(&server, &["up", &url]).with_code(0);
    }
    assert_eq!(json(&server, "state"), ["up", "up"]);
    release.send(()).expect("the upstream exists");
    wait_until("the upstream gets requests", || server.get("/a").text() == "slow");
    let unknown = upstreams(&server, &["drain", "http://nowhere"]).with_code(1);
    assert_contains!(unknown.text(), "no upstream is named \"http://nowhere\"");
}

#[test]
fn the_state_of_each_upstream_is_shown_and_outlives_a_reload_of_other_routes() {
    let broken = Upstream::start(|peer| drop(peer.request()));
    let sound = named("fine");
    let list = format!("\"{broken}\", \"{sound}\"");
    let ejection = "ejection = { duration = \"1h\", duration_max = \"1h\" }\nchoice = \"round-robin\"";
    let mut server = proxy_to_all(&list, ejection);
    assert_eq!(server.get("/a").text(), "fine");
    server.wait_for_line(&format!("{broken} is ejected and gets no requests: "));
    let text = upstreams(&server, &[]).text();
    let state = "ejected for ";
    assert!(text.contains(&broken.url()) && text.contains(state) && text.contains("\n/*\n"), "{text}");
    let more = "[[site]]\nhosts = [\"b.test\"]\n[[site.route]]\npath = \"/*\"\nrespond = 204\n";
    server.reload_changed(|text| text + more, "the configuration was reloaded");
    assert_eq!(json(&server, "state"), ["ejected", "up"]);
    assert_eq!(json(&server, "failures"), [1, 0]);
    assert!((0..4).all(|_| server.get("/a").text() == "fine"));
    assert_eq!(broken.accepted(), 1);
    assert!(json(&server, "latency_us")[1].is_number());
}

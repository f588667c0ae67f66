//! Which requests are sent again, and which are not.

use rudy_tests::prelude::*;

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

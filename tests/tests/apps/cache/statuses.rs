//! Interim responses and 304 of the origin.

use rudy_tests::prelude::*;

use crate::cache::{Origin, begin, get, handled, hit, message, server};

/// Sends a request until its response is stored.
fn store(server: &Server, fields: &[&str]) {
    let stored = [fields, &["Cache-Control: only-if-cached, max-stale"]].concat();
    assert_eq!(get(server, "/a", fields).status, 200);
    wait_until("it is stored", || get(server, "/a", &stored).status == 200);
}

#[test]
fn interim_responses_pass_the_cache() {
    let upstream = Upstream::serve(|peer, _| {
        peer.send("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        peer.send(message("Cache-Control: max-age=60|fine"));
    });
    let server = server(&upstream, "true");
    let mut connection = begin(&server, "/a", &[]);
    assert_eq!(connection.next_response().status, 102);
    let hints = connection.next_response();
    assert_eq!((hints.status, hints.field("link")), (103, Some("</a>")));
    assert_eq!(connection.next_response().text(), "fine");
    hit(&server, "/a", &[]);
}

#[test]
fn a_304_to_a_request_without_conditions_is_an_error() {
    let origin = Origin::start(|request, number| match (request.target(), number) {
        ("/a", 1) => "Cache-Control: max-age=0\nETag: \"a\"|body".to_owned(),
        _ => "304 ETag: \"b\"|".to_owned(),
    });
    let mut server = server(&origin.upstream, "true");
    store(&server, &[]);
    for (target, fields) in [
        ("/b", &[][..]),
        // The cache requests the whole, to store it.
        ("/b", &["If-None-Match: \"b\""]),
        ("/b", &["Range: bytes=0-1"]),
        // It is about another version, so the request is sent again without conditions.
        ("/a", &[]),
    ] {
        assert_eq!(get(&server, target, fields).status, 502, "{target} {fields:?}");
    }
    server.wait_for_line("the upstream has sent 304 to a request without conditions: GET http://a.example/b");
}

#[test]
fn a_304_with_vary_keeps_the_keys_of_the_settings() {
    let origin = Origin::start(|request, _| {
        if request.field("if-none-match").is_some() {
            return "304 ETag: \"a\"\nCache-Control: max-age=60\nVary: X-Other|".to_owned();
        }
        let language = request.field("x-language").unwrap_or_default();
        format!("ETag: \"a\"\nCache-Control: max-age=0\nVary: X-Other|{language}")
    });
    let server = server(&origin.upstream, "{ key_headers = 'X-Language' }");
    let german = ["X-Language: de"];
    store(&server, &german);
    assert_eq!(handled(&get(&server, "/a", &german)), "stale");
    let updated = get(&server, "/a", &german);
    assert_eq!((handled(&updated).as_str(), updated.text()), ("hit", "de"));
    assert_eq!(get(&server, "/a", &["X-Language: fr"]).text(), "fr");
}

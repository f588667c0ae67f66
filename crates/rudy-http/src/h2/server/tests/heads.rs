//! Heads of requests (RFC 9113 §8.2, §8.3). The tests of `head` have more cases.

use rudy_message::Rejection;

use super::*;

fn events_of(fields: &[(&str, &str)]) -> Vec<String> {
    let (events, sent, error) = outcome(&headers(1, fields));
    assert_eq!(error, None);
    let is_malformed = events == ["1 failed PROTOCOL_ERROR"];
    assert_eq!(sent == ["1 RST_STREAM PROTOCOL_ERROR"], is_malformed);
    events
}

fn get_with(fields: &[(&str, &str)]) -> Vec<String> {
    events_of(&[&GET[..], fields].concat())
}

/// §8.1.1: a malformed request is an error of the stream.
#[test]
fn a_malformed_request_resets_its_stream() {
    for fields in [
        &GET[1..],
        &[],
        &[("a", "b")],
        &[&GET[..], &[(":status", "200")]].concat(),
        &[&[(":status", "101")], &GET[..]].concat(),
        &[&GET[..], &[("connection", "close")]].concat(),
        &[&GET[..], &[("a", "b"), (":path", "/")]].concat(),
        &[&[(":protocol", "websocket")], &GET[..]].concat(),
    ] {
        assert_eq!(events_of(fields), ["1 failed PROTOCOL_ERROR"], "{fields:?}");
    }
}

/// §8.3.1: what is well formed, but not acceptable.
#[test]
fn a_request_that_http_1_rejects_is_rejected() {
    let with_authority = |authority| events_of(&[&GET[..3], &[(":authority", authority)]].concat());
    assert_eq!(with_authority("user@a"), ["1 rejected 400 Bad Request"]);
    assert_eq!(with_authority("a/b"), ["1 rejected 400 Bad Request"]);
    assert_eq!(events_of(&GET[..3]), ["1 rejected 400 Bad Request"], "neither :authority nor Host");
    assert_eq!(events_of(&[&GET[..3], &[("host", "b")]].concat()), ["1 GET b /x?y Known(0)"]);
    let twice = [&GET[..3], &[("host", "a"), ("host", "a")]].concat();
    assert_eq!(events_of(&twice), ["1 rejected 400 Bad Request"]);
    assert_eq!(get_with(&[("expect", "200-ok")]), ["1 rejected 417 Expectation Failed"]);
    let connect = [(":method", "CONNECT"), (":authority", "a:1")];
    assert_eq!(events_of(&connect), ["1 rejected 405 Method Not Allowed"]);
    let long = format!("/{}", "a".repeat(9000));
    let path = [(":method", "GET"), (":scheme", "http"), (":path", &long), (":authority", "a")];
    assert_eq!(events_of(&path), ["1 rejected 414 URI Too Long"]);
}

/// §8.2.3.
#[test]
fn cookie_crumbs_are_one_field() {
    let mut client = Client::new();
    let crumbs = headers(1, &[&GET[..], &[("cookie", "a=1"), ("cookie", "b=2")]].concat());
    let mut buffers = HeadBuffers::default();
    let event = client.connection.receive(
        &mut &crumbs[..],
        &mut buffers,
        client.now,
        &client.limits,
        &mut client.out,
    );
    let Ok(Some(Event::Request { head, .. })) = event else { panic!() };
    assert_eq!(head.into_request().headers()["cookie"], "a=1; b=2");
}

/// §6.5.2 and RFC 6585 §5.
#[test]
fn a_head_larger_than_the_limit_is_rejected_and_the_connection_goes_on() {
    let large = "a".repeat(16_000);
    let mut client = Client::new();
    let events = client.send(&headers(1, &[&GET[..], &[("x", &large)]].concat()));
    assert_eq!(events, ["1 GET a /x?y Known(0)"]);
    let events = client.send(&headers(3, &[&GET[..], &[("x", &large), ("y", &large[..500])]].concat()));
    assert_eq!(events, ["3 rejected 431 Request Header Fields Too Large"]);
    let many = [&GET[..], &[("x", "y"); 100]].concat();
    assert_eq!(client.send(&headers(5, &many)), ["5 rejected 431 Request Header Fields Too Large"]);
    assert_eq!(client.send(&get(7)), ["7 GET a /x?y Known(0)"]);
}

/// The response to HEAD has no body, whatever the head before it was.
#[test]
fn the_method_of_a_head_that_is_too_large_is_known() {
    let mut client = Client::with(Limits { head_bytes: 500, ..Limits::default() }, &[]);
    let large = "a".repeat(500);
    for (stream, method, before) in [(1, "GET", "HEAD"), (5, "HEAD", "GET")] {
        let before = [&[(":method", before)], &GET[1..]].concat();
        client.send(&headers(stream, &before));
        client.respond(stream, b"");
        client.sent();
        let request = [&[(":method", method)], &GET[1..], &[("x", &large)]].concat();
        let events = client.send(&headers(stream + 2, &request));
        assert_eq!(events, [format!("{} rejected 431 Request Header Fields Too Large", stream + 2)]);
        client.connection.reject(stream + 2, Rejection::HeadTooLarge, (&date(), client.now), &mut client.out);
        let sent = client.sent();
        assert_eq!(
            (sent.len(), sent[0].ends_with(" end")),
            if method == "HEAD" { (1, true) } else { (2, false) }
        );
    }
}

/// Other requests are not affected, if the block is at most twice as large.
#[test]
fn a_head_that_continues_beyond_the_limit_is_rejected() {
    let mut client = Client::new();
    let block = [&block(&GET)[..], &b"\0\x01a\x01b".repeat(5900)].concat();
    let (first, rest) = block.split_at(16_000);
    let frames = [
        frame(kind::HEADERS, flag::END_STREAM, 1, first),
        frame(kind::CONTINUATION, flag::END_HEADERS, 1, rest),
        get(3),
    ];
    let events = client.send(&frames.concat());
    assert_eq!(events, ["1 rejected 431 Request Header Fields Too Large", "3 GET a /x?y Known(0)"]);
}

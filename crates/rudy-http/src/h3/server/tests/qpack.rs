//! Requests that use the dynamic table.

use super::*;
use crate::h3::core::BLOCKED_STREAMS;

/// Sets the capacity, and inserts `:authority: b` and `x: y`.
const INSTRUCTIONS: &[u8] = b"\x3f\xe1\x1f\xc0\x01b\x41x\x01y";

/// The head of a GET request that needs these entries: its Required Insert Count is 2, as is its Base.
fn get_with_table() -> Vec<u8> {
    let mut section = section(&GET[..3]);
    section[0] = 3;
    section.extend(b"\x81\x80");
    frame(kind::HEADERS, &section)
}

const REQUEST: &str = "0 GET b /x?y Known(0)";

fn decoder_output(client: &mut Client) -> Vec<u8> {
    client.connection.output(Own::Decoder).split().to_vec()
}

#[test]
fn a_request_refers_to_entries() {
    let head = get_with_table();
    lead_to(&[(ENCODER, INSTRUCTIONS, false), (0, &head, true)], &[REQUEST]);
    let mut client = Client::new();
    client.send(ENCODER, INSTRUCTIONS);
    assert_eq!(decoder_output(&mut client), [3, 2], "the stream begins, and two entries");
    client.end(0, &head);
    assert_eq!(decoder_output(&mut client), [0x80], "an acknowledgement of stream 0");
    client.end(4, &get());
    assert_eq!(decoder_output(&mut client), [0u8; 0], "it needs no entries");
}

/// Packets of streams can arrive in any order.
#[test]
fn a_request_waits_for_its_entries() {
    let post = |body: &[Vec<u8>]| {
        let mut section = section(&[&[(":method", "POST")], &GET[1..3]].concat());
        section[0] = 3;
        section.extend(b"\x81\x80");
        [&[frame(kind::HEADERS, &section)], body].concat().concat()
    };
    let body = post(&[data(b"ab"), data(b"c"), headers(&[("t", "1")])]);
    let events = ["0 POST b /x?y Chunked", "0 \"abc\"", "0 end {\"t\": \"1\"}"];
    lead_to(&[(0, &body, true), (ENCODER, INSTRUCTIONS, false)], &events);
    lead_to(&[(0, &body, false), (ENCODER, INSTRUCTIONS, false), (0, b"", true)], &events);
    lead_to(&[(0, &body, false), (0, b"", true), (ENCODER, INSTRUCTIONS, false)], &events);
    let head = get_with_table();
    let others = [(4, &get()[..], true), (0, &head, true), (ENCODER, INSTRUCTIONS, false)];
    lead_to(&others, &["4 GET a /x?y Known(0)", REQUEST]);
    end_connection(&[(0, &head[..9], true), (ENCODER, INSTRUCTIONS, false)], ErrorCode::FRAME_ERROR);
    let cut_off = [&head[..], &data(b"abc")[..3]].concat();
    end_connection(&[(0, &cut_off, true), (ENCODER, INSTRUCTIONS, false)], ErrorCode::FRAME_ERROR);
}

#[test]
fn trailers_wait_for_their_entries() {
    let trailers = frame(kind::HEADERS, b"\x03\0\x80");
    let request = [post(&[]), data(b"ab"), trailers].concat();
    let (mut client, head) = (Client::new(), "0 POST a /x?y Chunked");
    assert_eq!(client.end(0, &request), [head, "0 \"ab\""]);
    assert!(client.connection.is_blocked(0) && !client.connection.is_blocked(4));
    assert_eq!(client.send(ENCODER, &INSTRUCTIONS[..6]), [""; 0]);
    assert!(client.connection.is_blocked(0));
    assert_eq!(client.send(ENCODER, &INSTRUCTIONS[6..]), ["0 end {\"x\": \"y\"}"]);
    assert!(!client.connection.is_blocked(0));
    assert_eq!(decoder_output(&mut client), [3, 1, 1, 0x80]);
}

/// RFC 9204 §2.1.2.
#[test]
fn blocked_streams_are_limited() {
    let mut client = Client::new();
    for number in 0..u64::from(BLOCKED_STREAMS) {
        client.send(4 * number, &get_with_table());
    }
    let next = 4 * u64::from(BLOCKED_STREAMS);
    assert_eq!(client.error(next, &get_with_table()), ErrorCode::QPACK_DECOMPRESSION_FAILED);
}

#[test]
fn what_waits_for_entries_is_limited() {
    let mut client = Client::new();
    client.send(0, &get_with_table());
    let most = 8 * client.limits.head_bytes;
    let error = (0..).find_map(|_| {
        let body = client.try_send(0, &[0; 1000], false);
        assert!(client.connection.core.heap_bytes() <= 2 * most + 10_000);
        body.err()
    });
    assert_eq!(error.map(|error| error.code), Some(ErrorCode::EXCESSIVE_LOAD));
}

#[test]
fn a_blocked_request_expires_like_another() {
    let mut client = Client::new();
    client.send(0, &get_with_table());
    client.now += client.limits.head_timeout;
    let (now, limits) = (client.now, client.limits.clone());
    assert_eq!(client.connection.deadline(&limits), Some(now));
    client.connection.expire(now, &limits);
    assert_eq!(client.ends(), [(0, StreamEnd::Reset(ErrorCode::REQUEST_REJECTED))]);
    assert_eq!(client.send(ENCODER, INSTRUCTIONS), [""; 0]);
}

/// RFC 9204 §2.2.2.2.
#[test]
fn the_end_of_a_stream_without_its_sections_is_a_cancellation() {
    let cancelled = |act: &mut dyn FnMut(&mut Client)| {
        let mut client = Client::new();
        client.send(ENCODER, INSTRUCTIONS);
        decoder_output(&mut client);
        act(&mut client);
        decoder_output(&mut client)
    };
    assert_eq!(cancelled(&mut |client| drop((client.send(0, &get()[..5]), client.cancel(0)))), [0x40]);
    assert_eq!(cancelled(&mut |client| drop((client.end(0, &get()), client.respond(0, b"")))), [0u8; 0]);
    assert_eq!(cancelled(&mut |client| drop((client.send(4, &post(&[])), client.respond(4, b"")))), [0x44]);
    let refuse = &mut |client: &mut Client| {
        client.connection.stop_accepting();
        client.end(0, &get());
    };
    assert_eq!(cancelled(refuse), [0x40]);
    let mut client = Client::new();
    client.send(0, &get()[..5]);
    client.cancel(0);
    assert_eq!(decoder_output(&mut client), [0u8; 0], "nothing was ever inserted");
}

#[test]
fn the_decoder_stream_must_be_read() {
    let mut client = Client::new();
    client.send(ENCODER, INSTRUCTIONS);
    let error = (0..).find_map(|number| {
        let error = client.try_send(4 * number, &get_with_table(), true).err();
        client.respond(4 * number, b"");
        assert!(client.connection.output(Own::Decoder).len() < 20_000);
        error
    });
    assert_eq!(error.map(|error| error.code), Some(ErrorCode::EXCESSIVE_LOAD));
}

/// An encoder that inserts several fields of each request is not limited.
#[test]
fn many_insertions_with_requests_are_allowed() {
    let mut client = Client::new();
    client.send(ENCODER, b"\x3f\xe1\x1f");
    for number in 0..2000 {
        client.send(ENCODER, &b"\x41x\x01y".repeat(20));
        client.end(4 * number, &get());
        client.respond(4 * number, b"");
        client.ends();
    }
}

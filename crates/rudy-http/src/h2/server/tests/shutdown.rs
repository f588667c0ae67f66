//! The end of a connection (RFC 9113 §6.8), and its timeouts.

use std::time::Duration;

use super::*;

const SHUTDOWN_ACK: &[u8; 8] = b"rudy end";

fn finally_shut_down(client: &mut Client) {
    client.connection.shut_down(&mut client.out);
    client.send(&frame(kind::PING, flag::ACK, 0, SHUTDOWN_ACK));
    client.sent();
}

#[test]
fn a_connection_ends_after_the_requests_in_transit() {
    let mut client = Client::new();
    client.send(&get(1));
    client.connection.shut_down(&mut client.out);
    client.connection.shut_down(&mut client.out);
    assert!(client.connection.is_shutting_down());
    assert_eq!(client.sent(), ["GOAWAY 2147483647 NO_ERROR", "PING rudy end"]);
    assert_eq!(client.send(&get(3)), ["3 GET a /x?y Known(0)"]);
    client.send(&frame(kind::PING, flag::ACK, 0, SHUTDOWN_ACK));
    assert_eq!(client.sent(), ["GOAWAY 3 NO_ERROR"]);
    assert_eq!(client.send(&get(5)), [""; 0]);
    for stream in [1, 3] {
        assert!(!client.connection.is_over());
        client.reset(stream, ErrorCode::CANCEL);
    }
    assert!(client.connection.is_over());
}

#[test]
fn a_client_that_does_not_acknowledge_the_announcement_is_not_awaited() {
    let mut client = Client::new();
    client.send(&get(1));
    client.connection.shut_down(&mut client.out);
    client.sent();
    client.connection.stop_accepting(&mut client.out);
    client.connection.stop_accepting(&mut client.out);
    assert_eq!(client.sent(), ["GOAWAY 1 NO_ERROR"]);
    client.send(&frame(kind::PING, flag::ACK, 0, SHUTDOWN_ACK));
    assert_eq!(client.sent(), [""; 0]);
    client.respond(1, b"");
    assert!(client.connection.is_over());
}

/// §6.8: also their bodies, which count for the window of the connection.
#[test]
fn streams_after_the_last_one_are_ignored() {
    let mut client = Client::new();
    client.send(&post(1, &[]));
    finally_shut_down(&mut client);
    let late = [
        post(3, &[]),
        data(3, b"abc"),
        window_update(3, 10),
        priority(3, 3),
        headers(3, &[("a", "b")]),
        get(5),
        reset_frame(3, ErrorCode::CANCEL),
        reset_frame(5, ErrorCode::CANCEL),
        // The stream of before goes on.
        last_data(1, b"x"),
    ];
    assert_eq!(client.send(&late.concat()), ["1 \"x\"", "1 end"]);
    assert_eq!(client.sent(), ["PING rudy bdp"]);
    client.respond(1, b"");
    assert!(client.connection.is_over());
    assert_eq!(client.error(&get(6)), ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn a_complete_response_to_an_unfinished_request_is_marked_complete() {
    let mut client = Client::new();
    client.send(&post(1, &[]));
    finally_shut_down(&mut client);
    client.respond(1, b"");
    client.sent();
    assert!(!client.connection.is_over());
    client.connection.expire(client.now, &client.limits, &mut client.out);
    assert_eq!(client.sent(), ["1 RST_STREAM NO_ERROR"]);
    assert!(client.connection.is_over());
}

#[test]
fn the_windows_return_the_bytes_of_ignored_streams() {
    let mut client = Client::new();
    client.send(&get(1));
    finally_shut_down(&mut client);
    client.send(&post(3, &[]));
    for _ in 0..200 {
        client.send(&data(3, &[0; 16_384]));
    }
}

#[test]
fn ignored_streams_are_limited() {
    let mut client = Client::new();
    client.send(&get(1));
    finally_shut_down(&mut client);
    let error = (0..).find_map(|number| client.try_send(&get(2 * number + 3)).err());
    assert_eq!(error.unwrap().code, ErrorCode::ENHANCE_YOUR_CALM);
}

/// §6.8: a client that has sent GOAWAY receives its responses.
#[test]
fn a_goaway_of_the_client_does_not_end_its_streams() {
    let input = [get(1), frame(kind::GOAWAY, 0, 0, &[0; 12]), get(3)].concat();
    leads_to(&input, &["1 GET a /x?y Known(0)", "3 GET a /x?y Known(0)"], &[]);
}

/// §5.4.1: GOAWAY has the last stream that may have been processed.
#[test]
fn an_error_is_sent_with_the_last_stream() {
    let mut client = Client::new();
    client.send(&[get(1), get(3)].concat());
    let error = client.try_send(&data(9, b"a")).unwrap_err();
    client.connection.fail(error, &mut client.out);
    assert_eq!(client.sent(), ["GOAWAY 3 PROTOCOL_ERROR"]);
    assert!(error.to_string().contains("PROTOCOL_ERROR"));
}

#[test]
fn an_idle_connection_has_a_deadline() {
    let mut client = Client::new();
    let limits = client.limits.clone();
    let after = |client: &Client| client.connection.deadline(&limits).map(|at| at - client.now);
    let deadline = client.connection.deadline(&limits);
    assert_eq!(after(&client), Some(limits.first_request_timeout));
    client.now += Duration::from_secs(3);
    client.send(&frame(kind::PING, 0, 0, &[0; 8]));
    assert_eq!(client.connection.deadline(&limits), deadline);
    client.send(&get(1));
    assert_eq!(after(&client), None, "a stream is open");
    client.now += Duration::from_secs(100);
    client.respond(1, b"");
    assert_eq!(after(&client), Some(limits.idle_timeout));
}

/// The deadline for a head begins with its first byte, also beside other streams.
#[test]
fn an_incomplete_frame_or_header_block_has_a_deadline() {
    let mut client = Client::new();
    client.send(&get(1));
    let start = client.now;
    let deadline = |client: &Client| client.connection.deadline(&client.limits);
    let timeout = client.limits.head_timeout;
    for bytes in [&frame(kind::HEADERS, 0, 3, &[0x82])[..], &frame(kind::CONTINUATION, 0, 3, &[]), b"\0"] {
        client.send(bytes);
        assert_eq!(deadline(&client), Some(start + timeout));
        client.now += Duration::from_secs(1);
    }
    let mut client = Client::new();
    client.send(&get(1));
    let second = Duration::from_secs(1);
    let ping = frame(kind::PING, 0, 0, &[0; 8]);
    client.send(&ping[..5]);
    client.now += second;
    // Each frame has its own deadline, although one is incomplete after each read.
    client.send(&[&ping[5..], &ping[..5]].concat());
    assert_eq!(deadline(&client), Some(client.now + timeout));
    client.send(&ping[5..]);
    assert_eq!(deadline(&client), None);
}

/// Otherwise, a client could hold an idle connection with frames that arrive in two parts.
#[test]
fn an_incomplete_frame_does_not_extend_the_idle_timeout() {
    let mut client = Client::new();
    client.send(&get(1));
    client.respond(1, b"");
    let deadline = client.connection.deadline(&client.limits);
    let ping = frame(kind::PING, 0, 0, &[0; 8]);
    for part in [&ping[..1], &ping[1..], &ping[..10], &ping[10..]] {
        client.now += Duration::from_secs(20);
        client.send(part);
    }
    assert_eq!(client.connection.deadline(&client.limits), deadline);
}

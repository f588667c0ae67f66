//! Flow control (RFC 9113 §5.2, §6.9).

use super::*;

const FLOW: ErrorCode = ErrorCode::FLOW_CONTROL_ERROR;
const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;

fn client_with_window(bytes: u32) -> Client {
    let mut client = Client::with(Limits::default(), &[(4, bytes)]);
    client.send(&get(1));
    client.begin(1, 200, None);
    client.sent();
    client
}

/// §6.9.
#[test]
fn an_increment_of_zero_is_an_error() {
    ends_connection(&window_update(0, 0), PROTOCOL);
    ends_connection(&window_update(0, 0x8000_0000), PROTOCOL);
    let events = ["1 GET a /x?y Known(0)", "1 failed PROTOCOL_ERROR"];
    leads_to(&[get(1), window_update(1, 0)].concat(), &events, &["1 RST_STREAM PROTOCOL_ERROR"]);
}

/// §6.9.1.
#[test]
fn a_window_that_overflows_is_an_error() {
    ends_connection(&window_update(0, 0x7fff_ffff), FLOW);
    ends_connection(&window_update(0, 0x7fff_ffff - 65_535 + 1), FLOW);
    let most = 0x7fff_ffff - 65_535;
    leads_to(&window_update(0, most), &[], &[]);
    ends_connection(&[window_update(0, most), window_update(0, 1)].concat(), FLOW);
    leads_to(&[get(1), window_update(1, most)].concat(), &["1 GET a /x?y Known(0)"], &[]);
    leads_to(
        &[get(1), window_update(1, most), window_update(1, 1)].concat(),
        &["1 GET a /x?y Known(0)", "1 failed FLOW_CONTROL_ERROR"],
        &["1 RST_STREAM FLOW_CONTROL_ERROR"],
    );
}

/// §6.9.2.
#[test]
fn a_setting_that_makes_a_window_overflow_ends_the_connection() {
    ends_connection(&settings_frame(&[(4, 0x8000_0000)]), FLOW);
    let input = [get(1), window_update(1, 1), settings_frame(&[(4, 0x7fff_ffff)])].concat();
    ends_connection(&input, FLOW);
    // Only the last value counts, and the window of the connection does not change.
    leads_to(
        &[get(1), window_update(1, 1), settings_frame(&[(4, 0x7fff_ffff), (4, 0x7fff_fffe)])].concat(),
        &["1 GET a /x?y Known(0)"],
        &["SETTINGS ack"],
    );
}

/// §6.9.1.
#[test]
fn a_body_is_sent_as_far_as_both_windows_are_open() {
    let mut client = client_with_window(10);
    assert_eq!(client.connection.window(1), 10);
    assert_eq!(client.send_body(1, 100), 10);
    assert_eq!(client.connection.begin_data(1, 5, &mut client.out), Ok(0), "the window is closed");
    assert_eq!(client.sent(), ["1 DATA 10"]);
    client.send(&window_update(1, 100_000));
    assert_eq!(client.send_body(1, 200_000), 65_525, "the rest of the window of the connection");
    client.send(&window_update(0, 1));
    assert_eq!(client.send_body(1, 200_000), 1);
    client.sent();
    // A frame that ends the stream has no data, so that it needs no window.
    client.connection.finish(1, None, &mut client.out).unwrap();
    assert_eq!(client.sent(), ["1 DATA 0 end"]);
}

/// §6.9.2.
#[test]
fn a_smaller_setting_makes_a_window_negative() {
    let mut client = client_with_window(100);
    client.send(&get(3));
    client.begin(3, 200, None);
    assert_eq!(client.send_body(1, 60), 60);
    client.send(&settings_frame(&[(4, 10)]));
    assert_eq!((client.connection.window(1), client.connection.window(3)), (0, 10));
    client.send(&window_update(1, 50));
    assert_eq!((client.connection.window(1), client.send_body(1, 1)), (0, 0));
    client.send(&window_update(1, 1));
    assert_eq!(client.send_body(1, 100), 1);
    client.send(&settings_frame(&[(4, 0)]));
    client.send(&settings_frame(&[(4, 30)]));
    assert_eq!((client.connection.window(1), client.send_body(1, 100)), (20, 20));
    assert_eq!(client.connection.window(3), 30);
    client.send(&get(5));
    assert_eq!(client.connection.window(5), 30);
    assert_eq!(client.connection.window(7), 0, "no stream");
}

/// §6.9.1.
#[test]
fn data_beyond_the_window_of_a_stream_resets_it() {
    let mut client = Client::new();
    client.send(&post(1, &[]));
    for _ in 0..3 {
        client.send(&data(1, &[0; 16_384]));
    }
    client.sent();
    assert_eq!(client.send(&data(1, &[0; 16_384]))[0], "1 failed FLOW_CONTROL_ERROR");
    // What was dropped does not use up the window of the connection.
    assert_eq!(client.sent(), ["1 RST_STREAM FLOW_CONTROL_ERROR"]);
    client.connection.pass_on(1, 3 * 16_384, &mut client.out);
    for stream in (3..).step_by(2).take(100) {
        client.send(&post(stream, &[]));
        client.send(&data(stream, &[0; 16_384]));
        client.connection.pass_on(stream, 16_384, &mut client.out);
        client.connection.close(stream, client.now);
    }
}

/// §6.9.1.
#[test]
fn data_beyond_the_window_of_the_connection_ends_it() {
    let mut limits = Limits::default();
    limits.http2.connection_window_bytes = 65_535;
    let mut client = Client::with(limits, &[]);
    for stream in [1, 3, 5, 7] {
        client.send(&post(stream, &[]));
    }
    for stream in [1, 3, 5] {
        client.send(&data(stream, &[0; 16_384]));
    }
    client.send(&data(7, &[0; 16_383]));
    assert_eq!(client.error(&data(7, b"a")), FLOW);
}

/// §6.9.1: also for streams that are closed or were reset.
#[test]
fn data_of_closed_streams_counts_for_the_connection_and_is_returned() {
    let mut client = Client::new();
    client.send(&post(1, &[]));
    client.reset(1, ErrorCode::CANCEL);
    client.sent();
    let mut opened = 0;
    // The same with padding, whose length counts too.
    let padded = frame(kind::DATA, flag::PADDED, 1, &[&[200][..], &[0; 16_383]].concat());
    for number in 0..1000 {
        let frame = if number % 2 == 0 { &data(1, &[0; 16_384]) } else { &padded };
        assert_eq!(client.send(frame), [""; 0]);
        for frame in client.sent() {
            if let Some(increment) = frame.strip_prefix("0 WINDOW_UPDATE ") {
                opened += increment.parse::<u32>().unwrap();
            }
        }
    }
    assert!(opened > 1000 * 16_384 - (1 << 20), "{opened}");
}

/// §6.1: padding and its length count.
#[test]
fn padding_uses_the_windows_and_is_returned_at_once() {
    let mut client = Client::new();
    client.send(&post(1, &[]));
    let padded = [&[255][..], &[b'a'; 10], &[0; 255]].concat();
    let (mut opened, mut received) = (0, 0);
    for _ in 0..1000 {
        assert_eq!(client.send(&frame(kind::DATA, flag::PADDED, 1, &padded)), ["1 \"aaaaaaaaaa\""]);
        client.connection.pass_on(1, 10, &mut client.out);
        received += 266;
        for frame in client.sent() {
            if let Some(increment) = frame.strip_prefix("1 WINDOW_UPDATE ") {
                opened += increment.parse::<i64>().unwrap();
            }
        }
        assert!(received - opened < 65_535);
    }
    assert!(opened > received - 65_535, "{opened} of {received}");
}

/// A window update for a stream after its last byte would be of no use.
#[test]
fn windows_are_not_opened_after_the_end_of_a_body() {
    let mut client = Client::new();
    client.send(&post(1, &[]));
    client.send(&data(1, &[0; 16_384]));
    client.send(&data(1, &[0; 16_384]));
    client.send(&last_data(1, &[0; 16_384]));
    client.sent();
    client.connection.pass_on(1, 3 * 16_384, &mut client.out);
    assert_eq!(client.sent(), [""; 0]);
}

/// The window of a new stream is that of the settings, although the windows of others have grown: without an update, its client
/// would wait.
#[test]
fn a_new_stream_is_opened_to_the_size_of_grown_windows() {
    let mut client = Client::new();
    client.send(&post(1, &[]));
    for _ in 0..10 {
        for _ in 0..3 {
            client.send(&data(1, &[0; 16_384]));
            client.connection.pass_on(1, 16_384, &mut client.out);
        }
        client.send(&frame(kind::PING, flag::ACK, 0, b"rudy bdp"));
    }
    client.sent();
    client.send(&post(3, &[]));
    let (mut window, mut sent) = (65_535_u32, 0);
    while sent < 1 << 20 {
        let bytes = window.min(16_384);
        assert!(bytes > 0, "the client cannot send after {sent} bytes");
        client.send(&data(3, &vec![0; bytes as usize]));
        client.connection.pass_on(3, bytes as usize, &mut client.out);
        (window, sent) = (window - bytes, sent + bytes);
        for frame in client.sent() {
            if let Some(increment) = frame.strip_prefix("3 WINDOW_UPDATE ") {
                window += increment.parse::<u32>().unwrap();
            }
        }
    }
    // No more than what this side has permitted.
    assert_eq!(client.send(&post(5, &[])), ["5 POST a /x?y Chunked"]);
    for _ in 0..3 {
        client.send(&data(5, &[0; 16_384]));
    }
    let failed = client.send(&data(5, &[0; 16_384]));
    assert_eq!(failed.last().map(String::as_str), Some("5 failed FLOW_CONTROL_ERROR"));
}

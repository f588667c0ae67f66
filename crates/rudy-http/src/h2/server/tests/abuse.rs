//! What a client does to cause work or memory: each has a limit, and ends the connection beyond it.

use std::time::Duration;

use super::*;

const CALM: ErrorCode = ErrorCode::ENHANCE_YOUR_CALM;

/// Sends what `input` returns for 0, 1, 2 ... until the connection ends. Returns how often it did not. The output is not read.
#[track_caller]
fn flood(client: &mut Client, input: impl Fn(u32) -> Vec<u8>) -> u32 {
    client.out.clear();
    for number in 0..100_000 {
        let input = input(number);
        match client.try_send(&input) {
            Ok(_) => client.check_memory(),
            Err(error) => {
                assert_eq!(error.code, CALM, "{error}");
                assert!(client.out.len() <= number as usize * 64 + 100, "{} bytes", client.out.len());
                return number;
            }
        }
    }
    panic!("the connection does not end");
}

/// A client with an open stream 1, a closed stream 3, and a stream 5 that this side has reset.
fn client() -> Client {
    let mut client = Client::new();
    client.send(&[post(1, &[]), get(3), post(5, &[])].concat());
    client.respond(3, b"");
    client.reset(5, ErrorCode::CANCEL);
    client
}

/// CVE-2019-9512 (PING), CVE-2019-9515 (SETTINGS), CVE-2019-9518 (empty frames), CVE-2019-9513 (PRIORITY), CVE-2019-9514 and others.
#[test]
fn frames_without_purpose_are_limited() {
    let padding = |stream, flags| frame(kind::DATA, flag::PADDED | flags, stream, b"\x03\0\0\0");
    for (name, input) in [
        ("empty SETTINGS", settings_frame(&[])),
        ("SETTINGS", settings_frame(&[(1, 0), (3, 1), (4, 10), (4, 20)])),
        ("large SETTINGS", settings_frame(&vec![(0xff, 1); 2730])),
        ("SETTINGS ack", frame(kind::SETTINGS, flag::ACK, 0, &[])),
        ("PING", frame(kind::PING, 0, 0, &[0; 8])),
        ("PING ack", frame(kind::PING, flag::ACK, 0, &[0; 8])),
        ("PING ack of a measurement", frame(kind::PING, flag::ACK, 0, b"rudy bdp")),
        ("PING ack of a shutdown", frame(kind::PING, flag::ACK, 0, b"rudy end")),
        ("PRIORITY", priority(1, 3)),
        ("PRIORITY of an idle stream", priority(9, 7)),
        ("PRIORITY of itself, closed", priority(3, 3)),
        ("PRIORITY_UPDATE", priority_update(1, "u=1")),
        ("PRIORITY_UPDATE of an idle stream", priority_update(99, "u=1")),
        ("WINDOW_UPDATE", window_update(0, 1)),
        ("WINDOW_UPDATE of a stream", window_update(1, 1)),
        ("WINDOW_UPDATE of a closed stream", window_update(3, 1)),
        ("RST_STREAM of a closed stream", reset_frame(3, ErrorCode::CANCEL)),
        ("GOAWAY", frame(kind::GOAWAY, 0, 0, &[0; 8])),
        ("an unknown frame", frame(0xfe, 0, 0, &[])),
        ("a large unknown frame", frame(0xfe, 0, 1, &[0; 16_384])),
        ("empty DATA", data(1, b"")),
        ("empty DATA of a reset stream", data(5, b"")),
        ("the end of a reset stream", last_data(5, b"")),
        ("padding", padding(1, 0)),
        ("padding of a reset stream", padding(5, flag::END_STREAM)),
        ("trailers of a reset stream", headers(5, &[("a", "b")])),
    ] {
        let mut client = client();
        let count = flood(&mut client, |_| input.clone());
        let limit = client.limits.http2.control_frames;
        assert!((limit - 30..=limit).contains(&count), "{name}: {count}");
    }
}

/// Where the input is split has no effect on what is counted.
#[test]
fn frames_are_counted_once_wherever_the_input_is_split() {
    for input in [frame(kind::DATA, flag::PADDED, 1, b"\x05\0\0\0\0\0"), frame(kind::PING, 0, 0, &[0; 8])] {
        let mut client = client();
        let limit = client.limits.http2.control_frames;
        let bytes = input.repeat(limit as usize - 30);
        for byte in bytes.chunks(1) {
            client.send(byte);
        }
    }
    // The padding after data is not an empty frame.
    let mut client = client();
    for byte in frame(kind::DATA, flag::PADDED, 1, b"\x02a\0\0").repeat(2000).chunks(1) {
        client.send(byte);
        client.connection.pass_on(1, byte.len(), &mut client.out);
    }
}

/// A slow client of this kind costs nothing.
#[test]
fn a_tenth_of_the_limit_recovers_each_second() {
    let mut client = client();
    for _ in 0..100 {
        client.now += Duration::from_secs(1);
        for _ in 0..100 {
            client.send(&frame(kind::PING, 0, 0, &[0; 8]));
        }
    }
    assert!(flood(&mut client, |_| frame(kind::PING, 0, 0, &[0; 8])) <= 1000);
}

/// CVE-2024-27316 and others.
#[test]
fn a_header_block_is_limited_in_bytes_and_in_frames() {
    let start = |client: &mut Client| client.send(&frame(kind::HEADERS, flag::END_STREAM, 7, &[]));
    let mut client = client();
    start(&mut client);
    let count = flood(&mut client, |_| frame(kind::CONTINUATION, 0, 7, &[]));
    assert!(count < client.limits.http2.control_frames);
    for bytes in [100, 1000, 16_384] {
        let mut client = self::client();
        start(&mut client);
        let count = flood(&mut client, |_| frame(kind::CONTINUATION, 0, 7, &vec![0x82; bytes]));
        assert_eq!(count as usize, 32_768 / bytes);
    }
}

/// CVE-2023-44487: rapid reset.
#[test]
fn cancelled_requests_are_limited() {
    let mut client = Client::new();
    let count = flood(&mut client, |number| {
        let stream = 2 * number + 1;
        [get(stream), reset_frame(stream, ErrorCode::CANCEL)].concat()
    });
    assert_eq!(count, client.limits.http2.resets);
    assert!(client.connection.is_idle());
}

/// CVE-2025-8671: made you reset. Each way in which a client makes the server reset a stream.
#[test]
fn requests_that_the_client_makes_the_server_reset_are_limited() {
    type Input = fn(u32) -> Vec<u8>;
    let all: [(&str, Input); 14] = [
        ("WINDOW_UPDATE of 0", |stream| [get(stream), window_update(stream, 0)].concat()),
        ("a window that overflows", |stream| [get(stream), window_update(stream, 0x7fff_ffff)].concat()),
        ("DATA after the end", |stream| [get(stream), data(stream, b"a")].concat()),
        ("empty DATA after the end", |stream| [get(stream), last_data(stream, b"")].concat()),
        ("HEADERS after the end", |stream| [get(stream), headers(stream, &[("a", "b")])].concat()),
        ("PRIORITY of itself", |stream| [get(stream), priority(stream, stream)].concat()),
        ("a body that is too long", |stream| {
            [post(stream, &[("content-length", "1")]), data(stream, b"ab")].concat()
        }),
        ("a body that is too short", |stream| {
            [post(stream, &[("content-length", "2")]), last_data(stream, b"a")].concat()
        }),
        ("trailers that do not end", |stream| {
            [post(stream, &[]), frame(kind::HEADERS, flag::END_HEADERS, stream, &[])].concat()
        }),
        ("trailers with a pseudo-field", |stream| [post(stream, &[]), headers(stream, &GET)].concat()),
        ("a forbidden trailer", |stream| [post(stream, &[]), headers(stream, &[("host", "a")])].concat()),
        ("large trailers", |stream| [post(stream, &[]), headers(stream, &vec![("a", "b"); 600])].concat()),
        ("a malformed request", |stream| headers(stream, &GET[1..])),
        ("a length without a body", |stream| {
            headers(stream, &[&GET[..], &[("content-length", "1")]].concat())
        }),
    ];
    for (name, input) in all {
        let mut client = Client::new();
        let count = flood(&mut client, |number| input(2 * number + 1));
        assert_eq!(count, client.limits.http2.resets, "{name}");
    }
}

/// Data beyond the window of a stream.
#[test]
fn streams_that_exceed_their_window_are_limited() {
    let mut client = Client::new();
    let error = (0..).find_map(|number| {
        let stream = 2 * number + 1;
        client.connection.pass_on(0, 3 * 16_384, &mut client.out);
        client.try_send(&[post(stream, &[]), data(stream, &[0; 16_384]).repeat(4)].concat()).err()
    });
    assert_eq!(error.unwrap().code, CALM);
    assert_eq!(client.connection.requests(), 501);
    client.check_memory();
}

/// A flood of requests beyond the maximum of concurrent streams.
#[test]
fn refused_streams_are_limited() {
    let mut client = Client::new();
    let count = flood(&mut client, |number| get(2 * number + 1));
    let limits = client.limits.http2;
    assert_eq!(count, limits.streams + limits.resets);
}

/// DATA for a stream that has ended on both sides.
#[test]
fn data_for_closed_streams_is_limited() {
    let mut client = Client::new();
    for number in 0..1000 {
        client.send(&get(2 * number + 1));
        client.respond(2 * number + 1, b"");
    }
    // Most of them are not remembered, whatever the order is.
    let count = flood(&mut client, |number| data(2 * number + 1, b"a"));
    assert!(count <= client.limits.http2.resets);
}

/// CVE-2019-9511: the client opens its window by a few bytes at a time.
#[test]
fn a_response_in_many_small_frames_is_limited() {
    for (bytes, updates) in [(1, 1), (10, 1), (200, 1), (1, 2), (255, 2)] {
        let mut client = Client::with(Limits::default(), &[(4, 0)]);
        client.send(&get(1));
        client.begin(1, 200, None);
        let mut frames = 0;
        let ended = (0..10_000).any(|_| {
            if client.send_body(1, 1000) > 0 {
                frames += 1;
            }
            let updates = (0..updates).map(|number| window_update(number % 2, bytes));
            let updates = [window_update(1, bytes), updates.collect::<Vec<_>>().concat()].concat();
            client.try_send(&updates).is_err()
        });
        assert!(ended && frames <= 1000, "{bytes}: {frames}");
    }
    // The same by a setting.
    let mut client = Client::with(Limits::default(), &[(4, 0)]);
    client.send(&get(1));
    client.begin(1, 200, None);
    let ended = (1..10_000).find(|size| {
        client.send_body(1, 1000);
        client.try_send(&settings_frame(&[(4, *size)])).is_err()
    });
    assert!(ended.is_some_and(|count| count <= 1001));
}

/// After a download, updates for what is in transit are permitted, but not more.
#[test]
fn window_updates_after_a_download_are_limited() {
    let mut client = client();
    client.begin(1, 200, None);
    client.send(&[window_update(0, 0x7000_0000), window_update(1, 0x7000_0000)].concat());
    for _ in 0..100 {
        client.send_body(1, 1 << 20);
        client.out.clear();
    }
    assert!(flood(&mut client, |_| window_update(0, 1)) <= 18_000);
    // Other frames have no part in it.
    let mut client = self::client();
    client.begin(1, 200, None);
    client.send_body(1, 60_000);
    assert!(flood(&mut client, |_| frame(kind::PING, 0, 0, &[0; 8])) <= 1000);
}

/// CVE-2019-9516.
#[test]
fn fields_without_a_name_are_malformed() {
    let nameless = [&block(&GET)[..], &b"\0\0\0".repeat(1000)].concat();
    let request = |stream| frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &nameless);
    let mut client = Client::new();
    assert_eq!(client.send(&request(1)), ["1 failed PROTOCOL_ERROR"]);
    assert_eq!(flood(&mut client, |number| request(2 * number + 3)), client.limits.http2.resets - 1);
}

/// A small block with many references to a large field of the table, and with large Huffman codes.
#[test]
fn a_header_list_is_limited_after_it_is_decoded() {
    let mut client = Client::new();
    let large = [b"\x40\x01a\x7f\xa1\x1e", &[b'v'; 4000][..]].concat();
    let block = |rest: &[u8]| [&block(&GET)[..], rest].concat();
    let request =
        |stream, block: &[u8]| frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, block);
    assert_eq!(client.send(&request(1, &block(&large))), ["1 GET a /x?y Known(0)"]);
    for stream in [3, 5] {
        let events = client.send(&request(stream, &block(&[0xbe; 10_000])));
        assert_eq!(events, [format!("{stream} rejected 431 Request Header Fields Too Large")]);
        client.check_memory();
    }
    // The table is as before.
    assert_eq!(client.send(&request(7, &block(&[0xbe]))), ["7 GET a /x?y Known(0)"]);
    // 1 byte, which counts 38: `cookie` of the static table with an empty value is one of them.
    let events = client.send(&request(9, &block(&[0xa0; 600])));
    assert_eq!(events, ["9 rejected 431 Request Header Fields Too Large"]);
    client.check_memory();
}

#[test]
fn cookie_crumbs_count_each() {
    let crumbs = |count| [&GET[..], &vec![("cookie", "a"); count]].concat();
    let mut client = Client::with(Limits { head_bytes: 1000, ..Limits::default() }, &[]);
    assert_eq!(client.send(&headers(1, &crumbs(20))), ["1 GET a /x?y Known(0)"]);
    assert_eq!(client.send(&headers(3, &crumbs(22))), ["3 rejected 431 Request Header Fields Too Large"]);
}

/// Each change of `INITIAL_WINDOW_SIZE` visits all streams.
#[test]
fn changes_of_the_window_with_many_streams_are_limited() {
    let mut client = Client::new();
    for stream in (1..200).step_by(2) {
        client.send(&get(stream));
    }
    let count = flood(&mut client, |number| settings_frame(&[(4, number)]));
    assert!(count <= client.limits.http2.control_frames);
}

#[test]
fn the_header_table_of_the_client_uses_no_memory_here() {
    let mut client = Client::with(Limits::default(), &[(1, u32::MAX), (6, u32::MAX)]);
    for number in 0..100 {
        client.send(&get(2 * number + 1));
        client.respond(2 * number + 1, b"hello");
    }
    client.connection.free();
    assert_eq!(client.connection.core.heap_bytes(), 0);
}

/// Progress is not saved up: many requests that end do not allow a burst of resets.
#[test]
fn requests_that_end_do_not_raise_the_limit_of_resets() {
    let mut client = Client::new();
    for number in 0..2000 {
        client.send(&get(2 * number + 1));
        client.respond(2 * number + 1, b"");
    }
    let count = flood(&mut client, |number| {
        let stream = 4001 + 2 * number;
        [get(stream), reset_frame(stream, ErrorCode::CANCEL)].concat()
    });
    assert_eq!(count, client.limits.http2.resets);
}

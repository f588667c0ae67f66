//! Tests of what a server may make a client do or store.

use rudy_message::BodyLength;

use super::tests::{Server, block, frame, go_away, headers, setting};
use crate::Limits;
use crate::h2::frame::{flag, kind};
use crate::h2::{self, ErrorCode};

/// Sends the bytes until the connection fails. Returns how often that worked, and the code of the error.
fn flood(server: &mut Server, bytes: &[u8]) -> (u32, ErrorCode) {
    for count in 0..10_000 {
        if let Err(error) = server.try_send(bytes) {
            return (count, error.code);
        }
        server.out.clear();
    }
    panic!("no limit");
}

/// Eight times "~" in the Huffman code (RFC 7541, appendix B).
const TILDES: [u8; 13] = [0xff, 0xef, 0xff, 0x7f, 0xfb, 0xff, 0xdf, 0xfe, 0xff, 0xf7, 0xff, 0xbf, 0xfd];

#[test]
fn frames_without_purpose_are_limited() {
    let limit = h2::Limits::default().control_frames;
    for bytes in [
        frame(kind::PING, 0, 0, &[0; 8]),
        frame(kind::PING, flag::ACK, 0, &[0; 8]),
        frame(kind::SETTINGS, 0, 0, &[]),
        frame(kind::SETTINGS, flag::ACK, 0, &[]),
        frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        frame(kind::PRIORITY, 0, 1, &[0; 5]),
        frame(0xfa, 0, 0, &[]),
        frame(kind::DATA, 0, 1, b""),
        go_away(1),
        headers(1, false, &[(":status", "103"), ("link", "</a>")]),
        setting(4, 65_535),
    ] {
        let mut server = Server::new();
        server.get();
        if bytes[3] == kind::DATA {
            server.send(&headers(1, false, &[(":status", "200")]));
        }
        let (count, code) = flood(&mut server, &bytes);
        assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM, "{bytes:?}");
        // The SETTINGS of the handshake count, too.
        assert!((limit - 2..=limit).contains(&count), "{count}: {bytes:?}");
    }
}

#[test]
fn frames_for_a_cancelled_stream_are_limited() {
    let mut server = Server::new();
    server.get();
    server.connection.cancel(1, &mut server.out);
    let (_, code) = flood(&mut server, &headers(1, false, &[(":status", "103")]));
    assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM);
    // DATA ends at the window of the connection.
    let mut server = Server::new();
    server.limits.http2.connection_window_bytes = 65_535;
    server.get();
    server.connection.cancel(1, &mut server.out);
    for _ in 0..100 {
        assert!(server.send(&frame(kind::DATA, 0, 1, &[0; 16_384])).is_empty());
    }
}

/// More than the connection remembers.
#[test]
fn responses_for_many_cancelled_requests_are_ignored() {
    let mut server = Server::new();
    server.send(&setting(3, 500));
    let streams: Vec<u32> = (0..400).map(|_| server.get()).collect();
    for stream in &streams {
        server.connection.cancel(*stream, &mut server.out);
    }
    for stream in streams {
        let late = [
            headers(stream, false, &[(":status", "200")]),
            frame(kind::DATA, flag::END_STREAM, stream, b"x"),
        ];
        assert_eq!(server.send(&late.concat()), [""; 0]);
    }
}

#[test]
fn a_server_may_send_frames_with_each_response() {
    let mut server = Server::new();
    for _ in 0..2000 {
        let stream = server.get();
        let response = [
            frame(kind::PING, 0, 0, &[0; 8]),
            frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
            headers(stream, false, &[(":status", "103")]),
            headers(stream, true, &[(":status", "200")]),
        ];
        server.send(&response.concat());
        server.out.clear();
    }
}

/// The HTTP/2 of Go sends both updates for each 4 KiB of a body that its handler reads.
#[test]
fn a_server_may_send_window_updates_for_small_reads() {
    let mut server = Server::new();
    let stream = server.request("PUT", BodyLength::Chunked);
    let open = |stream: u32, bytes: u32| frame(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    for _ in 0..2000 {
        server.connection.encode_piece(stream, &[0; 16_384], &mut server.out).unwrap();
        server.out.clear();
        for _ in 0..4 {
            server.send(&[open(stream, 4096), open(0, 4096)].concat());
        }
    }
}

#[test]
fn a_header_block_has_a_maximum_size() {
    // The Huffman code of this value is larger than the value, which is within the limit.
    let mut server = Server::new();
    server.get();
    let mut fields = block(&[(":status", "200")]);
    // 97,500 bytes of "~", whose code has 13 bits.
    fields.extend(b"\x00\x01a\xff\xdd\xf8\x05");
    fields.extend((0..60_000 / 8).flat_map(|_| TILDES));
    let parts: Vec<&[u8]> = fields.chunks(16_000).collect();
    server.send(&frame(kind::HEADERS, flag::END_STREAM, 1, parts[0]));
    for part in &parts[1..parts.len() - 1] {
        server.send(&frame(kind::CONTINUATION, 0, 1, part));
    }
    let last = frame(kind::CONTINUATION, flag::END_HEADERS, 1, parts[parts.len() - 1]);
    assert_eq!(server.send(&last), ["1 200 Length(0) end"]);
    // Encoded.
    let mut server = Server::new();
    server.get();
    let part = vec![0; 16_000];
    server.send(&frame(kind::HEADERS, 0, 1, &part));
    let (count, code) = flood(&mut server, &frame(kind::CONTINUATION, 0, 1, &part));
    assert_eq!((count, code), (7, ErrorCode::ENHANCE_YOUR_CALM));
    // Empty.
    let mut server = Server::new();
    server.get();
    server.send(&frame(kind::HEADERS, 0, 1, &[]));
    let (_, code) = flood(&mut server, &frame(kind::CONTINUATION, 0, 1, &[]));
    assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM);
    // Decoded: a field in the table, which one byte repeats (CVE-2016-6581).
    let mut server = Server::new();
    server.get();
    let mut fields = block(&[(":status", "200")]);
    fields.extend(b"\x40\x01a\x7f\x81\x07");
    fields.extend([b'v'; 1024]);
    fields.extend([0xbe; 90]);
    let bomb = frame(kind::HEADERS, flag::END_HEADERS, 1, &fields);
    assert_eq!(server.send(&bomb), ["1 reset ENHANCE_YOUR_CALM true"]);
    // The connection is still of use: the table was kept.
    let stream = server.get();
    let again = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &[0x88, 0xbe]);
    assert_eq!(server.send(&again), ["3 200 Length(0) end"]);
}

#[test]
fn a_body_has_a_maximum_size() {
    for head in [&[(":status", "200"), ("content-length", "11")][..], &[(":status", "200")]] {
        let mut server = Server::new();
        server.limits.body_bytes = 10;
        server.get();
        let mut events = server.send(&headers(1, false, head));
        events.extend(server.send(&frame(kind::DATA, 0, 1, &[0; 11])));
        assert_eq!(events.last().unwrap(), "1 reset CANCEL true");
    }
}

#[test]
fn data_beyond_the_windows_is_an_error() {
    let mut server = Server::new();
    server.limits = Limits {
        http2: h2::Limits {
            stream_window_bytes: 100,
            stream_window_bytes_max: 100,
            ..h2::Limits::FOR_RESPONSES
        },
        ..Limits::for_responses()
    };
    server.connection = super::ClientConnection::new(server.now, &server.limits, &mut server.out);
    server.send(&frame(kind::SETTINGS, 0, 0, &[]));
    server.get();
    server.send(&headers(1, false, &[(":status", "200")]));
    server.send(&frame(kind::DATA, 0, 1, &[0; 100]));
    assert_eq!(server.send(&frame(kind::DATA, 0, 1, &[0])), ["1 reset FLOW_CONTROL_ERROR true"]);
}

#[test]
fn no_more_streams_are_open_than_the_server_allows() {
    let none = BodyLength::Known(0);
    let mut server = Server::before_settings();
    for _ in 0..100 {
        server.get();
    }
    assert_eq!(server.try_request("GET", none), None);
    // The limit shrinks below the open streams, and grows again.
    server.send(&setting(3, 2));
    assert_eq!((server.connection.available_streams(), server.try_request("GET", none)), (0, None));
    for stream in (1..=195).step_by(2) {
        server.send(&headers(stream, true, &[(":status", "200")]));
        assert_eq!(server.try_request("GET", none), None, "{stream}");
    }
    server.send(&headers(197, true, &[(":status", "200")]));
    assert_eq!((server.connection.available_streams(), server.try_request("GET", none)), (1, Some(201)));
    assert_eq!(server.try_request("GET", none), None);
    server.send(&setting(3, 0));
    assert_eq!(server.connection.available_streams(), 0);
    server.send(&setting(3, 10));
    assert_eq!(server.connection.available_streams(), 8);
}

#[test]
fn settings_in_the_middle_of_a_body_change_its_window() {
    let mut server = Server::new();
    let stream = server.request("POST", BodyLength::Known(100_000));
    server.connection.encode_piece(stream, &vec![0; 60_000], &mut server.out).unwrap();
    server.send(&setting(4, 10_000));
    assert_eq!(server.connection.window(stream), 0, "the window is negative");
    server.send(&frame(kind::WINDOW_UPDATE, 0, stream, &50_001_u32.to_be_bytes()));
    assert_eq!(server.connection.window(stream), 1);
    server.send(&setting(4, 0x7fff_ffff));
    assert_eq!(server.connection.window(stream), 5535, "that of the connection");
    // A window of a stream that overflows because of a setting ends the connection (RFC 9113 §6.9.2).
    server.send(&setting(4, 0));
    server.send(&frame(kind::WINDOW_UPDATE, 0, stream, &0x7fff_0000_u32.to_be_bytes()));
    assert_eq!(server.try_send(&setting(4, 0x7fff_ffff)).unwrap_err().code, ErrorCode::FLOW_CONTROL_ERROR);
}

#[test]
fn a_connection_ends_when_the_numbers_of_streams_are_used_up() {
    let mut server = Server::new();
    server.connection.next_stream = 0x7fff_ffff;
    assert_eq!(server.get(), 0x7fff_ffff);
    assert!(server.connection.is_going_away());
    assert_eq!(server.try_request("GET", BodyLength::Known(0)), None);
    assert_eq!(server.send(&headers(0x7fff_ffff, true, &[(":status", "200")])).len(), 1);
}

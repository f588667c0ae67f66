//! HTTP/2 connections of a client. The first byte is the size of the pieces, the rest is what a server sends after its settings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_fuzz::h2_client::{Requests, run};

fuzz_target!(|data: &[u8]| {
    let [piece_bytes, bytes @ ..] = data else { return };
    let piece_bytes = usize::from(*piece_bytes).max(1);
    let whole = run([bytes], Requests::Patient);
    assert_eq!(run(bytes.chunks(1), Requests::Patient), whole, "byte by byte");
    assert_eq!(run(bytes.chunks(piece_bytes), Requests::Patient), whole, "in pieces of {piece_bytes}");
    run(bytes.chunks(piece_bytes), Requests::Active);
    run([bytes], Requests::Active);
});

//! HTTP/2 connections of a server. The first byte is the size of the pieces, the rest is what a client sends after its settings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_fuzz::h2::{Responses, run};

fuzz_target!(|data: &[u8]| {
    let [piece_bytes, bytes @ ..] = data else { return };
    let piece_bytes = usize::from(*piece_bytes).max(1);
    let whole = run([bytes], Responses::Empty);
    assert_eq!(run(bytes.chunks(1), Responses::Empty), whole, "byte by byte");
    assert_eq!(run(bytes.chunks(piece_bytes), Responses::Empty), whole, "in pieces of {piece_bytes}");
    run(bytes.chunks(piece_bytes), Responses::Full);
    run([bytes], Responses::Full);
});

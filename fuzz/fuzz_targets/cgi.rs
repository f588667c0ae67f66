//! Response heads of CGI applications. The first byte is the size of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_fuzz::fastcgi::read_head;

fuzz_target!(|data: &[u8]| {
    let [piece_bytes, bytes @ ..] = data else { return };
    let whole = read_head([bytes]);
    assert_eq!(read_head(bytes.chunks(1)), whole, "byte by byte");
    assert_eq!(
        read_head(bytes.chunks(usize::from(*piece_bytes).max(1))),
        whole,
        "in pieces of {piece_bytes}"
    );
});

//! FastCGI records. The first byte selects the receiver and its state, the rest is the output of the other end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_fuzz::fastcgi::{read_as_application, read_as_gateway};

fuzz_target!(|data: &[u8]| {
    let [flags, bytes @ ..] = data else { return };
    let piece_bytes = usize::from(flags >> 4);
    if flags & 1 != 0 {
        read_as_application(bytes, piece_bytes);
    } else {
        read_as_gateway(usize::from(flags >> 1 & 3), flags & 8 != 0, bytes, piece_bytes);
    }
});

//! Chunked bodies: accepted or rejected with the same result at every split, and within the limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_fuzz::{decode_events_at_splits, small_limits};

/// `rudy_fuzz` reads the bodies of requests with a path of odd length.
const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

fuzz_target!(|body: &[u8]| {
    let bytes = [HEAD, body].concat();
    let transcript = decode_events_at_splits(&bytes, HEAD.len() + body.len() / 2, &small_limits());
    assert!(transcript.events[0].contains("POST"), "the head is valid");
});

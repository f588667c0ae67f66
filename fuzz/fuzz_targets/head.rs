//! Request heads: accepted or rejected with the same result at every split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_fuzz::decode_events_at_splits;
use rudy_http::Limits;

fuzz_target!(|head: &[u8]| {
    decode_events_at_splits(head, head.len() / 2, &Limits::default());
});

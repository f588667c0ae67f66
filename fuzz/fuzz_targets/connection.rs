//! Complete connections. The first byte is the size of the pieces, the rest is the output of the client.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_fuzz::{decode_events_at_splits, small_limits};

fuzz_target!(|data: &[u8]| {
    let [piece_bytes, bytes @ ..] = data else { return };
    let transcript = decode_events_at_splits(bytes, usize::from(*piece_bytes), &small_limits());
    let rejections = transcript.events.iter().filter(|event| event.starts_with("rejected")).count();
    assert!(rejections <= 1, "nothing is read after a rejection");
});

//! A whole conversation: the first byte says how large the pieces are, the rest is what the client sends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_fuzz::{converse_at_splits, small_limits};

fuzz_target!(|data: &[u8]| {
    let [piece_bytes, bytes @ ..] = data else { return };
    let transcript = converse_at_splits(bytes, usize::from(*piece_bytes), &small_limits());
    let refusals = transcript.events.iter().filter(|event| event.starts_with("refused")).count();
    assert!(refusals <= 1, "nothing is read behind a refusal");
});

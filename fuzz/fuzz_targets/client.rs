//! Responses. The first byte selects the request, the rest is the output of the server before it closes the connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_fuzz::client::read_at_splits;
use rudy_fuzz::small_limits;
use rudy_http::h1::client::RequestInfo;

fuzz_target!(|data: &[u8]| {
    let [flags, bytes @ ..] = data else { return };
    let request = RequestInfo {
        is_head: flags & 1 != 0,
        is_connect: flags & 2 != 0,
        offers_upgrade: flags & 4 != 0,
        is_last: flags & 8 != 0,
    };
    read_at_splits(request, bytes, usize::from(flags >> 4), &small_limits());
});

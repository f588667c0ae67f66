//! HTTP/2 frames of a server, for this client and for that of the crate `h2`: both accept the same responses.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| rudy_fuzz::h2_differential::run_clients(data));

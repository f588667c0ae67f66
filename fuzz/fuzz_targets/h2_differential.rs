//! HTTP/2 frames of a client, for this server and for that of the crate `h2`: both accept the same requests.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| rudy_fuzz::h2_differential::run_servers(data));

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rudy_fuzz::run("trace", input));

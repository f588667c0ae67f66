//! Many inputs without a fuzzer.

use std::iter::repeat_with;

use rudy_http::h2::hpack::encode_stateless;

use super::*;

/// What clients of HTTP/1.1 send, right and wrong.
const FRAGMENTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /x?y HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 600\r\n\r\n",
    b"PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
    b"5;x=y\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\nX-A: b\r\n\r\n",
    b"POST /0/100/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"\r\n",
    b"G",
    b" \0",
];

/// Pseudo-random inputs for all kinds of clients.
#[test]
fn generated_inputs_pass() {
    let count = if std::env::var_os("RUDY_TEST_LONG").is_some() { 20_000 } else { 1000 };
    for seed in 0..count {
        let input = generate(seed);
        println!("seed {seed}: {}", input.escape_ascii());
        run(&input);
    }
}

fn generate(seed: u64) -> Vec<u8> {
    // SplitMix64.
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()[0]
    };
    let kind = next();
    let count = usize::from(next() % 128);
    let mut input = vec![kind, next(), next()];
    match kind % 4 {
        2 => input.extend(repeat_with(|| fragment(&mut next)).take(count / 8).flatten()),
        3 => input.extend(repeat_with(|| frame(&mut next)).take(count / 4).flatten()),
        _ => input.extend(repeat_with(next).take(count)),
    }
    input
}

fn fragment(next: &mut impl FnMut() -> u8) -> Vec<u8> {
    let mut fragment = FRAGMENTS[usize::from(next()) % FRAGMENTS.len()].to_vec();
    if next() < 16 {
        let at = usize::from(next()) % fragment.len();
        fragment[at] = next();
    }
    fragment
}

/// A frame of HTTP/2 on one of a few streams.
fn frame(next: &mut impl FnMut() -> u8) -> Vec<u8> {
    let stream = (next() % 12) | u8::from(next() < 240);
    let (kind, payload) = match next() % 16 {
        0..=6 => (
            1,
            head(if next() < 128 { b"GET" } else { b"POST" }, if next() < 230 { b"/" } else { b"/5/9/1" }),
        ),
        7..=10 => (0, vec![next(); usize::from(next())]),
        11 => (3, vec![0, 0, 0, next() % 16]),
        12 => (8, vec![0, 0, next(), next()]),
        13 => (16, [&[0, 0, 0, next() % 12][..], b"u=1"].concat()),
        14 => (4, vec![0, 4, 0, 0, next(), next()]),
        _ => (next() % 12, vec![next(); usize::from(next() % 12)]),
    };
    let flags = match next() % 8 {
        0 => next(),
        1..=3 => 4,
        _ => 5,
    };
    let stream = if matches!(kind, 4 | 16) { 0 } else { stream };
    let length = u8::try_from(payload.len()).expect("short");
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], &payload[..]].concat()
}

fn head(method: &[u8], path: &[u8]) -> Vec<u8> {
    let mut block = bytes::BytesMut::new();
    let fields: [(&[u8], &[u8]); 4] =
        [(b":method", method), (b":scheme", b"http"), (b":authority", b"a"), (b":path", path)];
    for (name, value) in fields {
        encode_stateless(name, value, &mut block);
    }
    block.to_vec()
}

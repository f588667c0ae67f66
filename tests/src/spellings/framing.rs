//! Spellings of the framing of a body: Content-Length, Transfer-Encoding, and chunks.
//!
//! Each body contains the request [`SMUGGLED`]. A server that finds a wrong end of the body responds to it.

use super::request::{Change, Request};

/// The request in a body, to which no server may respond.
pub(super) const SMUGGLED: &str = "GET /smuggled.txt HTTP/1.1\r\nHost: example.test\r\n\r\n";

/// Content-Length lines, where `N` is the length of the body. Several lines are several fields.
const LENGTHS: &[(&str, &[&str])] = &[
    ("length/same-twice", &["Content-Length: N\r\nContent-Length: N"]),
    ("length/same-twice", &["Content-Length: N\r\ncontent-length: N"]),
    ("length/two", &["Content-Length: N\r\nContent-Length: 0", "Content-Length: 0\r\nContent-Length: N"]),
    ("length/list", &["Content-Length: N, N", "Content-Length: N,N"]),
    ("length/list-of-two", &["Content-Length: N, 0", "Content-Length: 0, N"]),
    ("length/sign", &["Content-Length: +N", "Content-Length: -N", "Content-Length: -0"]),
    ("length/hexadecimal", &["Content-Length: 0x32", "Content-Length: 3E"]),
    ("length/zeros", &["Content-Length: 0N", "Content-Length: 0000000000000000000000N"]),
    ("length/white-space", &["Content-Length:N", "Content-Length:  N  ", "Content-Length:\tN\t"]),
    ("length/space-within", &["Content-Length: N 0", "Content-Length: 0 N"]),
    ("length/text-behind", &["Content-Length: N;x", "Content-Length: Nx", "Content-Length: N.0"]),
    ("length/text-behind", &["Content-Length: Ne0"]),
    ("length/empty", &["Content-Length:", "Content-Length: ,"]),
    ("length/no-number", &["Content-Length: x", "Content-Length: \"N\"", "Content-Length: \u{0665}\u{0660}"]),
    ("length/control", &["Content-Length: \x0bN", "Content-Length: N\x0c", "Content-Length: N\0"]),
    ("length/overflow", &["Content-Length: 18446744073709551616", "Content-Length: 18446744073709551666"]),
    ("length/overflow", &["Content-Length: 4294967346"]),
    ("length/negative-overflow", &["Content-Length: 9223372036854775808"]),
    ("length/negative-overflow", &["Content-Length: 99999999999999999999999999"]),
    ("length/folded", &["Content-Length:\r\n N"]),
    ("length/space-before-colon", &["Content-Length : N"]),
];

/// Transfer-Encoding lines for a chunked body.
const CODINGS: &[(&str, &[&str])] = &[
    ("coding/chunked", &["Transfer-Encoding: chunked", "transfer-encoding:chunked"]),
    ("coding/chunked", &["Transfer-Encoding:\tchunked "]),
    ("coding/case", &["Transfer-Encoding: Chunked", "Transfer-Encoding: CHUNKED"]),
    ("coding/empty-elements", &["Transfer-Encoding: , chunked", "Transfer-Encoding: chunked,"]),
    ("coding/gzip-chunked", &["Transfer-Encoding: gzip, chunked"]),
    ("coding/gzip-chunked", &["Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"]),
    ("coding/chunked-gzip", &["Transfer-Encoding: chunked, gzip"]),
    ("coding/chunked-gzip", &["Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip"]),
    ("coding/chunked-twice", &["Transfer-Encoding: chunked, chunked"]),
    ("coding/chunked-twice", &["Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"]),
    ("coding/identity", &["Transfer-Encoding: identity", "Transfer-Encoding: chunked, identity"]),
    ("coding/identity", &["Transfer-Encoding: identity, chunked"]),
    ("coding/unknown", &["Transfer-Encoding: x", "Transfer-Encoding: gzip", "Transfer-Encoding: xchunked"]),
    ("coding/unknown", &["Transfer-Encoding: chunkedx"]),
    ("coding/parameter", &["Transfer-Encoding: chunked;q=1", "Transfer-Encoding: chunked; x"]),
    ("coding/quoted", &["Transfer-Encoding: \"chunked\"", "Transfer-Encoding: 'chunked'"]),
    ("coding/empty", &["Transfer-Encoding:", "Transfer-Encoding: ,"]),
    ("coding/control", &["Transfer-Encoding: \x0bchunked", "Transfer-Encoding: chunked\x0c"]),
    ("coding/control", &["Transfer-Encoding: chunked\0"]),
    ("coding/space-within", &["Transfer-Encoding: chun ked", "Transfer-Encoding: chunked x"]),
    ("coding/folded", &["Transfer-Encoding:\r\n chunked", "Transfer-Encoding: x\r\n chunked"]),
    ("coding/space-before-colon", &["Transfer-Encoding : chunked"]),
    ("coding/other-field", &["TE: chunked", "X-Transfer-Encoding: chunked", "Transfer_Encoding: chunked"]),
];

/// Chunked bodies, where `P` is the payload and `N` its length in hexadecimal.
const CHUNKS: &[(&str, &[&str])] = &[
    ("chunk/two", &["1\r\nx\r\nN\r\nP\r\n0\r\n\r\n"]),
    ("chunk/zeros", &["00000N\r\nP\r\n0\r\n\r\n", "N\r\nP\r\n000\r\n\r\n"]),
    ("chunk/many-zeros", &["00000000000000000000N\r\nP\r\n0\r\n\r\n"]),
    ("chunk/extension", &["N;x\r\nP\r\n0\r\n\r\n", "N;x=y\r\nP\r\n0\r\n\r\n"]),
    ("chunk/extension", &["N;x=\"y;\"\r\nP\r\n0\r\n\r\n", "N\r\nP\r\n0;x\r\n\r\n"]),
    ("chunk/extension-with-spaces", &["N ;x\r\nP\r\n0\r\n\r\n", "N; x = y\r\nP\r\n0\r\n\r\n"]),
    ("chunk/bad-extension", &["N;\r\nP\r\n0\r\n\r\n", "N;bad[=x\r\nP\r\n0\r\n\r\n"]),
    ("chunk/bad-extension", &["N;x=\"y\r\nP\r\n0\r\n\r\n", "N;x=\r\nP\r\n0\r\n\r\n"]),
    ("chunk/bad-extension", &["N;=y\r\nP\r\n0\r\n\r\n", "N;;x\r\nP\r\n0\r\n\r\n", "N x\r\nP\r\n0\r\n\r\n"]),
    ("chunk/control-in-extension", &["N;x\0\r\nP\r\n0\r\n\r\n", "N;\x01\r\nP\r\n0\r\n\r\n"]),
    ("chunk/lf-in-extension", &["N;x\nP\r\n0\r\n\r\n", "N;x\n0\r\n\r\nP\r\n0\r\n\r\n"]),
    ("chunk/cr-in-extension", &["N;x\ry\r\nP\r\n0\r\n\r\n"]),
    ("chunk/space-behind-size", &["N \r\nP\r\n0\r\n\r\n", "N\t\r\nP\r\n0\r\n\r\n"]),
    ("chunk/space-before-size", &[" N\r\nP\r\n0\r\n\r\n", "\tN\r\nP\r\n0\r\n\r\n"]),
    ("chunk/bad-size", &["0xN\r\nP\r\n0\r\n\r\n", "+N\r\nP\r\n0\r\n\r\n", "-N\r\nP\r\n0\r\n\r\n"]),
    ("chunk/bad-size", &["x\r\nP\r\n0\r\n\r\n", "N,\r\nP\r\n0\r\n\r\n", "Ng\r\nP\r\n0\r\n\r\n"]),
    ("chunk/bad-size", &["N.0\r\nP\r\n0\r\n\r\n"]),
    ("chunk/empty-size", &["\r\nP\r\n0\r\n\r\n", ";x\r\nP\r\n0\r\n\r\n", "N\r\nP\r\n\r\n\r\n"]),
    ("chunk/overflow", &["100000000000000N\r\nP\r\n0\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\nP\r\n0\r\n\r\n"]),
    ("chunk/overflow", &["8000000000000000\r\nP\r\n0\r\n\r\n", "FFFFFFFFFFFFFFFF\r\nP\r\n0\r\n\r\n"]),
    ("chunk/32-bit-overflow", &["1000000N\r\nP\r\n0\r\n\r\n", "10000000N\r\nP\r\n0\r\n\r\n"]),
    ("chunk/lf", &["N\nP\r\n0\r\n\r\n", "N\r\nP\n0\r\n\r\n", "N\r\nP\r\n0\n\r\n", "N\r\nP\r\n0\r\n\n"]),
    ("chunk/lf", &["N\nP\n0\n\n"]),
    ("chunk/cr", &["N\rP\r\n0\r\n\r\n", "N\r\nP\r0\r\n\r\n", "N\r\rP\r\n0\r\n\r\n"]),
    ("chunk/no-line-end", &["N\r\nP0\r\n\r\n", "N\r\nPxx0\r\n\r\n"]),
    ("chunk/too-much-data", &["1\r\nP\r\n0\r\n\r\n", "N\r\nPx\r\n0\r\n\r\n"]),
    ("chunk/trailer", &["N\r\nP\r\n0\r\nX-A: b\r\n\r\n", "N\r\nP\r\n0\r\nX-A: b\r\nX-B: c\r\n\r\n"]),
    ("chunk/framing-in-trailer", &["N\r\nP\r\n0\r\nContent-Length: 5\r\n\r\n"]),
    ("chunk/framing-in-trailer", &["N\r\nP\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"]),
    ("chunk/framing-in-trailer", &["N\r\nP\r\n0\r\nHost: other.test\r\n\r\n"]),
    ("chunk/bad-trailer", &["N\r\nP\r\n0\r\nX-A : b\r\n\r\n", "N\r\nP\r\n0\r\nX-A\r\n\r\n"]),
    ("chunk/bad-trailer", &["N\r\nP\r\n0\r\n X-A: b\r\n\r\n", "N\r\nP\r\n0\r\nX-A: \0\r\n\r\n"]),
    ("chunk/lf-in-trailer", &["N\r\nP\r\n0\r\nX-A: b\n\r\n"]),
    ("chunk/no-final-line", &["N\r\nP\r\n0\r\n"]),
    ("chunk/no-last-chunk", &["N\r\nP\r\n"]),
    ("chunk/nothing", &["0\r\n\r\n", ""]),
];

pub(super) fn changes() -> Vec<Change> {
    let mut changes = Vec::new();
    for &(tag, texts) in LENGTHS {
        for text in texts {
            changes.push(Change::new(tag, |request| with_length(request, text)));
        }
    }
    for &(tag, texts) in CODINGS {
        for text in texts {
            changes.push(Change::new(tag, |request| with_coding(request, text)));
        }
    }
    // Without the last entry, which has other fields.
    for &(_, texts) in &CODINGS[..CODINGS.len() - 1] {
        for text in texts {
            changes.push(Change::new("coding/and-length", |request| with_both(request, text, true)));
            changes.push(Change::new("coding/and-length", |request| with_both(request, text, false)));
        }
    }
    for &(tag, texts) in CHUNKS {
        for text in texts {
            changes.push(Change::new(tag, |request| {
                with_coding(request, "Transfer-Encoding: chunked");
                if request.is_post() {
                    request.body = chunks(text);
                }
            }));
        }
    }
    // Without a body, which would be the next request.
    for (tag, line) in [("length/missing", "X-A: b"), ("length/zero", "Content-Length: 0")] {
        changes.push(Change::new(tag, move |request| {
            with_length(request, line);
            request.body.clear();
        }));
    }
    changes.push(Change::new("length/of-a-get", |request| {
        if !request.is_post() {
            request.field(format!("Content-Length: {}", SMUGGLED.len()));
            request.body = SMUGGLED.into();
        }
    }));
    changes.push(Change::new("coding/of-a-get", |request| {
        if !request.is_post() {
            request.field("Transfer-Encoding: chunked");
            request.body = chunks("N\r\nP\r\n0\r\n\r\n");
        }
    }));
    changes
}

/// Removes the framing of a POST request. Returns whether it was one.
fn unframe(request: &mut Request) -> bool {
    let is_post = request.is_post();
    if is_post {
        request.remove("Content-Length");
    }
    is_post
}

fn with_length(request: &mut Request, text: &str) {
    if unframe(request) {
        request.field(text.replace('N', &SMUGGLED.len().to_string()));
        request.body = SMUGGLED.into();
    }
}

fn with_coding(request: &mut Request, text: &str) {
    if unframe(request) {
        request.field(text);
        request.body = chunks("N\r\nP\r\n0\r\n\r\n");
    }
}

/// Adds both framings. By its length, the body contains the request; by its chunks, it ends before the request.
fn with_both(request: &mut Request, text: &str, length_first: bool) {
    if unframe(request) {
        request.body = ["0\r\n\r\n", SMUGGLED].concat().into();
        let length = format!("Content-Length: {}", request.body.len());
        let [first, second] = if length_first { [&length[..], text] } else { [text, &length] };
        request.field(first);
        request.field(second);
    }
}

fn chunks(text: &str) -> Vec<u8> {
    text.replace('N', &format!("{:X}", SMUGGLED.len())).replace('P', SMUGGLED).into_bytes()
}

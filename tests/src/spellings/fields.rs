//! Spellings of field lines, mostly Host, and of line ends.

use super::request::{Change, Request};

/// Values of Host.
const HOSTS: &[(&str, &[&[u8]])] = &[
    ("host/case", &[b"EXAMPLE.TEST", b"Example.Test"]),
    ("host/port", &[b"example.test:80", b"example.test:8080", b"example.test:1"]),
    ("host/empty-port", &[b"example.test:"]),
    ("host/no-name", &[b":80", b":"]),
    ("host/empty", &[b"", b" "]),
    ("host/bad-port", &[b"example.test:65536", b"example.test:x", b"example.test:-1"]),
    ("host/bad-port", &[b"example.test:80:80", b"example.test: 80"]),
    ("host/final-dot", &[b"example.test.", b"example.test.:80"]),
    ("host/dots", &[b"example..test", b".example.test", b"example.test.."]),
    ("host/other", &[b"other.test", b"www.example.test", b"127.0.0.1", b"localhost"]),
    ("host/ipv6", &[b"[::1]", b"[::1]:80", b"[::ffff:127.0.0.1]"]),
    ("host/bad-ipv6", &[b"[::1", b"::1", b"[::g]", b"[::1]x", b"[]"]),
    ("host/ipv-future", &[b"[v1.x]"]),
    ("host/user", &[b"user@example.test", b"other.test@example.test"]),
    ("host/path", &[b"example.test/x", b"example.test?x", b"example.test#x", b"http://example.test"]),
    ("host/list", &[b"example.test, other.test", b"example.test,example.test"]),
    ("host/space", &[b"example.test other.test", b"exa mple.test", b"example.test\tx"]),
    ("host/encoded", &[b"%65xample.test", b"example%2etest"]),
    ("host/underscore", &[b"exa_mple.test"]),
    ("host/delimiter", &[b"exa<mple.test", b"example.test\"", b"exa\\mple.test", b"example.test|"]),
    ("host/delimiter", &[b"{example.test}"]),
    ("host/sub-delimiter", &[b"example.test!", b"exa'mple.test", b"(example.test)"]),
    ("host/not-ascii", &["exämple.test".as_bytes(), b"\xffexample.test"]),
    ("host/control", &[b"example.test\x01", b"example.test\0", b"example.test\x7f"]),
    ("host/long", &[&[b'a'; 300]]),
];

/// Complete Host lines.
const HOST_LINES: &[(&str, &[&[u8]])] = &[
    ("host/name-case", &[b"host: example.test", b"HOST: example.test", b"hOsT: example.test"]),
    ("host/white-space", &[b"Host:example.test", b"Host:   example.test  ", b"Host:\texample.test\t"]),
    ("host/space-before-colon", &[b"Host : example.test", b"Host\t: example.test"]),
    ("host/folded", &[b"Host:\r\n example.test", b"Host: example\r\n .test"]),
];

/// Additional fields.
const FIELDS: &[(&str, &[&[u8]])] = &[
    ("field/second-host", &[b"Host: example.test", b"host: example.test", b"Host: other.test", b"Host:"]),
    ("field/space-before-colon", &[b"X-A : b", b"X-A\t: b", b"Host : other.test"]),
    ("field/folded", &[b"X-A: b\r\n c", b"X-A: b\r\n\tc", b"X-A: b\r\n ", b"X-A:\r\n Host: other.test"]),
    ("field/empty-name", &[b": b", b":", b" : b"]),
    ("field/no-colon", &[b"X-A", b"X-A b", b"example"]),
    ("field/no-token", &[b"X(A): b", b"X\xc3: b", b"X@A: b", b"\"X\": b", b"X A: b", b"X/A: b"]),
    ("field/control-in-name", &[b"X\0A: b", b"X\x01: b", b"X\rA: b", b"X\x7f: b"]),
    ("field/underscore", &[b"X_A: b", b"Content_Length: 5", b"Transfer_Encoding: chunked"]),
    ("field/dot", &[b"X.A: b"]),
    ("field/nul-in-value", &[b"X-A: b\0c", b"X-A: \0"]),
    ("field/cr-in-value", &[b"X-A: b\rc", b"X-A: b\r", b"X-A: b\rHost: other.test"]),
    ("field/control-in-value", &[b"X-A: b\x01c", b"X-A: b\x7f", b"X-A: \x0bb", b"X-A: \x1b[0m"]),
    ("field/not-ascii", &[b"X-A: \xff", "X-A: ü".as_bytes()]),
    ("field/tab-in-value", &[b"X-A: b\tc", b"X-A:\t b \t"]),
    ("field/empty-value", &[b"X-A:", b"X-A: "]),
    ("field/case", &[b"x-a: b", b"X-A: b", b"CONNECTION: KEEP-ALIVE", b"connection: Close"]),
    ("field/odd-token", &[b"!#$%&'*+-.^`|~: b", b"0: b"]),
    ("field/connection", &[b"Connection: close", b"Connection: keep-alive, close", b"Connection: x"]),
    ("field/connection", &[b"Connection: Host"]),
    ("field/expect", &[b"Expect: 100-continue", b"Expect: 100-Continue"]),
    ("field/other-expectation", &[b"Expect: x", b"Expect: 100-continue, x"]),
    ("field/upgrade", &[b"Connection: upgrade\r\nUpgrade: websocket"]),
    ("field/upgrade", &[b"Connection: upgrade\r\nUpgrade: h2c"]),
    ("field/rewrite", &[b"X-Original-URL: /secret/key.txt", b"X-Rewrite-URL: /secret/key.txt"]),
    ("field/rewrite", &[b"X-Forwarded-Host: other.test", b"X-HTTP-Method-Override: DELETE"]),
    (
        "field/forwarded",
        &[
            b"Forwarded: host=other.test;proto=https",
            b"X-Forwarded-For: 127.0.0.1",
            b"Proxy: http://other.test/",
        ],
    ),
];

/// Ends of the request line, of field lines, and of the head.
const ENDS: &[(&str, [&[u8]; 3])] = &[
    ("end/lf", [b"\n", b"\n", b"\n"]),
    ("end/lf-of-line", [b"\n", b"\r\n", b"\r\n"]),
    ("end/lf-of-fields", [b"\r\n", b"\n", b"\r\n"]),
    ("end/lf-of-head", [b"\r\n", b"\r\n", b"\n"]),
    ("end/cr", [b"\r", b"\r", b"\r"]),
    ("end/cr-of-line", [b"\r", b"\r\n", b"\r\n"]),
    ("end/cr-of-fields", [b"\r\n", b"\r", b"\r\n"]),
    ("end/cr-cr-lf", [b"\r\r\n", b"\r\r\n", b"\r\r\n"]),
    ("end/cr-cr-lf-of-fields", [b"\r\n", b"\r\r\n", b"\r\n"]),
    ("end/lf-cr", [b"\n\r", b"\n\r", b"\n\r"]),
    ("end/white-space-of-head", [b"\r\n", b"\r\n", b" \r\n\r\n"]),
    ("end/space-behind-line", [b"\r\n ", b"\r\n", b"\r\n"]),
];

pub(super) fn changes() -> Vec<Change> {
    let mut changes = Vec::new();
    for &(tag, hosts) in HOSTS {
        for host in hosts {
            changes.push(Change::new(tag, |request| set_host(request, &[b"Host: ", *host].concat())));
        }
    }
    for &(tag, lines) in HOST_LINES {
        changes.extend(lines.iter().map(|line| Change::new(tag, |request| set_host(request, line))));
    }
    for &(tag, lines) in FIELDS {
        changes.extend(lines.iter().map(|line| Change::new(tag, move |request| request.field(line))));
    }
    for &(tag, ends) in ENDS {
        changes.push(Change::new(tag, move |request| request.ends = ends));
    }
    changes.push(Change::new("host/missing", |request| request.remove("Host")));
    changes.push(Change::new("host/last", |request| request.fields.rotate_left(1)));
    changes.push(Change::new("field/many", |request| {
        (0..150).for_each(|number| request.field(format!("X-{number}: a")));
    }));
    changes.push(Change::new("field/long", |request| request.field(format!("X-A: {}", "a".repeat(9000)))));
    changes
        .push(Change::new("field/too-long", |request| request.field(format!("X-A: {}", "a".repeat(40_000)))));
    changes
}

fn set_host(request: &mut Request, line: &[u8]) {
    if let Some(host) = request.fields.first_mut() {
        *host = line.to_vec();
    }
}

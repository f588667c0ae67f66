//! Spellings of the request line: method, form of the target, version, and separators.

use super::request::{Change, Request};

const METHODS: &[(&str, &[&[u8]])] = &[
    ("method/case", &[b"get", b"Get", b"gET", b"post", b"Post"]),
    ("method/HEAD", &[b"HEAD"]),
    ("method/POST", &[b"POST"]),
    ("method/PUT", &[b"PUT"]),
    ("method/DELETE", &[b"DELETE"]),
    ("method/OPTIONS", &[b"OPTIONS"]),
    ("method/TRACE", &[b"TRACE"]),
    ("method/CONNECT", &[b"CONNECT"]),
    ("method/PATCH", &[b"PATCH"]),
    ("method/dav", &[b"PROPFIND", b"MKCOL", b"LOCK"]),
    ("method/unknown", &[b"FOO", b"GETX", b"G", b"GET!"]),
    ("method/no-token", &[b"G@T", b"GE\0T", b"G\xc3T", b"G/T", b"\"GET\"", b"GET:"]),
    ("method/empty", &[b""]),
    ("method/long", &[b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ"]),
    ("method/preface", &[b"PRI"]),
];

/// Prefixes of the path in a target.
const ORIGINS: &[(&str, &[&str])] = &[
    ("form/absolute", &["http://example.test", "http://EXAMPLE.test", "HTTP://example.test"]),
    ("form/absolute-port", &["http://example.test:80", "http://example.test:8080", "http://example.test:"]),
    ("form/absolute-https", &["https://example.test"]),
    ("form/absolute-other-host", &["http://other.test", "http://other.test:80"]),
    (
        "form/absolute-user",
        &["http://user@example.test", "http://user:pass@example.test", "http://other.test@example.test"],
    ),
    ("form/absolute-without-host", &["http://", "http://:80"]),
    (
        "form/absolute-bad-host",
        &["http://exa<mple.test", "http://example.test:x", "http://[::1", "http://a\\b"],
    ),
    ("form/other-scheme", &["ftp://example.test", "file://", "x:", "javascript:"]),
    ("form/broken-scheme", &["http:/", "http:", "http:///", "://example.test", "http:\\\\example.test"]),
    ("form/dot-host", &["http://example.test."]),
];

/// Replacements of the whole target.
const TARGETS: &[(&str, &[&str])] = &[
    ("form/authority", &["example.test:80", "example.test"]),
    ("form/asterisk", &["*"]),
    ("form/asterisk-and-more", &["*/x", "**"]),
    ("form/empty", &[""]),
    ("form/question-mark", &["?q"]),
    ("form/absolute-without-path", &["http://example.test", "http://example.test?q=1"]),
];

const VERSIONS: &[(&str, &[&[u8]])] = &[
    ("version/1.0", &[b"HTTP/1.0"]),
    ("version/1.2", &[b"HTTP/1.2", b"HTTP/1.9"]),
    ("version/0.9", &[b"HTTP/0.9"]),
    ("version/2", &[b"HTTP/2.0", b"HTTP/2", b"HTTP/3.0", b"HTTP/9.9"]),
    ("version/case", &[b"http/1.1", b"Http/1.1"]),
    ("version/digits", &[b"HTTP/01.1", b"HTTP/1.01", b"HTTP/1.10", b"HTTP/11.1", b"HTTP/1.1.1"]),
    ("version/digits", &[b"HTTP/0001.1"]),
    ("version/broken", &[b"HTTP/1.", b"HTTP/.1", b"HTTP/1", b"HTTP/11", b"HTTP/", b"HTTP", b"HTTP/1,1"]),
    ("version/broken", &[b"HTTP/a.b"]),
    ("version/other-protocol", &[b"HTP/1.1", b"RTSP/1.0", b"HTTPS/1.1", b"XHTTP/1.1"]),
    ("version/text-behind", &[b"HTTP/1.1x", b"HTTP/1.1,", b"HTTP/1.1 x", b"HTTP/1.1\0"]),
    ("version/text-behind", &[b"HTTP/1.1 HTTP/1.1"]),
    ("version/space-within", &[b"HTTP/ 1.1", b"HTTP /1.1", b"HTTP/1 .1"]),
    ("version/space-behind", &[b"HTTP/1.1 ", b"HTTP/1.1\t", b"HTTP/1.1  "]),
];

/// Separators between method and target, and between target and version.
const GAPS: &[(&str, &[[&[u8]; 2]])] = &[
    ("space/two", &[[b"  ", b" "], [b" ", b"  "], [b"   ", b"   "]]),
    ("space/tab", &[[b"\t", b" "], [b" ", b"\t"], [b" \t", b" "], [b" ", b"\t "]]),
    ("space/other", &[[b"\x0b", b" "], [b" ", b"\x0c"], [b" ", b"\xa0"], [b"\r", b" "], [b" ", b"\r"]]),
    ("space/none", &[[b"", b" "], [b" ", b""]]),
];

const BEFORE: &[(&str, &[&[u8]])] = &[
    ("before/empty-line", &[b"\r\n"]),
    ("before/empty-lines", &[b"\r\n\r\n", b"\r\n\r\n\r\n\r\n"]),
    ("before/lf", &[b"\n", b"\n\n", b"\r\n\n"]),
    ("before/cr", &[b"\r", b"\r\r\n"]),
    ("before/space", &[b" ", b"\t", b" \r\n"]),
    ("before/other", &[b"\0", b"\xef\xbb\xbf", b"x\r\n", b"\x16\x03\x01"]),
];

pub(super) fn changes() -> Vec<Change> {
    let mut changes = Vec::new();
    pieces(&mut changes, METHODS, |request, text| request.method = text.to_vec());
    pieces(&mut changes, VERSIONS, |request, text| request.version = text.to_vec());
    pieces(&mut changes, BEFORE, |request, text| request.before = text.to_vec());
    for &(tag, origins) in ORIGINS {
        changes
            .extend(origins.iter().map(|text| Change::new(tag, |request| request.origin = (*text).into())));
    }
    for &(tag, targets) in TARGETS {
        changes.extend(targets.iter().map(|text| Change::new(tag, |request| whole_target(request, text))));
    }
    for &(tag, gaps) in GAPS {
        changes.extend(
            gaps.iter().map(|gaps| Change::new(tag, |request| request.gaps = gaps.map(<[u8]>::to_vec))),
        );
    }
    changes.push(Change::new("form/relative", |request| request.path.drain(..1).for_each(drop)));
    changes.push(Change::new("form/connect-authority", |request| {
        request.method = b"CONNECT".to_vec();
        whole_target(request, "example.test:80");
    }));
    changes.push(Change::new("form/options-asterisk", |request| {
        request.method = b"OPTIONS".to_vec();
        whole_target(request, "*");
    }));
    changes.push(Change::new("version/none", |request| {
        request.gaps[1].clear();
        request.version.clear();
    }));
    changes.push(Change::new("version/none-and-no-fields", |request| {
        request.gaps[1].clear();
        request.version.clear();
        request.fields.clear();
        request.ends[2] = b"";
    }));
    changes
}

type Texts = [(&'static str, &'static [&'static [u8]])];

fn pieces(changes: &mut Vec<Change>, table: &'static Texts, apply: fn(&mut Request, &[u8])) {
    for &(tag, texts) in table {
        changes.extend(texts.iter().map(|text| Change::new(tag, move |request| apply(request, text))));
    }
}

fn whole_target(request: &mut Request, target: &str) {
    request.path = target.into();
    request.query.clear();
}

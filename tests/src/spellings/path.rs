//! Spellings of a path and of its query.

use super::request::{Change, Request};

/// Insertions after a slash. Most of them disappear when segments are resolved (RFC 3986 §5.2.4).
const AFTER_SLASHES: &[(&str, &[&str])] = &[
    ("path/double-slash", &["/", "//"]),
    ("path/dot-segment", &["./"]),
    ("path/encoded-dot-segment", &["%2e/", "%2E/"]),
    ("path/dot-dot-segment", &["x/../", "x/y/../../"]),
    ("path/encoded-dot-dot-segment", &["x/%2e%2e/", "x/.%2E/", "x/%2E./"]),
    ("path/dot-dot-behind-slashes", &["x//../", "x/./../"]),
    ("path/double-encoded-dots", &["x/%252e%252e/"]),
    ("path/overlong-dots", &["x/%c0%ae%c0%ae/", "x/..%c0%af"]),
    ("path/parameter-dots", &["x/..;/", ";/", ";x=1/"]),
    ("path/slash-behind-dots", &["x/..%2f", "x/..%2F"]),
    ("path/backslash-behind-dots", &["x/..\\", "x/..%5c"]),
    ("path/three-dots", &["x/.../"]),
];

/// Replacements of a slash that is not the first.
const SLASHES: &[(&str, &[&str])] = &[
    ("path/encoded-slash", &["%2F", "%2f"]),
    ("path/backslash", &["\\", "/\\"]),
    ("path/encoded-backslash", &["%5C", "%5c"]),
    ("path/nul-and-slash", &["%00/"]),
    ("path/parameter", &[";/", ";x=1/"]),
    ("path/overlong-slash", &["%c0%af"]),
];

/// Prefixes of the path.
const BEFORE: &[(&str, &[&str])] = &[
    ("path/above-root", &["/..", "/../..", "/%2e%2e", "/x/../..", "/./..", "//..", "/.%2e/x/.."]),
    ("path/first-backslash", &["\\", "/\\..", "\\..\\"]),
    ("path/host-in-front", &["//example.test"]),
    ("path/encoded-first-slash", &["%2F", "/%2F"]),
];

/// Suffixes of the path.
const AFTER: &[(&str, &[&[u8]])] = &[
    ("path/final-slash", &[b"/", b"//"]),
    ("path/final-dot-segment", &[b"/.", b"/%2e", b"/./"]),
    ("path/final-dot-dot-segment", &[b"/x/..", b"/x/%2e%2e"]),
    ("path/final-dot", &[b".", b"%2e", b"..."]),
    ("path/final-space", &[b"%20", b"+"]),
    ("path/encoded-nul", &[b"%00", b"%00.txt", b"/%00"]),
    ("path/nul", &[b"\0", b"\0.txt"]),
    ("path/encoded-bytes-not-utf8", &[b"%ff", b"%C3", b"%ed%a0%80"]),
    ("path/bytes-not-utf8", &[b"\xff", b"\xc3("]),
    ("path/utf8", &["ü".as_bytes(), "/ü".as_bytes()]),
    ("path/encoded-utf8", &[b"%C3%BC"]),
    ("path/delimiter", &[b"\"", b"<", b">", b"{", b"}", b"|", b"^", b"`", b"<\"{|}^`>"]),
    ("path/encoded-delimiter", &[b"%22", b"%3C", b"%7B", b"%5B"]),
    ("path/bracket", &[b"[", b"]", b"[x]"]),
    ("path/bad-escape", &[b"%", b"%4", b"%zz", b"%u002e", b"%+1", b"% 0"]),
    ("path/fragment", &[b"#x", b"#", b"#/../"]),
    ("path/encoded-question-mark", &[b"%3F", b"%3Fa=b", b"%23"]),
    ("path/encoded-line-end", &[b"%0a", b"%0d%0aX-Injected:%20yes", b"%0D%0A"]),
    ("path/control", &[b"\x01", b"\x7f", b"\x1b[0m"]),
    ("path/encoded-control", &[b"%01", b"%7f"]),
    ("path/tab", &[b"\tx"]),
    ("path/space", &[b" x", b" x y"]),
    ("path/stream", &[b"::$DATA", b":x"]),
    ("path/final-parameter", &[b";", b";x", b";.css"]),
    ("path/last-suffix", &[b"/x.css", b"/.php", b".bak", b"~"]),
    ("path/double-encoded", &[b"%2500", b"%252F", b"%255c"]),
    ("path/sub-delimiter", &[b"!", b"$", b"&", b"'", b"(", b")", b"*", b",", b"=", b"@", b":"]),
];

const QUERIES: &[(&str, &[&[u8]])] = &[
    ("query/empty", &[b"?"]),
    ("query/plain", &[b"?q=1", b"?q", b"?a=b&a=c", b"?/../x"]),
    ("query/question-marks", &[b"??", b"?a?b"]),
    ("query/encoded", &[b"?a=%2F..%2F", b"?a=%20+", b"?%2e%2e/"]),
    ("query/encoded-nul", &[b"?a=%00"]),
    ("query/encoded-line-end", &[b"?a=%0d%0aX-Injected:%20yes"]),
    ("query/encoded-bytes-not-utf8", &[b"?a=%ff"]),
    ("query/delimiter", &[b"?<>", b"?\"", b"?{}|^`"]),
    ("query/bracket", &[b"?a[]=1", b"?a[0]=b\\"]),
    ("query/bad-escape", &[b"?%", b"?%zz"]),
    ("query/bytes-not-utf8", &[b"?\xff"]),
    ("query/utf8", &["?ü".as_bytes()]),
    ("query/fragment", &[b"?a#b"]),
    ("query/space", &[b"?a b"]),
    ("query/control", &[b"?\x01", b"?\x7f"]),
    ("query/nul", &[b"?\0"]),
    ("query/tab", &[b"?\t"]),
];

pub(super) fn changes() -> Vec<Change> {
    let mut changes = Vec::new();
    for &(tag, texts) in AFTER_SLASHES {
        on_slashes(&mut changes, tag, texts, |text| format!("/{text}"), 0);
    }
    for &(tag, texts) in SLASHES {
        on_slashes(&mut changes, tag, texts, str::to_owned, 1);
    }
    for &(tag, texts) in BEFORE {
        for text in texts {
            changes.push(Change::new(tag, |request| request.path.splice(..0, text.bytes()).for_each(drop)));
        }
    }
    for &(tag, texts) in AFTER {
        changes.extend(
            texts.iter().map(|text| Change::new(tag, |request| request.path.extend_from_slice(text))),
        );
    }
    for &(tag, texts) in QUERIES {
        changes.extend(texts.iter().map(|text| Change::new(tag, |request| request.query = text.to_vec())));
    }
    changes.extend((1..24).flat_map(encoded_letter));
    changes.push(Change::new("path/encoded-letters", |request| encode_letters(request, |_| true)));
    changes.push(Change::new("path/upper-case", |request| {
        if !request.path.contains(&b'%') {
            request.path.make_ascii_uppercase();
        }
    }));
    changes.push(Change::new("path/encoded-space-as-plus", |request| replace(request, "%20", b"+")));
    changes.push(Change::new("path/plain-space", |request| replace(request, "%20", b" ")));
    changes.push(Change::new("path/long", |request| {
        request.path.splice(..0, format!("/{}/..", "x".repeat(9000)).bytes()).for_each(drop);
    }));
    changes.push(Change::new("path/many-segments", |request| {
        request.path.splice(..0, "/x/..".repeat(400).bytes()).for_each(drop);
    }));
    changes.push(Change::new("query/long", |request| {
        request.query = format!("?{}", "x".repeat(9000)).into_bytes();
    }));
    changes
}

/// Adds changes that replace one slash each, from the slash with index `first` on.
fn on_slashes(
    changes: &mut Vec<Change>,
    tag: &'static str,
    texts: &'static [&'static str],
    replacement: fn(&'static str) -> String,
    first: usize,
) {
    for text in texts {
        for index in first..3 {
            changes.push(Change::new(tag, move |request| {
                let slashes: Vec<_> =
                    request.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').collect();
                let Some(&(at, _)) = slashes.get(index) else { return };
                request.path.splice(at..=at, replacement(text).bytes()).for_each(drop);
            }));
        }
    }
}

/// Returns changes that percent-encode the letter at this position, with lower-case and upper-case digits.
fn encoded_letter(at: usize) -> [Change; 2] {
    let encode = |digits: fn(u8) -> String| {
        move |request: &mut Request| {
            let Some(&letter) = request.path.get(at) else { return };
            if letter.is_ascii_alphabetic() && !request.path[..at].ends_with(b"%") {
                request.path.splice(at..=at, digits(letter).bytes()).for_each(drop);
            }
        }
    };
    [
        Change::new("path/encoded-letter", encode(|letter| format!("%{letter:02x}"))),
        Change::new("path/encoded-letter", encode(|letter| format!("%{letter:02X}"))),
    ]
}

fn encode_letters(request: &mut Request, which: fn(u8) -> bool) {
    if !request.path.contains(&b'%') {
        let encode = |&byte: &u8| match byte {
            b'/' => vec![byte],
            byte if which(byte) => format!("%{byte:02x}").into_bytes(),
            byte => vec![byte],
        };
        request.path = request.path.iter().flat_map(encode).collect();
    }
}

fn replace(request: &mut Request, from: &str, to: &[u8]) {
    let at = request.path.windows(from.len()).position(|window| window == from.as_bytes());
    if let Some(at) = at {
        request.path.splice(at..at + from.len(), to.iter().copied()).for_each(drop);
    }
}

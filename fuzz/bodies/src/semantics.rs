//! Header fields and paths. The first byte selects the field, the rest is the value.

use http::{HeaderMap, HeaderValue, Method};
use rudy_message::semantics::conditional::{Validators, evaluate};
use rudy_message::semantics::date::HttpDate;
use rudy_message::semantics::etag::{EntityTag, FileIdentity};
use rudy_message::semantics::negotiation::{AcceptedCodings, Coding, choose_media_type};
use rudy_message::semantics::path::RequestPath;
use rudy_message::semantics::range::{self, Ranges};

pub(crate) fn run(data: &[u8]) {
    let [kind, value @ ..] = data else { return };
    if kind % 5 == 0 {
        return path(value);
    }
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    match kind % 5 {
        1 => ranges(&value, u64::from(*kind)),
        2 => negotiation(&value),
        3 => conditions(&value),
        _ => drop(HttpDate::parse(value.as_bytes()).map(|date| {
            // A parsed date is formatted as a date that parses to the same value.
            assert_eq!(HttpDate::parse(date.to_value().as_bytes()), Some(date));
        })),
    }
}

/// Checks that a canonical path is below the root, and that it parses to itself after encoding.
fn path(value: &[u8]) {
    let Ok(text) = std::str::from_utf8(value) else { return };
    let Ok(path) = RequestPath::parse(text) else { return };
    let bytes = path.as_bytes();
    assert!(bytes.starts_with(b"/") && !bytes.contains(&0), "{path:?}");
    let mut segments = bytes.split(|byte| *byte == b'/');
    assert!(segments.all(|segment| segment != b"." && segment != b".."), "{path:?}");
    let again = RequestPath::parse(&path.encoded_from(0)).map(RequestPath::into_owned);
    assert_eq!(again.as_ref(), Ok(&path));
    let below = path.below(0);
    if let Ok(name) = below.in_folder() {
        assert!(!name.contains('\\'), "{name:?}");
    }
    for start in (0..bytes.len()).filter(|at| bytes[*at] == b'/') {
        if let Ok(info) = below.path_info(start) {
            let mut segments = info.split(|byte| *byte == b'/');
            assert!(segments.all(|segment| segment != b"." && segment != b".."), "{path:?}");
        }
    }
}

/// Checks that all spans are within the representation and do not touch.
fn ranges(value: &HeaderValue, size: u64) {
    let spans = match range::parse(value.as_bytes(), size) {
        Ranges::Ignored | Ranges::Unsatisfiable => return,
        Ranges::One(span) => vec![span],
        Ranges::Several(spans) => spans,
    };
    assert!(spans.iter().all(|span| span.length > 0 && span.end() <= size), "{spans:?}");
    let mut sorted = spans.clone();
    sorted.sort_by_key(|span| span.start);
    assert!(sorted.windows(2).all(|pair| pair[0].end() < pair[1].start), "{spans:?}");
    let _ = range::parse(value.as_bytes(), u64::MAX);
}

fn negotiation(value: &HeaderValue) {
    let coding = AcceptedCodings::parse([value]).choose(|coding| coding != Coding::Zstd);
    assert_ne!(coding, Coding::Zstd, "it was not available");
    let offers = ["text/html", "application/json"];
    let chosen = choose_media_type([value], &offers).expect("there are offers");
    assert!(offers.contains(&chosen));
}

fn conditions(value: &HeaderValue) {
    let identity = FileIdentity { size: 1, modified_ns: 1_000_000_000, inode: 1 };
    let tag = EntityTag::of_file(&identity, "", false);
    let current = Validators { tag, modified: HttpDate::from_unix_seconds(1) };
    for name in ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"] {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.clone());
        headers.insert("range", HeaderValue::from_static("bytes=0-0"));
        let _ = evaluate(&Method::GET, &headers, &current);
        let _ = evaluate(&Method::PUT, &headers, &current);
    }
}

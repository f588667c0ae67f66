//! Byte ranges (RFC 9110 §14) and multipart responses (§14.6).

use bytes::Bytes;
use http::HeaderValue;

use crate::syntax::{members, parse_digits, parse_digits_saturating};

/// The maximum number of ranges in one request; a field with more is ignored. Clients request a few (a PDF viewer dozens),
/// and hundreds of small ranges are an attack (§17.15). Apache's limit is 200.
pub const RANGES_MAX: usize = 100;

/// A part of a representation: `length` bytes, never 0, from `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The position of the first byte.
    pub start: u64,
    /// The number of bytes.
    pub length: u64,
}

/// The parts of a representation that a `Range` field requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The field is ignored, because of another unit, invalid syntax or too many ranges: 200 with the whole representation.
    Ignored,
    /// All ranges are outside of the representation: 416.
    Unsatisfiable,
    /// One part: 206.
    One(Span),
    /// Several parts with gaps between them: 206, multipart.
    Several(Vec<Span>),
}

impl Span {
    /// Returns the position after the last byte.
    #[must_use]
    pub fn end(self) -> u64 {
        self.start + self.length
    }

    /// Returns the `Content-Range` of a 206 (§14.4).
    #[must_use]
    pub fn content_range(self, size: u64) -> HeaderValue {
        field(format!("bytes {}-{}/{size}", self.start, self.end() - 1))
    }

    /// Whether all bytes of the other span are in this one.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }

    /// Whether the spans overlap or are adjacent.
    fn touches(self, other: Self) -> bool {
        self.start <= other.end() && other.start <= self.end()
    }

    fn joined(self, other: Self) -> Self {
        let start = self.start.min(other.start);
        Self { start, length: self.end().max(other.end()) - start }
    }
}

/// Returns the `Range` of all bytes from `start` (§14.1.1).
#[must_use]
pub fn starting_at(start: u64) -> HeaderValue {
    field(format!("bytes={start}-"))
}

/// Returns the `Content-Range` of a 416 (§14.4).
#[must_use]
pub fn unsatisfied_content_range(size: u64) -> HeaderValue {
    field(format!("bytes */{size}"))
}

/// Parses the `Content-Range` of a 206 with one part: the part, and the size of the representation if it is known (§14.4).
///
/// `None` also for a value that a recipient MUST NOT use: the last position is before the first, or not within the size.
#[must_use]
pub fn parse_content_range(value: &HeaderValue) -> Option<(Span, Option<u64>)> {
    let text = value.as_bytes();
    let space = text.iter().position(|&byte| byte == b' ')?;
    let range = text[..space].eq_ignore_ascii_case(b"bytes").then(|| &text[space + 1..])?;
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let slash = range.iter().position(|&byte| byte == b'/').filter(|slash| *slash > dash)?;
    let (first, last) = (parse_digits(&range[..dash])?, parse_digits(&range[dash + 1..slash])?);
    let size = match &range[slash + 1..] {
        b"*" => None,
        size => Some(parse_digits(size)?),
    };
    if size.is_some_and(|size| size <= last) {
        return None;
    }
    // The end of the span, one more than the last position, also has to fit 64 bits.
    let length = last.checked_add(1)?.checked_sub(first).filter(|length| *length > 0)?;
    Some((Span { start: first, length }, size))
}

/// Parses a `Range` field for a representation of `size` bytes.
///
/// Ranges that overlap or are adjacent are joined (§14.2), at the position of the first of them. The result is otherwise in
/// the requested order (§15.3.7.2).
#[must_use]
pub fn parse(value: &[u8], size: u64) -> Ranges {
    let Some(specs) = byte_ranges(value) else { return Ranges::Ignored };
    let mut spans: Vec<Span> = Vec::new();
    let mut count = 0;
    for spec in members(specs) {
        count += 1;
        let Some(spec) = Spec::parse(spec).filter(|_| count <= RANGES_MAX) else { return Ranges::Ignored };
        match spec.resolve(size) {
            Resolved::Span(span) => insert(&mut spans, span),
            Resolved::Nothing => {}
            Resolved::Empty => return Ranges::Ignored,
        }
    }
    match spans.as_slice() {
        [] if count == 0 => Ranges::Ignored,
        [] => Ranges::Unsatisfiable,
        [span] => Ranges::One(*span),
        _ => Ranges::Several(spans),
    }
}

/// Returns the text after `bytes=`. Unit names are case-insensitive (§14.1).
fn byte_ranges(value: &[u8]) -> Option<&[u8]> {
    let equals = value.iter().position(|&byte| byte == b'=')?;
    value[..equals].eq_ignore_ascii_case(b"bytes").then(|| &value[equals + 1..])
}

/// Adds a span, joined with all spans that it touches. One pass is enough, because the existing spans do not touch.
pub fn insert(spans: &mut Vec<Span>, span: Span) {
    let whole = spans.iter().filter(|other| other.touches(span)).fold(span, |sum, other| sum.joined(*other));
    match spans.iter().position(|other| other.touches(span)) {
        None => spans.push(span),
        Some(first) => {
            spans[first] = whole;
            let mut index = 0;
            spans.retain(|other| {
                index += 1;
                index <= first + 1 || !other.touches(span)
            });
        }
    }
}

/// A `range-spec` (§14.1.1).
enum Spec {
    /// `first-last` or `first-`; both positions are inclusive.
    From { first: u64, last: u64 },
    /// `-length`: the end of the representation.
    Last(u64),
}

enum Resolved {
    Span(Span),
    /// The range is outside of the representation: unsatisfiable.
    Nothing,
    /// A suffix of an empty representation: satisfiable (§14.1.2), but a `Content-Range` cannot express it.
    Empty,
}

impl Spec {
    /// Parses a `range-spec`. A position that does not fit 64 bits is beyond the end of every file.
    fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&byte| byte == b'-')?;
        let (first, last) = (&text[..dash], &text[dash + 1..]);
        match (first.is_empty(), last.is_empty()) {
            (true, _) => Some(Self::Last(parse_digits_saturating(last)?)),
            (false, true) => Some(Self::From { first: parse_digits_saturating(first)?, last: u64::MAX }),
            (false, false) => {
                let (first, last) = (parse_digits_saturating(first)?, parse_digits_saturating(last)?);
                // §14.1.1: invalid if the last position is less than the first.
                (first <= last).then_some(Self::From { first, last })
            }
        }
    }

    fn resolve(&self, size: u64) -> Resolved {
        match *self {
            Self::From { first, .. } if first >= size => Resolved::Nothing,
            Self::From { first, last } => {
                Resolved::Span(Span { start: first, length: last.min(size - 1) - first + 1 })
            }
            Self::Last(0) => Resolved::Nothing,
            Self::Last(_) if size == 0 => Resolved::Empty,
            Self::Last(length) => {
                Resolved::Span(Span { start: size.saturating_sub(length), length: length.min(size) })
            }
        }
    }
}

/// The layout of a multipart response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart {
    /// The `Content-Type` of the response, with the boundary.
    pub content_type: HeaderValue,
    /// The parts, each with the bytes before it.
    pub parts: Vec<(Bytes, Span)>,
    /// The bytes after the last part.
    pub end: Bytes,
}

/// Lays out a `multipart/byteranges` body (§14.6). `boundary` must be unpredictable: a file that contains it could fake parts.
#[must_use]
pub fn multipart(spans: &[Span], size: u64, media_type: Option<&HeaderValue>, boundary: u128) -> Multipart {
    let boundary = format!("{boundary:032x}");
    let parts = spans.iter().enumerate().map(|(index, span)| {
        let mut head = Vec::with_capacity(160);
        head.extend_from_slice(if index == 0 { b"--" } else { b"\r\n--" });
        head.extend_from_slice(boundary.as_bytes());
        if let Some(media_type) = media_type {
            // §15.3.7.2: SHOULD be in each part if it would have been in a 200.
            head.extend_from_slice(b"\r\nContent-Type: ");
            head.extend_from_slice(media_type.as_bytes());
        }
        head.extend_from_slice(b"\r\nContent-Range: ");
        head.extend_from_slice(span.content_range(size).as_bytes());
        head.extend_from_slice(b"\r\n\r\n");
        (Bytes::from(head), *span)
    });
    Multipart {
        parts: parts.collect(),
        end: Bytes::from(format!("\r\n--{boundary}--\r\n")),
        content_type: field(format!("multipart/byteranges; boundary={boundary}")),
    }
}

fn field(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("numbers and words are field characters")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str, size: u64) -> Ranges {
        parse(text.as_bytes(), size)
    }

    fn one(start: u64, length: u64) -> Ranges {
        Ranges::One(Span { start, length })
    }

    fn several(spans: &[(u64, u64)]) -> Ranges {
        Ranges::Several(spans.iter().map(|&(start, length)| Span { start, length }).collect())
    }

    #[test]
    fn a_content_range_is_within_its_size() {
        let part = |start, length, size| Some((Span { start, length }, size));
        for (text, expected) in [
            ("bytes 0-0/1", part(0, 1, Some(1))),
            ("Bytes 3-5/10", part(3, 3, Some(10))),
            ("bytes 3-5/*", part(3, 3, None)),
            ("bytes 0-18446744073709551614/18446744073709551615", part(0, u64::MAX, Some(u64::MAX))),
            ("bytes 0-18446744073709551615/*", None),
            ("bytes 5-3/10", None),
            ("bytes 3-5/5", None),
            ("bytes */10", None),
            ("bytes 3/5-10", None),
            ("bytes=3-5/10", None),
            ("bytes 3-5", None),
            ("bytes  3-5/10", None),
            ("bytes 3-5/10 ", None),
            ("lines 3-5/10", None),
            ("", None),
        ] {
            assert_eq!(parse_content_range(&HeaderValue::from_str(text).unwrap()), expected, "{text:?}");
        }
    }

    #[test]
    fn one_range_selects_one_part() {
        for (text, expected) in [
            ("bytes=0-0", one(0, 1)),
            ("bytes=0-9", one(0, 10)),
            ("bytes=0-", one(0, 10)),
            ("bytes=3-5", one(3, 3)),
            ("bytes=3-500", one(3, 7)),
            ("bytes=9-", one(9, 1)),
            ("bytes=-1", one(9, 1)),
            ("bytes=-10", one(0, 10)),
            ("bytes=-11", one(0, 10)),
            ("BYTES=3-5", one(3, 3)),
            ("bytes= 3-5", one(3, 3)),
            ("bytes=,3-5,", one(3, 3)),
            ("bytes=0-99999999999999999999999", one(0, 10)),
            ("bytes=-99999999999999999999999", one(0, 10)),
            ("bytes=10-", Ranges::Unsatisfiable),
            ("bytes=10-20", Ranges::Unsatisfiable),
            ("bytes=99999999999999999999999-", Ranges::Unsatisfiable),
            ("bytes=-0", Ranges::Unsatisfiable),
        ] {
            assert_eq!(of(text, 10), expected, "{text}");
        }
    }

    #[test]
    fn invalid_byte_ranges_are_ignored() {
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=5-3",
            "bytes=0x1-2",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes=--1",
            "bytes=1 -2",
            "bytes=0-1;2-3",
            "bytes=0-1,x",
            "bytes =0-1",
            "items=0-1",
            "lines",
        ] {
            assert_eq!(of(text, 10), Ranges::Ignored, "{text:?}");
        }
    }

    #[test]
    fn a_file_without_bytes_has_no_ranges() {
        assert_eq!(of("bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(of("bytes=-5", 0), Ranges::Ignored);
    }

    #[test]
    fn several_ranges_are_joined_if_they_touch_and_keep_their_order() {
        for (text, expected) in [
            ("bytes=0-1,4-5", several(&[(0, 2), (4, 2)])),
            ("bytes=4-5,0-1", several(&[(4, 2), (0, 2)])),
            ("bytes=0-1,2-3", one(0, 4)),
            ("bytes=2-3,0-1", one(0, 4)),
            ("bytes=0-5,2-3", one(0, 6)),
            ("bytes=0-0,-1", several(&[(0, 1), (9, 1)])),
            ("bytes=8-9,0-0,4-4,0-9", one(0, 10)),
            ("bytes=8-9,0-0,2-2,1-1", several(&[(8, 2), (0, 3)])),
            ("bytes=0-1 , 4-5", several(&[(0, 2), (4, 2)])),
            ("bytes=0-1,50-60", one(0, 2)),
            ("bytes=50-60,70-", Ranges::Unsatisfiable),
        ] {
            assert_eq!(of(text, 10), expected, "{text}");
        }
    }

    #[test]
    fn too_many_ranges_are_ignored() {
        let list = |count: usize| {
            let specs: Vec<String> = (0..count).map(|n| format!("{0}-{0}", n * 2)).collect();
            format!("bytes={}", specs.join(","))
        };
        assert!(matches!(of(&list(RANGES_MAX), 1000), Ranges::Several(spans) if spans.len() == RANGES_MAX));
        assert_eq!(of(&list(RANGES_MAX + 1), 1000), Ranges::Ignored);
    }

    #[test]
    fn content_range_has_the_position_of_the_last_byte() {
        assert_eq!(Span { start: 0, length: 500 }.content_range(1234), "bytes 0-499/1234");
        assert_eq!(unsatisfied_content_range(1234), "bytes */1234");
    }

    #[test]
    fn a_multipart_body_is_framed_by_its_boundary() {
        let spans = [Span { start: 0, length: 2 }, Span { start: 5, length: 1 }];
        let plan = multipart(&spans, 10, Some(&HeaderValue::from_static("text/plain")), 0xab);
        let boundary = "000000000000000000000000000000ab";
        assert_eq!(plan.content_type, format!("multipart/byteranges; boundary={boundary}"));
        let mut text = String::new();
        for (head, span) in &plan.parts {
            text.push_str(std::str::from_utf8(head).unwrap());
            text.push_str(&"x".repeat(usize::try_from(span.length).unwrap()));
        }
        text.push_str(std::str::from_utf8(&plan.end).unwrap());
        assert_eq!(
            text,
            format!(
                "--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\nxx\
                 \r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 5-5/10\r\n\r\nx\
                 \r\n--{boundary}--\r\n"
            )
        );
        assert!(!multipart(&spans, 10, None, 1).parts[0].0.windows(12).any(|w| w == b"Content-Type"));
    }

    proptest! {
        #[test]
        fn each_requested_byte_is_sent_once(
            size in 1_u64..50,
            specs in proptest::collection::vec((0_u64..60, 0_u64..20), 1..RANGES_MAX),
        ) {
            let text: Vec<String> = specs.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect();
            let spans = match of(&format!("bytes={}", text.join(",")), size) {
                Ranges::Ignored => return Err(TestCaseError::fail("the syntax is valid")),
                Ranges::Unsatisfiable => vec![],
                Ranges::One(span) => vec![span],
                Ranges::Several(spans) => spans,
            };
            for position in 0..size + 2 {
                let is_requested = position < size
                    && specs.iter().any(|&(first, more)| (first..=first + more).contains(&position));
                let sent = spans.iter().filter(|span| (span.start..span.end()).contains(&position)).count();
                prop_assert_eq!(sent, usize::from(is_requested), "byte {}", position);
            }
            for (index, span) in spans.iter().enumerate() {
                prop_assert!(spans[index + 1..].iter().all(|other| !span.touches(*other)));
            }
        }

        #[test]
        fn any_text_is_parsed_without_a_panic(text in "(bytes=)?[-0-9, a]{0,40}", size: u64) {
            if let Ranges::Several(spans) = of(&text, size) {
                prop_assert!(spans.len() <= RANGES_MAX && spans.iter().all(|span| span.end() <= size));
            }
        }
    }
}

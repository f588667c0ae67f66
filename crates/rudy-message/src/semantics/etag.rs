//! Entity tags (RFC 9110 §8.8.3).

use http::HeaderValue;

/// An entity tag of a file: `"opaque"`, or `W/"opaque"` if equal tags guarantee only equivalent content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag(HeaderValue);

/// The identity of a version of a file. Equal identities have the same content, if the file was unchanged for
/// [`MTIME_STABLE_NS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Inode number. It changes if another file is renamed over this one, even with the same modification time.
    pub inode: u64,
}

/// The age of a modification time, in nanoseconds, after which equal times mean equal content. Before, two writes may get the
/// same time: its resolution is 10 ms on a slow kernel, 1 s on some network file systems, 2 s on FAT.
pub const MTIME_STABLE_NS: i128 = 2_000_000_000;

impl FileIdentity {
    /// Whether the modification time is old enough for a strong tag, at `now_ns` nanoseconds since 1970. A time in the future
    /// is not.
    #[must_use]
    pub fn is_mtime_stable(&self, now_ns: i128) -> bool {
        now_ns - self.modified_ns >= MTIME_STABLE_NS
    }
}

impl EntityTag {
    /// Creates the tag of a file. `coding` is the name of the content coding, or empty: each coding of a file needs its own tag
    /// (RFC 9110 §8.8.3.3).
    #[must_use]
    pub fn of_file(file: &FileIdentity, coding: &str, weak: bool) -> Self {
        let FileIdentity { size, modified_ns, inode } = file;
        let (prefix, dash) = (if weak { "W/" } else { "" }, if coding.is_empty() { "" } else { "-" });
        let text = format!("{prefix}\"{size:x}-{modified_ns:x}-{inode:x}{dash}{coding}\"");
        Self(
            HeaderValue::try_from(text)
                .expect("hexadecimal digits and the name of a coding are field characters"),
        )
    }

    /// Parses the `ETag` of a response. `None` if the value is not one tag.
    #[must_use]
    pub fn parse(value: &HeaderValue) -> Option<Self> {
        let (_, rest) = Received::parse(value.as_bytes())?;
        rest.is_empty().then(|| Self(value.clone()))
    }

    /// Whether the tags match.
    #[must_use]
    pub fn matches(&self, other: &Self, comparison: Comparison) -> bool {
        self.as_received().matches(other.as_received(), comparison)
    }

    /// Returns the field value.
    #[must_use]
    pub fn value(&self) -> &HeaderValue {
        &self.0
    }

    /// Whether equal tags guarantee only equivalent content.
    #[must_use]
    #[inline]
    pub fn is_weak(&self) -> bool {
        // Each response from a file asks: parsing the tag would take 340 instructions.
        self.0.as_bytes().starts_with(WEAK_PREFIX)
    }

    /// Returns the weak tag with the same characters; `None` if this one is weak.
    #[must_use]
    pub fn weakened(&self) -> Option<Self> {
        let weak = [WEAK_PREFIX, self.0.as_bytes()].concat();
        (!self.is_weak()).then(|| HeaderValue::from_bytes(&weak).ok().map(Self)).flatten()
    }

    fn as_received(&self) -> Received<'_> {
        // `of_file` and `parse` make valid tags only. The fallback, an empty weak tag, has no strong match.
        Received::parse(self.0.as_bytes()).map_or(Received { weak: true, opaque: b"" }, |(tag, _)| tag)
    }
}

/// The kinds of tag comparison (RFC 9110 §8.8.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Both tags are strong and have the same characters: identical content.
    Strong,
    /// The tags have the same characters: equivalent content.
    Weak,
}

/// Whether a field with `*` or a list of tags matches the current tag. Without a tag, only `*` matches.
///
/// The `lines` of the field are one list (RFC 9110 §5.3). An invalid element ends its line, because the start of the next
/// element is unknown.
pub fn list_matches<'a>(
    lines: impl IntoIterator<Item = &'a [u8]>,
    current: Option<&EntityTag>,
    comparison: Comparison,
) -> bool {
    let current = current.map(EntityTag::as_received);
    let is_current = |tag: Received<'_>| current.is_some_and(|current| tag.matches(current, comparison));
    lines.into_iter().any(|line| {
        let line = line.trim_ascii();
        line == b"*" || tags(line).any(is_current)
    })
}

/// Whether a field with one tag (`If-Range`) matches the current tag, in a strong comparison. `None` if the field is not a tag.
#[must_use]
pub fn single_matches(value: &[u8], current: Option<&EntityTag>) -> Option<bool> {
    let (tag, rest) = Received::parse(value.trim_ascii())?;
    let is_current = |current: &EntityTag| tag.matches(current.as_received(), Comparison::Strong);
    rest.is_empty().then(|| current.is_some_and(is_current))
}

/// It is case-sensitive (RFC 9110 §8.8.3).
const WEAK_PREFIX: &[u8] = b"W/";

/// A received tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Received<'a> {
    weak: bool,
    opaque: &'a [u8],
}

impl<'a> Received<'a> {
    /// Parses a tag at the start of `text`. Returns the tag and the rest.
    fn parse(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (weak, quoted) = match text.strip_prefix(WEAK_PREFIX) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let end = inner.iter().position(|&byte| !is_tag_character(byte))?;
        let rest = inner[end..].strip_prefix(b"\"")?;
        Some((Self { weak, opaque: &inner[..end] }, rest))
    }

    fn matches(self, other: Received<'_>, comparison: Comparison) -> bool {
        let strong_enough = comparison == Comparison::Weak || !(self.weak || other.weak);
        strong_enough && self.opaque == other.opaque
    }
}

/// Returns the tags of a list up to its first invalid element, without empty elements (RFC 9110 §5.6.1.2).
fn tags(mut list: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', rest @ ..] = list {
            list = rest;
        }
        let (tag, rest) = Received::parse(list)?;
        let rest = rest.trim_ascii_start();
        // Two tags without a comma between them are not a list.
        list = if rest.is_empty() || rest[0] == b',' { rest } else { b"" };
        Some(tag)
    })
}

/// Whether a byte is an `etagc` (RFC 9110 §8.8.3): printable ASCII except the double quote, or not ASCII.
fn is_tag_character(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..=0xff)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: FileIdentity = FileIdentity { size: 255, modified_ns: 16, inode: 1 };

    fn matches(list: &str, weak: bool, comparison: Comparison) -> bool {
        list_matches([list.as_bytes()], Some(&EntityTag::of_file(&FILE, "", weak)), comparison)
    }

    #[test]
    fn the_tag_has_the_coding_and_the_weakness() {
        for (coding, weak, expected) in [
            ("", false, "\"ff-10-1\""),
            ("", true, "W/\"ff-10-1\""),
            ("br", false, "\"ff-10-1-br\""),
            ("gzip", true, "W/\"ff-10-1-gzip\""),
        ] {
            let tag = EntityTag::of_file(&FILE, coding, weak);
            assert_eq!(tag.value(), expected);
            assert_eq!(tag.is_weak(), weak);
        }
    }

    #[test]
    fn tags_are_compared_as_in_section_8_8_3_2() {
        for (theirs, ours_weak, strong, weak) in [
            ("W/\"ff-10-1\"", true, false, true),
            ("W/\"other\"", true, false, false),
            ("W/\"ff-10-1\"", false, false, true),
            ("\"ff-10-1\"", true, false, true),
            ("\"ff-10-1\"", false, true, true),
        ] {
            assert_eq!(matches(theirs, ours_weak, Comparison::Strong), strong, "{theirs} strong");
            assert_eq!(matches(theirs, ours_weak, Comparison::Weak), weak, "{theirs} weak");
        }
    }

    #[test]
    fn lists_end_at_their_first_invalid_element() {
        for (list, expected) in [
            ("*", true),
            (" * ", true),
            ("\"a\", \"ff-10-1\"", true),
            ("\"a\",\"ff-10-1\",\"b\"", true),
            (",, \"a\" , , \"ff-10-1\" ,", true),
            ("\"a,b\", \"ff-10-1\"", true),
            ("W/\"a\", W/\"ff-10-1\"", true),
            ("\"\", \"ff-10-1\"", true),
            ("", false),
            ("\"a\"", false),
            ("ff-10-1", false),
            ("w/\"ff-10-1\"", false),
            ("\"ff-10-1", false),
            ("\"FF-10-1\"", false),
            ("\"a\" \"ff-10-1\"", false),
            ("broken, \"ff-10-1\"", false),
            ("*, \"ff-10-1\"", false),
        ] {
            assert_eq!(matches(list, false, Comparison::Weak), expected, "{list}");
        }
    }

    #[test]
    fn the_lines_of_a_field_are_one_list() {
        let lines = ["\"a\"", "\"ff-10-1\""].map(str::as_bytes);
        assert!(list_matches(lines, Some(&EntityTag::of_file(&FILE, "", false)), Comparison::Strong));
    }

    #[test]
    fn a_single_tag_is_not_a_list() {
        let current = EntityTag::of_file(&FILE, "", false);
        for (text, expected) in [
            ("\"ff-10-1\"", Some(true)),
            ("W/\"ff-10-1\"", Some(false)),
            ("\"a\"", Some(false)),
            ("\"ff-10-1\", \"a\"", None),
            ("*", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(single_matches(text.as_bytes(), Some(&current)), expected, "{text}");
        }
    }

    #[test]
    fn a_received_tag_is_one_tag() {
        for (text, is_weak) in [
            ("\"a\"", Some(false)),
            ("W/\"a,b\"", Some(true)),
            ("\"\"", Some(false)),
            ("\"a\", \"b\"", None),
            ("a", None),
            ("*", None),
            ("", None),
        ] {
            let tag = EntityTag::parse(&HeaderValue::from_str(text).unwrap());
            assert_eq!(tag.as_ref().map(EntityTag::is_weak), is_weak, "{text}");
            assert_eq!(
                tag.map(|tag| tag.matches(&tag, Comparison::Strong)),
                is_weak.map(|weak| !weak),
                "{text}"
            );
        }
    }

    #[test]
    fn without_a_tag_only_the_asterisk_matches() {
        assert!(list_matches([&b"*"[..]], None, Comparison::Strong));
        assert!(!list_matches([&b"\"a\""[..]], None, Comparison::Weak));
        assert_eq!(single_matches(b"\"a\"", None), Some(false));
    }

    #[test]
    fn a_modification_time_is_stable_after_two_seconds() {
        for (now_ns, is_stable) in [(16, false), (2_000_000_015, false), (2_000_000_016, true), (0, false)] {
            assert_eq!(FILE.is_mtime_stable(now_ns), is_stable, "{now_ns}");
        }
    }

    proptest! {
        #[test]
        fn every_tag_matches_itself(size: u64, modified_ns: i128, inode: u64, weak: bool) {
            let tag = EntityTag::of_file(&FileIdentity { size, modified_ns, inode }, "zstd", weak);
            prop_assert!(list_matches([tag.value().as_bytes()], Some(&tag), Comparison::Weak));
            prop_assert_eq!(list_matches([tag.value().as_bytes()], Some(&tag), Comparison::Strong), !weak);
        }

        #[test]
        fn any_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(0x20_u8.., 0..64)) {
            let tag = EntityTag::of_file(&FILE, "", false);
            list_matches([&bytes[..]], Some(&tag), Comparison::Weak);
            let _ = single_matches(&bytes, Some(&tag));
        }
    }
}

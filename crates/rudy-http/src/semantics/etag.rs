//! Entity tags (RFC 9110 §8.8.3).

use http::HeaderValue;

/// An entity tag that we made: `"opaque"`, or `W/"opaque"` where equal tags promise only equivalent content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag(HeaderValue);

/// What a file is known by. Two files, or one file at two times, that agree in all of it hold the same bytes, provided
/// that the file was left alone for [`MTIME_STABLE_NS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Inode number: a file renamed over another has its own, even if its times were copied from the old one.
    pub inode: u64,
}

/// How old a modification time must be, in nanoseconds, before equal times mean equal content. Two writes may fall into one
/// tick of the clock that stamps files: 10 ms on a slow kernel, 1 s on some network file systems, 2 s on FAT.
pub const MTIME_STABLE_NS: i128 = 2_000_000_000;

impl FileIdentity {
    /// Whether the file has been left alone long enough at `now_ns` (since 1970) for a strong tag.
    /// A modification time in the future says nothing, so it does not count as settled.
    #[must_use]
    pub fn is_mtime_stable(&self, now_ns: i128) -> bool {
        now_ns - self.modified_ns >= MTIME_STABLE_NS
    }
}

impl EntityTag {
    /// The tag of a file as it is sent. `coding` is the content coding's name, empty for none: RFC 9110 §8.8.3.3 asks that
    /// codings of one file differ in their tags.
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

    /// As a field value.
    #[must_use]
    pub fn value(&self) -> &HeaderValue {
        &self.0
    }

    /// Whether equal tags promise only equivalent content.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        self.as_received().weak
    }

    fn as_received(&self) -> Received<'_> {
        // It was made above, so it is one tag and nothing else; an empty weak tag equals nothing strongly.
        Received::parse(self.0.as_bytes()).map_or(Received { weak: true, opaque: b"" }, |(tag, _)| tag)
    }
}

/// How tags are compared (RFC 9110 §8.8.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Both strong, and the same characters: the same bytes.
    Strong,
    /// The same characters: as good as the same.
    Weak,
}

/// What a field that holds `*` or a list of tags says of a representation's tag.
///
/// `lines` are the field's lines: they count as one list (RFC 9110 §5.3). What is not a tag ends the list there: whatever
/// follows cannot be told apart from the broken part.
pub fn list_matches<'a>(
    lines: impl IntoIterator<Item = &'a [u8]>,
    current: &EntityTag,
    comparison: Comparison,
) -> bool {
    lines.into_iter().any(|line| {
        let line = line.trim_ascii();
        line == b"*" || tags(line).any(|tag| tag.matches(current.as_received(), comparison))
    })
}

/// Whether a field that holds exactly one tag holds this one, strongly compared (`If-Range`). `None` where it holds no tag.
#[must_use]
pub fn single_matches(value: &[u8], current: &EntityTag) -> Option<bool> {
    let (tag, rest) = Received::parse(value.trim_ascii())?;
    rest.is_empty().then(|| tag.matches(current.as_received(), Comparison::Strong))
}

/// A tag as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Received<'a> {
    weak: bool,
    opaque: &'a [u8],
}

impl<'a> Received<'a> {
    /// Takes a tag off the front of `text`.
    fn parse(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        // "W/" is case-sensitive (RFC 9110 §8.8.3).
        let (weak, quoted) = match text.strip_prefix(b"W/") {
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

/// The tags of a list up to its first broken element; empty elements are passed over (RFC 9110 §5.6.1.2).
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

/// `etagc` (RFC 9110 §8.8.3): everything printable but the double quote, and what is not ASCII.
fn is_tag_character(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..=0xff)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: FileIdentity = FileIdentity { size: 255, modified_ns: 16, inode: 1 };

    fn matches(list: &str, weak: bool, comparison: Comparison) -> bool {
        list_matches([list.as_bytes()], &EntityTag::of_file(&FILE, "", weak), comparison)
    }

    #[test]
    fn codings_and_weakness_show_in_the_tag() {
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
    fn the_comparison_table_of_section_8_8_3_2() {
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
    fn lists_are_read_up_to_their_first_broken_element() {
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
        assert!(list_matches(lines, &EntityTag::of_file(&FILE, "", false), Comparison::Strong));
    }

    #[test]
    fn a_single_tag_stands_alone() {
        let current = EntityTag::of_file(&FILE, "", false);
        for (text, expected) in [
            ("\"ff-10-1\"", Some(true)),
            ("W/\"ff-10-1\"", Some(false)),
            ("\"a\"", Some(false)),
            ("\"ff-10-1\", \"a\"", None),
            ("*", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(single_matches(text.as_bytes(), &current), expected, "{text}");
        }
    }

    #[test]
    fn a_file_settles_two_seconds_after_its_last_change() {
        for (now_ns, settled) in [(16, false), (2_000_000_015, false), (2_000_000_016, true), (0, false)] {
            assert_eq!(FILE.is_mtime_stable(now_ns), settled, "{now_ns}");
        }
    }

    proptest! {
        #[test]
        fn every_tag_matches_itself(size: u64, modified_ns: i128, inode: u64, weak: bool) {
            let tag = EntityTag::of_file(&FileIdentity { size, modified_ns, inode }, "zstd", weak);
            prop_assert!(list_matches([tag.value().as_bytes()], &tag, Comparison::Weak));
            prop_assert_eq!(list_matches([tag.value().as_bytes()], &tag, Comparison::Strong), !weak);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(0x20_u8.., 0..64)) {
            let tag = EntityTag::of_file(&FILE, "", false);
            list_matches([&bytes[..]], &tag, Comparison::Weak);
            let _ = single_matches(&bytes, &tag);
        }
    }
}

//! Finds strings in JSON by their paths, without changing anything else: metadata can have many megabytes, and keeps its spelling.

use std::ops::Range;

/// How deep lists and objects may be nested.
const DEPTH_MAX: usize = 128;

/// A list or an object around the current position.
enum Level<'t> {
    List,
    /// With the current key, without its quotes. Keys with escapes match nothing.
    Object {
        key: &'t str,
        expects_key: bool,
    },
}

/// Returns the positions of the strings at one of the paths, with their quotes. A path has the key of each object around the string;
/// `None` is any key, or an element of a list. `None` if the text is obviously no JSON.
pub(super) fn find(text: &str, paths: &[&[Option<&str>]]) -> Option<Vec<Range<usize>>> {
    let (bytes, mut found, mut levels) = (text.as_bytes(), Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => levels.push(Level::Object { key: "", expects_key: true }),
            b'[' => levels.push(Level::List),
            b'}' | b']' => {
                levels.pop()?;
            }
            b',' => {
                if let Some(Level::Object { expects_key, .. }) = levels.last_mut() {
                    *expects_key = true;
                }
            }
            b'"' => {
                let end = end_of_string(bytes, at)?;
                if let Some(Level::Object { key, expects_key }) = levels.last_mut()
                    && *expects_key
                {
                    (*key, *expects_key) = (&text[at + 1..end - 1], false);
                } else if paths.iter().any(|path| matches(&levels, path)) {
                    found.push(at..end);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        if levels.len() > DEPTH_MAX {
            return None;
        }
        at += 1;
    }
    levels.is_empty().then_some(found)
}

/// Returns the end of the string that begins with the quote at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        // The escaped character may be a quote.
        at += 2;
    }
}

fn matches(levels: &[Level<'_>], path: &[Option<&str>]) -> bool {
    levels.len() == path.len()
        && levels.iter().zip(path).all(|(level, expected)| match (level, expected) {
            (_, None) => true,
            (Level::Object { key, .. }, Some(expected)) => key == expected,
            (Level::List, Some(_)) => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_by_their_paths() {
        let paths: &[&[Option<&str>]] = &[&[Some("a"), None, Some("u")], &[Some("u")]];
        for (text, expected) in [
            (r#"{"a": {"1": {"u": "x"}, "2": {"v": "y", "u" : "z"}}}"#, &[r#""x""#, r#""z""#][..]),
            (r#"{"a": [{"u":"x"},{"u":["no"]}], "u": "\"}y"}"#, &[r#""x""#, r#""\"}y""#]),
            (r#"{"u": {"u": "no"}, "b": {"1": {"u": "no"}}, "k": "u", "l": "a"}"#, &[]),
            (r#"{"x": "u", "\u0075": "no", "u": 1}"#, &[]),
            ("[]", &[]),
        ] {
            let found = find(text, paths).unwrap_or_else(|| panic!("{text} is JSON"));
            assert_eq!(found.into_iter().map(|range| &text[range]).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn incomplete_and_deep_texts_are_rejected() {
        for text in ["{", "]", r#"{"a"#, r#""\"#, "[[]"] {
            assert_eq!(find(text, &[]), None, "{text}");
        }
        assert_eq!(find(&"[".repeat(200), &[]), None);
    }
}

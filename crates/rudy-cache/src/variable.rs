//! The names of parameters and cookies, as applications read them.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// The name of a parameter or a cookie in the settings, or the start of names: `utm_*`. It matches every spelling that an application may
/// read as this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableName {
    text: Vec<u8>,
    /// Whether it is the start of names: it ended with `*`.
    is_start: bool,
    /// As applications may read it, and as PHP reads it if an index has no end.
    read: [Vec<u8>; 2],
}

impl VariableName {
    /// Creates the name, or the start of names if it ends with `*`.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let (text, is_start) = match pattern.strip_suffix('*') {
            Some(start) => (start.as_bytes(), true),
            None => (pattern.as_bytes(), false),
        };
        let read = [variable_name(text).into_owned(), variable_name(&without_index(text)).into_owned()];
        Self { text: text.to_vec(), is_start, read }
    }

    /// Whether an application may read a name as this one.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let is = |name: &[u8], text: &[u8]| {
            if self.is_start { name.starts_with(text) } else { name == text }
        };
        let [read, whole] = &self.read;
        is(name, &self.text)
            || is(&variable_name(name), read)
            || is(&variable_name(&without_index(name)), whole)
    }
}

/// PHP makes an index without an end a part of the name.
fn without_index(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'[') {
        return Cow::Borrowed(name);
    }
    name.iter().map(|byte| if *byte == b'[' { b'_' } else { *byte }).collect::<Vec<_>>().into()
}

/// Returns a form of the name of a parameter or a cookie that is the same for all spellings which an application may read as one
/// variable. PHP decodes names, ignores spaces before them, turns spaces and dots into underscores, and ends them at `[`, the start
/// of an index; others ignore their case.
pub(crate) fn variable_name(name: &[u8]) -> Cow<'_, [u8]> {
    if name.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')) {
        return Cow::Borrowed(name);
    }
    let plus_decoded: Vec<u8> = name.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    let decoded = Cow::from(percent_decode(&plus_decoded));
    let name = decoded.trim_ascii_start();
    let end = name.iter().position(|byte| matches!(byte, b'[' | 0)).unwrap_or(name.len());
    let plain = |byte: &u8| if matches!(byte, b' ' | b'.') { b'_' } else { byte.to_ascii_lowercase() };
    name[..end].iter().map(plain).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_an_application_may_read_as_one_are_the_same() {
        for name in ["my_id", "my.id", "my id", "My+Id", " my%5fid", "my%2Eid", "%20my_id[a]", "my_id%00x"] {
            assert_eq!(&*variable_name(name.as_bytes()), b"my_id", "{name}");
        }
        assert_eq!(&*variable_name(b"a%zz%4"), b"a%zz%4");
        assert_ne!(&*variable_name(b"my-id"), b"my_id");
    }
}

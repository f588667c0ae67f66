//! The parameters of a query, as they are in a key.

use std::borrow::Cow;

/// The parameters of a query that are part of the key. By default all, in their order.
///
/// Names are compared as the client sent them, not decoded. The origin receives the whole query: a rule that ignores a parameter on
/// which a response depends lets one client choose the response of another. Some applications separate parameters by `;` too, so one
/// that is ignored contains no other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryRules {
    /// Names of parameters that are no part of the key: `fbclid`, or `utm_*` for all that begin with `utm_`.
    pub ignored: Vec<String>,
    /// Whether the order of parameters with different names is irrelevant.
    pub sorted: bool,
}

impl QueryRules {
    /// Returns the target as it is in a key.
    #[must_use]
    pub fn apply(&self, target: &[u8]) -> Vec<u8> {
        let Some(mark) = target.iter().position(|byte| *byte == b'?').filter(|_| *self != Self::default())
        else {
            return target.to_vec();
        };
        let (path, query) = (&target[..mark], &target[mark + 1..]);
        let parameters = query.split(|byte| *byte == b'&').filter(|parameter| !parameter.is_empty());
        let mut kept: Vec<_> = parameters.filter(|parameter| !self.ignores(parameter)).collect();
        // With `;`, a parameter may contain others, whose order counts.
        if self.sorted && !query.contains(&b';') {
            // Values of one name keep their order, in whatever spelling: it often has a meaning.
            kept.sort_by_cached_key(|parameter| variable_name(name(parameter)));
        }
        let separator: &[u8] = if kept.is_empty() { b"" } else { b"?" };
        [path, separator, &kept.join(&b'&')].concat()
    }

    fn ignores(&self, parameter: &[u8]) -> bool {
        let is_ignored = |name: &[u8]| {
            self.ignored.iter().any(|ignored| match ignored.strip_suffix('*') {
                Some(start) => name.starts_with(start.as_bytes()),
                None => name == ignored.as_bytes(),
            })
        };
        let mut parts = parameter.split(|byte| *byte == b';').filter(|part| !part.is_empty());
        parts.all(|part| is_ignored(name(part)))
    }
}

/// Returns the name of a parameter, `name=value` or `name`.
fn name(parameter: &[u8]) -> &[u8] {
    parameter.split(|byte| *byte == b'=').next().unwrap_or_default()
}

/// Returns a form of the name of a parameter or a cookie that is the same for all spellings which an application may read as one
/// variable. PHP decodes names, ignores spaces before them, turns spaces and dots into underscores, and ends them at `[`, the start
/// of an index; others ignore their case.
#[must_use]
pub fn variable_name(name: &[u8]) -> Cow<'_, [u8]> {
    if name.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')) {
        return Cow::Borrowed(name);
    }
    let plus_decoded: Vec<u8> = name.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    let decoded = decode(&plus_decoded);
    let name = decoded.trim_ascii_start();
    let end = name.iter().position(|byte| matches!(byte, b'[' | 0)).unwrap_or(name.len());
    let plain = |byte: &u8| if matches!(byte, b' ' | b'.') { b'_' } else { byte.to_ascii_lowercase() };
    name[..end].iter().map(plain).collect::<Vec<_>>().into()
}

/// Decodes what is percent-encoded, and leaves other percent signs as they are.
fn decode(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut decoded, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        let escaped = digit(at + 1).zip(digit(at + 2)).filter(|_| *byte == b'%');
        let value = escaped.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        decoded.push(value.unwrap_or(*byte));
        at += if value.is_some() { 3 } else { 1 };
    }
    decoded
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

//! The members of `Cache-Control` (RFC 9111 §5.2).

use std::borrow::Cow;

use rudy_message::syntax::is_token;

/// One cache directive, `token [ "=" ( token / quoted-string ) ]`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member<'a> {
    /// The name in its original case.
    pub(super) name: &'a [u8],
    pub(super) argument: Argument<'a>,
}

/// The argument of a directive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Argument<'a> {
    None,
    /// A token, or the content of a quoted string. §5.2: recipients ought to accept both forms.
    Text(Cow<'a, [u8]>),
    /// Anything else after the name. A directive that restricts the cache counts nevertheless; one that permits does not.
    Invalid,
}

/// Returns the members of a field line, without empty ones.
///
/// A quote that is never closed is an ordinary character, and so are all later ones: no directive can hide behind it. The
/// time is linear in the length, because quotes are not tried again.
pub(super) fn members(line: &[u8]) -> impl Iterator<Item = Member<'_>> {
    let (mut rest, mut has_quotes) = (line, true);
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (member, after) = rest.split_at(member_length(rest, &mut has_quotes));
            rest = after.get(1..).unwrap_or_default();
            let member = member.trim_ascii();
            if !member.is_empty() {
                return Some(Member::parse(member));
            }
        }
        None
    })
}

/// Returns the position of the first comma outside of quotes, or the length of the text.
fn member_length(text: &[u8], has_quotes: &mut bool) -> usize {
    let mut at = 0;
    while at < text.len() && text[at] != b',' {
        let quoted = (*has_quotes && text[at] == b'"').then(|| quoted_length(&text[at..]));
        *has_quotes &= quoted != Some(None);
        at += quoted.flatten().unwrap_or(1);
    }
    at
}

/// Returns the length of the quoted string at the start of the text, with its quotes. `None` if it has no end.
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

impl<'a> Member<'a> {
    fn parse(text: &'a [u8]) -> Self {
        let length = text.iter().position(|byte| !is_token(*byte)).unwrap_or(text.len());
        let (name, rest) = text.split_at(length);
        let argument = match rest {
            [] => Argument::None,
            [b'=', value @ ..] => Argument::parse(value),
            _ => Argument::Invalid,
        };
        Self { name, argument }
    }
}

impl<'a> Argument<'a> {
    fn parse(value: &'a [u8]) -> Self {
        match value {
            [b'"', inner @ .., b'"'] if quoted_length(value) == Some(value.len()) => {
                Self::Text(without_escapes(inner))
            }
            [_, ..] if value.iter().all(|byte| is_token(*byte)) => Self::Text(Cow::Borrowed(value)),
            _ => Self::Invalid,
        }
    }
}

/// Returns the content of a quoted string (RFC 9110 §5.6.4): a backslash quotes the character after it.
fn without_escapes(inner: &[u8]) -> Cow<'_, [u8]> {
    if !inner.contains(&b'\\') {
        return Cow::Borrowed(inner);
    }
    let mut escaped = false;
    let is_content = |byte: &&u8| {
        escaped = !escaped && **byte == b'\\';
        !escaped
    };
    Cow::Owned(inner.iter().filter(is_content).copied().collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn show(line: &str) -> String {
        let show = |Member { name, argument }| {
            let name = String::from_utf8_lossy(name).into_owned();
            match argument {
                Argument::None => name,
                Argument::Text(text) => format!("{name}=<{}>", String::from_utf8_lossy(&text)),
                Argument::Invalid => format!("{name}!"),
            }
        };
        members(line.as_bytes()).map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn section_5_2_an_argument_is_a_token_or_a_quoted_string() {
        for (line, expected) in [
            ("max-age=5", "max-age=<5>"),
            ("max-age=\"5\"", "max-age=<5>"),
            ("a, b=c ,, d=\"e, f\",", "a b=<c> d=<e, f>"),
            (r#"a="b\"c\\d", e"#, r#"a=<b"c\d> e"#),
            ("a=\"\"", "a=<>"),
            ("", ""),
            (" , ", ""),
        ] {
            assert_eq!(show(line), expected, "{line}");
        }
    }

    #[test]
    fn section_4_2_1_a_malformed_directive_keeps_its_name() {
        for (line, expected) in [
            ("max-age=", "max-age!"),
            ("max-age = 5", "max-age!"),
            ("max-age= 5", "max-age!"),
            ("max-age=5 6", "max-age!"),
            ("no-store; max-age=5", "no-store!"),
            ("a=\"b\"c, d", "a! d"),
            ("=5, a", "=<5> a"),
            // The quote is never closed.
            ("a=\"b, no-store", "a! no-store"),
            (r#"a="b\", no-store"#, "a! no-store"),
            (r#"a="b, c="d", e="f, no-store"#, "a! no-store"),
        ] {
            assert_eq!(show(line), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_split_without_a_panic(line in "[a\\\\\", =]{0,40}") {
            let length: usize = members(line.as_bytes()).map(|member| member.name.len()).sum();
            prop_assert!(length <= line.len());
        }
    }
}

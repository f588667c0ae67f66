//! Finds the links of a page of a Python index (PEP 503): the `href` of its `a` elements.

use std::ops::Range;

/// Returns the positions of the values, without quotes.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = memchr::memchr(b'<', rest.as_bytes()) {
        rest = &rest[start + 1..];
        let mut attributes = rest;
        if let Some(("a" | "A", after)) = rest.split_at_checked(1)
            && after.starts_with(|next: char| next.is_ascii_whitespace())
        {
            attributes = after;
            while let Some((name, value)) = next_attribute(&mut attributes) {
                if name.eq_ignore_ascii_case("href") {
                    let start = value.as_ptr().addr() - text.as_ptr().addr();
                    found.push(start..start + value.len());
                }
            }
        }
        rest = attributes;
    }
    found
}

/// Takes an attribute from the text after the name of an element: its name, and its value, which may be in quotes. `None` at the
/// end of the tag.
fn next_attribute<'t>(rest: &mut &'t str) -> Option<(&'t str, &'t str)> {
    let is_space = |character: char| character.is_ascii_whitespace();
    let text = rest.trim_start_matches(|character: char| is_space(character) || character == '/');
    let end = text.find(|character: char| is_space(character) || "=/>".contains(character))?;
    let (name, after) = text.split_at(end);
    *rest = after;
    let after_name = after.trim_start_matches(is_space);
    let Some(value) = after_name.strip_prefix('=') else {
        return (!name.is_empty()).then_some((name, &after[..0]));
    };
    let value = value.trim_start_matches(is_space);
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
    let (value, after) = match quote {
        Some(quote) => value[1..].split_once(quote)?,
        None => value.split_at(value.find(|character: char| is_space(character) || character == '>')?),
    };
    *rest = after;
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_a_page_are_found_in_every_spelling() {
        for (text, expected) in [
            (r#"<a href="x">y</a>"#, &["x"][..]),
            ("<A\nclass=b HREF = 'x>y' data-a=\">=3\">href=no</A><a href=z>", &["x>y", "z"]),
            (r#"<abbr href="no"><link href="no"><a name="href">"#, &[]),
            (r#"<a data-href="no" href="x"/><a disabled href="y">"#, &["x", "y"]),
            (r#"<a href="x" href>"#, &["x", ""]),
            ("<a href=", &[]),
            ("<a href=\"x", &[]),
            ("< a href='no'><", &[]),
            ("<a =x href=y>", &["y"]),
        ] {
            let found: Vec<_> = find(text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}

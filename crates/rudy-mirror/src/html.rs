//! Finds the links of a page of a Python index (PEP 503), the `href` of its `a` elements, as a browser does (HTML §13.2.5).

use std::ops::Range;

/// Elements whose content has no elements, up to their end tag.
const WITHOUT_ELEMENTS: [&str; 8] =
    ["script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"];

/// The positions of URLs in a page: the values of attributes, without quotes.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// That of the first `base` element with a URL, to which the links are relative.
    pub(super) base: Option<Range<usize>>,
    pub(super) links: Vec<Range<usize>>,
}

/// Finds the URLs in a page.
pub(super) fn find(text: &str) -> Found {
    let (mut found, mut rest) = (Found::default(), text);
    while let Some(start) = memchr::memchr(b'<', rest.as_bytes()) {
        rest = &rest[start + 1..];
        rest = match rest.as_bytes() {
            [first, ..] if first.is_ascii_alphabetic() => match after_tag(rest, text, &mut found) {
                (name, following) if has_no_elements(name) => after_content(following, name),
                (_, following) => following,
            },
            // An end tag may have attributes, which have no meaning.
            [b'/', first, ..] if first.is_ascii_alphabetic() => {
                after_tag(&rest[1..], text, &mut Found::default()).1
            }
            [b'!', b'-', b'-', ..] => after_comment(&rest[3..]),
            [b'!' | b'?' | b'/', ..] => after(rest, ">"),
            _ => rest,
        };
    }
    found
}

fn has_no_elements(name: &str) -> bool {
    WITHOUT_ELEMENTS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Adds the URLs in a tag, and returns its name, and what follows it.
fn after_tag<'t>(rest: &'t str, text: &str, found: &mut Found) -> (&'t str, &'t str) {
    let end = rest.find(|character| is_space(character) || "/>".contains(character)).unwrap_or(rest.len());
    let (name, mut attributes) = rest.split_at(end);
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    while let Some((attribute, value)) = next_attribute(&mut attributes) {
        if attribute.eq_ignore_ascii_case("href") {
            let start = value.as_ptr().addr() - text.as_ptr().addr();
            let position = start..start + value.len();
            if is("a") {
                found.links.push(position);
            } else if is("base") {
                found.base.get_or_insert(position);
            }
        }
    }
    // A tag that does not end is none.
    let following = attributes.trim_start_matches(is_space_or_slash).strip_prefix('>').unwrap_or_default();
    (name, following)
}

/// Returns what follows the content of an element, from its end tag on.
fn after_content<'t>(content: &'t str, name: &str) -> &'t str {
    let is_end = |(start, _): &(usize, &str)| {
        let tag = content.get(start + 2..start + 2 + name.len());
        let following = content[start + 2..].get(name.len()..).and_then(|rest| rest.chars().next());
        tag.is_some_and(|tag| tag.eq_ignore_ascii_case(name))
            && following.is_some_and(|next| is_space_or_slash(next) || next == '>')
    };
    content.match_indices("</").find(is_end).map_or("", |(start, _)| &content[start..])
}

/// Returns what follows a comment, after its `<!--`.
fn after_comment(content: &str) -> &str {
    let at_once = content.strip_prefix('>').or_else(|| content.strip_prefix("->"));
    let is_end =
        |(start, _): &(usize, &str)| ["--", "--!"].iter().any(|end| content[..*start].ends_with(end));
    let end = || content.match_indices('>').find(is_end);
    at_once.unwrap_or_else(|| end().map_or("", |(start, _)| &content[start + 1..]))
}

fn after<'t>(text: &'t str, end: &str) -> &'t str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

fn is_space(character: char) -> bool {
    character.is_ascii_whitespace()
}

fn is_space_or_slash(character: char) -> bool {
    is_space(character) || character == '/'
}

/// Takes an attribute from the text after the name of an element: its name, and its value, which may be in quotes. `None` at the
/// end of the tag.
fn next_attribute<'t>(rest: &mut &'t str) -> Option<(&'t str, &'t str)> {
    let text = rest.trim_start_matches(is_space_or_slash);
    // An equals sign at the start is part of a name.
    let start = usize::from(text.starts_with('='));
    let end = text[start..].find(|character: char| is_space(character) || "=/>".contains(character))?;
    let (name, after) = text.split_at(start + end);
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

    fn links(text: &str) -> Vec<&str> {
        find(text).links.into_iter().map(|range| &text[range]).collect()
    }

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
            ("<a =href=no href=y>", &["y"]),
            ("<a/href=x/y><a\tHREF\n=\r'z'>", &["x/y", "z"]),
            ("<a title='<a href=no>' href=x><p title=\"<a href=no>\">", &["x"]),
            ("</p title='<a href=no>'><a href=x>", &["x"]),
            ("<a", &[]),
        ] {
            assert_eq!(links(text), expected, "{text}");
        }
    }

    #[test]
    fn text_that_looks_like_a_link_is_none() {
        for (text, expected) in [
            ("<!-- <a href=no> --><a href=x>", &["x"][..]),
            ("<!-- it's a quote <a href='no --!><a href=x><!-- -->", &["x"]),
            ("<!--><a href=x><!---><a href=y><!----><a href=z>", &["x", "y", "z"]),
            ("<!-- <a href=no>", &[]),
            ("<!doctype html><?a href='?><a href=x></><a href=y>", &["x", "y"]),
            ("<SCRIPT>'<a href=no>'</scripts></script ><a href=x>", &["x"]),
            ("<title>é<a href=no></é</TITLE><a href=x>", &["x"]),
            ("<style><a href=no>", &[]),
            ("a < b <1 <a href=x>", &["x"]),
        ] {
            assert_eq!(links(text), expected, "{text}");
        }
    }

    #[test]
    fn the_first_base_with_a_url_counts() {
        for (text, expected) in [
            ("<a href=x><base target=y><BASE HREF='b'><base href=no>", Some("b")),
            ("<!-- <base href=no> --><a base href=x>", None),
        ] {
            assert_eq!(find(text).base.map(|range| &text[range]), expected, "{text}");
        }
    }
}

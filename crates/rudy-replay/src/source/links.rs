//! The links of a page.

/// The attributes whose values are links.
const ATTRIBUTES: [&str; 2] = ["href", "src"];

/// Maximum number of links of a page.
const LINKS_MAX: usize = 10_000;

/// The values of `href` and `src` in HTML, with their character references for `&` undone. Not a parser of HTML: text that looks like such
/// an attribute counts, too, which costs a request.
pub(crate) fn links(html: &str) -> Vec<String> {
    // The case of letters outside ASCII does not matter, and lower case has the same length.
    let lower = html.to_ascii_lowercase();
    let mut links = Vec::new();
    for attribute in ATTRIBUTES {
        let found = lower.match_indices(attribute).filter_map(|(at, _)| {
            let before = lower.as_bytes().get(at.checked_sub(1)?)?;
            let value = html[at + attribute.len()..].trim_start().strip_prefix('=')?.trim_start();
            before.is_ascii_whitespace().then(|| (at, value_of(value).replace("&amp;", "&")))
        });
        links.extend(found.take(LINKS_MAX));
    }
    // In the order of the page.
    links.sort();
    links.into_iter().map(|(_, link)| link).collect()
}

/// The value at the start of the text, in quotes or without.
fn value_of(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or_default().trim();
        }
    }
    text.split(|c: char| c.is_ascii_whitespace() || c == '>').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_values_of_href_and_src() {
        let html = "<a HREF='/a'>x</a> <img alt=y src = /b.png> <a href=\"/c?d&amp;e\"> data-href=\"/no\" <p>href</p> <a href=";
        assert_eq!(links(html), ["/a", "/b.png", "/c?d&e", ""]);
    }
}

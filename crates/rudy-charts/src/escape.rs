//! Text of any kind in XML and HTML.

/// Escapes text for elements and attributes of XML and HTML. Replaces control characters and those that XML cannot
/// contain (section 2.2 of XML 1.0) by U+FFFD.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_name_is_escaped() {
        assert_eq!(
            escape("<a b='c' d=\"e\">&\n\u{1b}[31m\u{b}\u{ffff}"),
            "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\n\u{fffd}[31m\u{fffd}\u{fffd}"
        );
    }
}

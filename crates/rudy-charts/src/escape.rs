//! Text of any kind in XML.

/// Escapes text for elements and attributes. Replaces characters that XML cannot contain (section 2.2 of XML
/// 1.0) by U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_text() {
        assert_eq!(escape("<a & \"b\">\u{1}\n"), "&lt;a &amp; &quot;b&quot;&gt;\u{fffd} ");
    }
}

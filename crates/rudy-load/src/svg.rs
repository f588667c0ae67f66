//! Helpers for SVG: escaped text, and round numbers for axes.

/// Escapes text for elements and attributes. Replaces characters that XML cannot contain (section 2.2 of XML
/// 1.0) by U+FFFD.
#[must_use]
pub fn escape(text: &str) -> String {
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

/// The smallest of 1, 2, 5, 10, … that is not less than a positive number. Tolerates rounding errors, so that
/// a computed 0.2 stays 0.2.
#[must_use]
pub fn round_up(number: f64) -> f64 {
    let decade = 10_f64.powf((number.log10() + 1e-9).floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade);
    steps.into_iter().find(|step| *step >= number * (1.0 - 1e-9)).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (number, end) in [
            (0.013, 0.02),
            (0.5, 0.5),
            (0.51, 1.0),
            (7.0, 10.0),
            (1.0 / 5.0, 0.2),
            (0.1 + 0.2 - 0.1, 0.2),
            (1000.0, 1000.0),
            (123_456.0, 200_000.0),
        ] {
            assert!((round_up(number) - end).abs() < end * 1e-9, "{number}");
        }
    }

    #[test]
    fn what_stands_in_a_name_stays_text() {
        assert_eq!(escape("<a & \"b\">\u{1}\n"), "&lt;a &amp; &quot;b&quot;&gt;\u{fffd} ");
    }
}

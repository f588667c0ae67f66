//! A report as a single page without external resources, readable without scripts.

mod findings;
mod repeat;
mod section;

use super::analysis::Report;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The only script that the content security policy allows:
/// `openssl dgst -sha256 -binary page.js | base64`.
const SCRIPT_HASH: &str = "l4rrUGVRjKFI/bxB8HCe9A8fOZx1dafhU44BH5qgqpY=";

/// The page.
pub(super) fn write(report: &Report) -> String {
    let title = match report.sections.as_slice() {
        [one] => escaped(&one.title),
        several => format!("{} experiments", several.len()),
    };
    let sections: Vec<String> = report
        .sections
        .iter()
        .enumerate()
        .map(|(number, section)| section::write(section, number, report.judged))
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'sha256-{SCRIPT_HASH}'; img-src data:\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header class=\"top\"><span>rudy lab</span><button class=\"mode needs-js\" type=\"button\">Colours: system</button>\
         </header>\n<main>\n{}{}</main>\n<footer>Made by rudy {}.</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        contents(report, &title),
        sections.join("\n"),
        env!("CARGO_PKG_VERSION"),
    )
}

/// The table of contents of several experiments, with their headlines.
fn contents(report: &Report, title: &str) -> String {
    if report.sections.len() < 2 {
        return String::new();
    }
    let entry = |(number, section): (usize, &super::analysis::Section)| {
        let title = escaped(&section.title);
        let answer = all(section.headline.iter().map(|line| format!("<p>{}</p>", escaped(line))));
        format!("<li><a href=\"#experiment-{number}\">{title}</a>{answer}</li>\n")
    };
    let list: String = report.sections.iter().enumerate().map(entry).collect();
    format!("<h1>{title}</h1>\n<nav><ul>\n{list}</ul></nav>\n")
}

/// One after the other.
fn all(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect()
}

/// Escapes text for elements and attributes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Removes characters that HTML cannot contain, such as terminal colours.
            other if other.is_control() && !other.is_whitespace() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(
            escaped("<a b='c' d=\"e\">&\n\u{1b}[31m"),
            "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\n\u{fffd}[31m"
        );
    }
}

//! The SVG document of a chart: elements, fitted text, tips, and the common style.

use std::fmt::Write;

use crate::escape::escape;

/// The width of every chart: that of a phone of 360 pixels without its margins. Text is 12 units high, so it is
/// readable there without scrolling, and a page of a desktop has three charts in a row.
pub(crate) const WIDTH: f64 = 340.0;

/// The margin on the left and on the right.
pub(crate) const EDGE: f64 = 10.0;

/// The height of a line of the title.
const TITLE: f64 = 17.0;

/// Colours, lines and text, included in each document so that it works on its own. Variants and layers set
/// `color`, which shapes inherit. A page with elements of [`Plot::element`](crate::Plot::element) has it once.
pub const STYLE: &str = include_str!("style.css");

/// A document that grows downwards.
pub(crate) struct Sheet {
    title: String,
    body: String,
    /// The height so far.
    pub(crate) bottom: f64,
}

/// The left edge of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Sheet {
    /// A new document with a title.
    pub(crate) fn new(title: &str) -> Self {
        let mut sheet = Self { title: title.to_owned(), body: String::new(), bottom: 0.0 };
        let room = (WIDTH - 2.0 * EDGE) / BOLD;
        for line in wrapped(title, room) {
            sheet.text_in(room, (EDGE, sheet.bottom + 20.0), Anchor::Start, "title", &line);
            sheet.bottom += TITLE;
        }
        sheet.bottom += 30.0 - TITLE;
        sheet
    }

    /// Adds a raw element. Untrusted text in it must be [escaped](escape).
    fn raw(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// A straight line.
    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.path(class, &[from, to]);
    }

    /// A line through points.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() > 1 {
            let element = format!("<polyline class=\"{class}\" points=\"{}\"/>", places(points));
            self.raw(&element);
        }
    }

    /// An area with a tip.
    pub(crate) fn area(&mut self, class: &str, points: &[(f64, f64)], tip: &str) {
        self.with_tip(&format!("<polygon class=\"{class}\" points=\"{}\"", places(points)), "polygon", tip);
    }

    /// A rectangle with a tip, from its upper left corner.
    pub(crate) fn rectangle(&mut self, attributes: &str, corner: (f64, f64), size: (f64, f64), tip: &str) {
        let [x, y, width, height] = [corner.0, corner.1, size.0, size.1].map(number);
        let start = format!("<rect {attributes} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
        self.with_tip(&start, "rect", tip);
    }

    /// A small point.
    pub(crate) fn dot(&mut self, class: &str, (x, y): (f64, f64)) {
        self.raw(&format!(
            "<circle class=\"{class} full faint\" cx=\"{}\" cy=\"{}\" r=\"1.5\"/>",
            number(x),
            number(y)
        ));
    }

    /// An invisible area with a tip.
    pub(crate) fn tip_target(&mut self, (x, y): (f64, f64), tip: &str) {
        let start = format!("<circle class=\"hit\" cx=\"{}\" cy=\"{}\" r=\"8\"", number(x), number(y));
        self.with_tip(&start, "circle", tip);
    }

    /// Ends an element, with a tip if there is text.
    pub(crate) fn with_tip(&mut self, start: &str, name: &str, tip: &str) {
        let tip = escape(tip);
        let element = if tip.is_empty() {
            format!("{start}/>")
        } else {
            format!("{start} data-tip=\"{tip}\"><title>{tip}</title></{name}>")
        };
        self.raw(&element);
    }

    /// A line of text.
    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        self.text_in(f64::INFINITY, (x, y), anchor, class, text);
    }

    /// A line of text with limited room. Text that does not fit is cut, and then a tip shows all of it.
    pub(crate) fn text_in(&mut self, room: f64, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let shown = truncated_to(text, room);
        let tip = if shown == text {
            String::new()
        } else {
            format!(" data-tip=\"{0}\"><title>{0}</title", escape(text))
        };
        let (x, y, shown) = (number(x), number(y), escape(&shown));
        self.raw(&format!("<text{class} x=\"{x}\" y=\"{y}\"{anchor}{tip}>{shown}</text>"));
    }

    /// The document, with its style or without.
    pub(crate) fn finish(self, has_style: bool) -> String {
        let style = if has_style { format!("<style>\n{STYLE}</style>\n") } else { String::new() };
        let (height, title) = (number(self.bottom + EDGE), escape(&self.title));
        let mut svg = String::new();
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" class=\"chart\" role=\"img\" \
             aria-label=\"{title}\">\n{style}<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n{}</svg>\n",
            self.body
        );
        svg
    }
}

fn places(points: &[(f64, f64)]) -> String {
    let places: Vec<_> = points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
    places.join(" ")
}

/// A coordinate. Callers drop values that are not numbers; this function prevents invalid documents.
pub(crate) fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// The factor by which bold text is wider.
pub(crate) const BOLD: f64 = 1.18;

/// The approximate width of a line of text with 12 units. The font is unknown, so this uses a wide one
/// (`DejaVu Sans`).
pub(crate) fn width(text: &str) -> f64 {
    text.chars().map(advance).sum::<f64>() * 12.0
}

fn advance(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '\'' | '|' => 0.29,
        ' ' | '.' | ',' | ':' | ';' | 'I' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '!' => 0.40,
        'c' | 'k' | 's' | 'v' | 'x' | 'y' | 'z' | 'J' | '"' => 0.58,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 1.0,
        'A'..='Z' | '+' | '=' | '<' | '>' | '~' | '#' => 0.78,
        '\0'..='\u{2ff}' => 0.64,
        _ => 1.05,
    }
}

/// The text in lines of this width. A word that is wider has a line of its own.
fn wrapped(text: &str, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if width(line) + width(" ") + width(word) <= room => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The text cut to the available width, with an ellipsis.
pub(crate) fn truncated_to(text: &str, room: f64) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut left = room - width("…");
    let fits = |character: &char| {
        left -= advance(*character) * 12.0;
        left >= 0.0
    };
    let start: String = text.chars().take_while(fits).collect();
    start.trim_end().to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_and_its_tip_has_all_of_it() {
        let name = "a server with a name that is far too long to remember";
        let cut = truncated_to(name, 100.0);
        assert!(cut.ends_with('…') && width(&cut) <= 100.0 && cut.len() > 8, "{cut}");
        assert_eq!(truncated_to("nginx", 100.0), "nginx");
        let mut sheet = Sheet::new("title");
        sheet.text_in(100.0, (0.0, 0.0), Anchor::Start, "", name);
        assert!(
            sheet.finish(true).contains(&format!("data-tip=\"{name}\"><title>{name}</title>{cut}</text>"))
        );
    }

    #[test]
    fn a_title_has_as_many_lines_as_it_needs() {
        for (text, lines) in [("", vec![""]), ("a b", vec!["a b"]), ("aaaa bbbb c", vec!["aaaa", "bbbb c"])] {
            assert_eq!(wrapped(text, width("aaaa bb")), lines);
        }
    }

    #[test]
    fn a_coordinate_is_a_number() {
        for (value, text) in [(1.0, "1"), (1.25, "1.2"), (f64::NAN, "0"), (f64::INFINITY, "0"), (-0.04, "-0")]
        {
            assert_eq!(number(value), text);
        }
    }
}

//! The SVG document that a chart is drawn on: elements, text that fits, tips, and the style that all charts share.

use std::fmt::Write;

use rudy_load::svg::escape;

/// The width of every chart. Text is 12 units high: 11 pixels where a chart is shown 440 pixels wide, and hard to read where it
/// is shrunk to a phone's. There it is better scrolled.
pub(super) const WIDTH: f64 = 480.0;

/// What stays free on the left and on the right.
pub(super) const EDGE: f64 = 10.0;

/// Colours, lines and text. It stands in each document, so that one can be shown alone. Subjects and layers set `color`, and
/// what is drawn takes that.
pub(super) const STYLE: &str = include_str!("style.css");

/// A document that grows downwards.
pub(super) struct Sheet {
    title: String,
    body: String,
    /// How far it is filled.
    pub(super) bottom: f64,
}

/// From where text reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Sheet {
    /// A new one with its title on top.
    pub(super) fn new(title: &str) -> Self {
        let mut sheet = Self { title: title.to_owned(), body: String::new(), bottom: 30.0 };
        let room = (WIDTH - 2.0 * EDGE) / BOLD;
        sheet.text_in(room, (EDGE, 20.0), Anchor::Start, "title", title);
        sheet
    }

    /// An element that is written as it is. All that comes from elsewhere in it must have been [escaped](escape).
    fn raw(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.path(class, &[from, to]);
    }

    /// A line through points.
    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() > 1 {
            let element = format!("<polyline class=\"{class}\" points=\"{}\"/>", places(points));
            self.raw(&element);
        }
    }

    /// An area with a tip.
    pub(super) fn area(&mut self, class: &str, points: &[(f64, f64)], tip: &str) {
        self.tipped(&format!("<polygon class=\"{class}\" points=\"{}\"", places(points)), "polygon", tip);
    }

    /// A rectangle with a tip, from its upper left corner.
    pub(super) fn rectangle(&mut self, attributes: &str, corner: (f64, f64), size: (f64, f64), tip: &str) {
        let [x, y, width, height] = [corner.0, corner.1, size.0, size.1].map(number);
        let start = format!("<rect {attributes} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
        self.tipped(&start, "rect", tip);
    }

    /// A small point among many.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64)) {
        self.raw(&format!(
            "<circle class=\"{class} full faint\" cx=\"{}\" cy=\"{}\" r=\"1.5\"/>",
            number(x),
            number(y)
        ));
    }

    /// A place that is not seen and has a tip.
    pub(super) fn hit(&mut self, (x, y): (f64, f64), tip: &str) {
        let start = format!("<circle class=\"hit\" cx=\"{}\" cy=\"{}\" r=\"8\"", number(x), number(y));
        self.tipped(&start, "circle", tip);
    }

    /// Ends an element with a tip: where there is something to say.
    pub(super) fn tipped(&mut self, start: &str, name: &str, tip: &str) {
        let tip = escape(tip);
        let element = if tip.is_empty() {
            format!("{start}/>")
        } else {
            format!("{start} data-tip=\"{tip}\"><title>{tip}</title></{name}>")
        };
        self.raw(&element);
    }

    /// A line of text.
    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        self.text_in(f64::INFINITY, (x, y), anchor, class, text);
    }

    /// A line of text that has so much room: what does not fit is cut, and then the whole is in a tip.
    pub(super) fn text_in(&mut self, room: f64, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let shown = fitted(text, room);
        let tip = if shown == text {
            String::new()
        } else {
            format!(" data-tip=\"{0}\"><title>{0}</title", escape(text))
        };
        let (x, y, shown) = (number(x), number(y), escape(&shown));
        self.raw(&format!("<text{class} x=\"{x}\" y=\"{y}\"{anchor}{tip}>{shown}</text>"));
    }

    /// The document.
    pub(super) fn finish(self) -> String {
        let (height, title) = (number(self.bottom + EDGE), escape(&self.title));
        let mut svg = String::new();
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" class=\"chart\" role=\"img\" \
             aria-label=\"{title}\">\n<style>\n{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n{}</svg>\n",
            self.body
        );
        svg
    }
}

fn places(points: &[(f64, f64)]) -> String {
    let places: Vec<_> = points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
    places.join(" ")
}

/// A coordinate. What is no number cannot be placed; those who draw leave it out, and no document breaks on it here.
pub(super) fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// How much wider bold text is.
pub(super) const BOLD: f64 = 1.18;

/// About how wide a line of 12 units is. Which font there is nobody knows: this is a wide one (`DejaVu Sans`), so that what fits
/// here fits everywhere.
pub(super) fn width(text: &str) -> f64 {
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

/// As much of a text as there is room for, with an ellipsis where something is missing.
pub(super) fn fitted(text: &str, room: f64) -> String {
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
    fn a_long_name_is_cut_and_said_in_whole_by_its_tip() {
        let name = "a server with a name that nobody can remember";
        let cut = fitted(name, 100.0);
        assert!(cut.ends_with('…') && width(&cut) <= 100.0 && cut.len() > 8, "{cut}");
        assert_eq!(fitted("nginx", 100.0), "nginx");
        let mut sheet = Sheet::new("title");
        sheet.text_in(100.0, (0.0, 0.0), Anchor::Start, "", name);
        assert!(sheet.finish().contains(&format!("data-tip=\"{name}\"><title>{name}</title>{cut}</text>")));
    }

    #[test]
    fn a_coordinate_is_a_number() {
        for (value, text) in [(1.0, "1"), (1.25, "1.2"), (f64::NAN, "0"), (f64::INFINITY, "0"), (-0.04, "-0")]
        {
            assert_eq!(number(value), text);
        }
    }
}

//! The SVG document that a chart is drawn on: elements, text that fits, tips, and the style that all charts share.

use std::fmt::Write;

/// The width of every chart. Text of 12 units is still readable where a phone shows 328 pixels of it.
pub(super) const WIDTH: f64 = 480.0;

/// What stays free on the left and on the right.
pub(super) const EDGE: f64 = 10.0;

/// Colours, lines and text. It stands in each document, so that one can be shown alone; its rules begin with `.chart`, so that
/// several on a page, and the page, are left alone. Subjects and layers set `color`, and what is drawn takes that. The colours
/// are those of Okabe and Ito, which people tell apart who cannot tell red from green; yellow is last and darker on white,
/// where it could not be seen.
const STYLE: &str = "\
.chart{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;color:#1f2328}\
.chart text{fill:currentColor}.chart .title{font-size:13px;font-weight:600}.chart .name{font-weight:600}.chart .soft{color:#59636e}\
.chart .paper{fill:#fff}.chart .grid{stroke:#e3e7eb;fill:none}.chart .axis{stroke:#818b95;fill:none}\
.chart .line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}.chart .thin{stroke-width:1.25}\
.chart .thick{stroke-width:4}.chart .faint{stroke-width:1;opacity:.35}.chart .dash{stroke-dasharray:6 4}.chart .dots{stroke-dasharray:2 3}\
.chart .full{fill:currentColor;stroke:currentColor;stroke-width:1.5}.chart .hollow{fill:#fff;stroke:currentColor;stroke-width:1.5}\
.chart .area{fill:currentColor;stroke:#fff;stroke-width:.7}.chart .cell{stroke:#fff}\
.chart .hit{fill:#fff;fill-opacity:0}.chart .halo{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}.chart .on{color:#1f2328}.chart .on-dark,.chart .on-shade{color:#fff}\
.chart .s0{color:#0072b2}.chart .s1{color:#d55e00}.chart .s2{color:#009e73}.chart .s3{color:#c05c97}\
.chart .s4{color:#e69f00}.chart .s5{color:#3fa4e0}.chart .s6{color:#24292f}.chart .s7{color:#a89500}.chart .rest{color:#a8b0b8}\
@media screen and (prefers-color-scheme:dark){\
.chart{color:#e6edf3}.chart .soft{color:#9198a1}.chart .paper,.chart .hollow{fill:#0d1117}.chart .grid{stroke:#2a3038}\
.chart .axis{stroke:#656c76}.chart .on-shade{color:#0d1117}.chart .area,.chart .cell,.chart .halo{stroke:#0d1117}\
.chart .s0{color:#3d9bd6}.chart .s1{color:#f0772b}.chart .s2{color:#1fb78c}.chart .s3{color:#d989b6}.chart .s5{color:#7cc8f5}\
.chart .s6{color:#d1d7de}.chart .s7{color:#f0e442}.chart .rest{color:#6b737c}}";

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
             aria-label=\"{title}\">\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n{}</svg>\n",
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

/// Text as it may stand in an element and in an attribute. What XML cannot hold at all is shown as a question mark.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            other => escaped.push(other),
        }
    }
    escaped
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
    fn text_stays_text() {
        assert_eq!(escape("<a href=\"x\">&\u{1}\n"), "&lt;a href=&quot;x&quot;&gt;&amp;? ");
    }

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

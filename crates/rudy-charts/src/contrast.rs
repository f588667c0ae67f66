//! Tests the contrast of the colours in the style, light and dark.
//!
//! WCAG 2.2 requires 4.5 for text (1.4.3) and 3 for lines and marks (1.4.11).

use crate::heat::opacity;
use crate::sheet::STYLE;

const TEXT: f64 = 4.5;
const LINE: f64 = 3.0;

type Colour = [f64; 3];

/// The colour of a rule in light mode, or in dark mode if it differs.
fn colour(is_dark: bool, selector: &str, property: &str) -> Colour {
    let (light, dark) = STYLE.split_once("@media").expect("the style has both");
    let found = if is_dark { rule(dark, selector, property) } else { None };
    let digits = found.or_else(|| rule(light, selector, property));
    from_digits(digits.unwrap_or_else(|| panic!("no {property} of {selector}")))
}

fn rule<'a>(style: &'a str, selector: &str, property: &str) -> Option<&'a str> {
    let rules = style.lines().filter_map(|line| line.trim().split_once(" { "));
    let mut own = rules.filter(|(selectors, _)| selectors.split(", ").any(|own| own == selector));
    own.find_map(|(_, rules)| {
        rules.split(';').find_map(|rule| rule.trim().strip_prefix(property)?.strip_prefix(": #"))
    })
}

/// `1f2328` or `fff`.
fn from_digits(digits: &str) -> Colour {
    let step = digits.len() / 3;
    [0, 1, 2].map(|part| {
        let digits = &digits[part * step..(part + 1) * step];
        let value =
            u8::from_str_radix(&digits.repeat(2 / step), 16).expect("a colour has hexadecimal digits");
        f64::from(value) / 255.0
    })
}

fn luminance(colour: Colour) -> f64 {
    let linear = |part: f64| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
    colour.iter().zip([0.2126, 0.7152, 0.0722]).map(|(part, weight)| linear(*part) * weight).sum()
}

fn contrast(a: Colour, b: Colour) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// A colour blended over another.
fn over(above: Colour, below: Colour, opacity: f64) -> Colour {
    [0, 1, 2].map(|part| above[part] * opacity + below[part] * (1.0 - opacity))
}

#[test]
fn text_and_lines_have_enough_contrast() {
    for is_dark in [false, true] {
        let paper = colour(is_dark, ".chart .paper", "fill");
        let texts = [".chart", ".chart .soft", ".chart text.s1"].map(|selector| (selector.to_owned(), TEXT));
        let lines = (0..8).map(|number| (format!(".chart .s{number}"), LINE));
        for (selector, least) in texts.into_iter().chain(lines) {
            let found = contrast(colour(is_dark, &selector, "color"), paper);
            assert!(found >= least, "{selector}, dark {is_dark}: {found}");
        }
    }
}

#[test]
fn the_number_of_a_cell_has_enough_contrast_at_any_shade() {
    for is_dark in [false, true] {
        let of = |selector: &str, property: &str| colour(is_dark, selector, property);
        let (text, paper) = (of(".chart", "color"), of(".chart .paper", "fill"));
        for step in 0..=20 {
            let shade = over(of(".chart .s0", "color"), paper, opacity(f64::from(step) / 20.0));
            let found = contrast(text, shade);
            assert!(found >= TEXT, "{step} of 20, dark {is_dark}: {found}");
        }
    }
}

#[test]
fn the_contrast_of_black_on_white_is_21() {
    assert!((contrast(from_digits("000"), from_digits("ffffff")) - 21.0).abs() < 1e-9);
}

//! The colour and the shape of a variant.

use crate::sheet::{Sheet, number};

/// The appearance of a variant, the same in every chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// The class that sets its colour.
    pub class: &'static str,
    /// The form of its points.
    pub shape: Shape,
    /// Lines of variants beyond the number of colours are dashed.
    pub is_dashed: bool,
}

/// The form of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle that points up.
    Triangle,
    /// A square on its corner.
    Diamond,
    /// A triangle that points down.
    Down,
    /// A diagonal cross.
    Cross,
    /// An upright cross.
    Plus,
    /// A hexagon.
    Hexagon,
}

/// The fill of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Valid.
    Full,
    /// Suspect.
    Hollow,
}

const CLASSES: [&str; 8] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];

const SHAPES: [Shape; 8] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Diamond,
    Shape::Down,
    Shape::Cross,
    Shape::Plus,
    Shape::Hexagon,
];

/// Of the variant with this place in the plan.
#[must_use]
pub fn style(index: usize) -> Style {
    let place = index % CLASSES.len();
    // With the second set of colours, the shapes have moved on as well.
    let shape = (index + index / CLASSES.len()) % SHAPES.len();
    Style { class: CLASSES[place], shape: SHAPES[shape], is_dashed: index >= CLASSES.len() }
}

impl Style {
    /// The classes of its line.
    #[must_use]
    pub fn line(self) -> String {
        format!("line {}{}", self.class, if self.is_dashed { " dash" } else { "" })
    }
}

/// Draws a point, with a tip.
pub(crate) fn mark(sheet: &mut Sheet, style: Style, place: (f64, f64), radius: f64, fill: Fill, tip: &str) {
    let fill = match fill {
        Fill::Full => "full",
        Fill::Hollow => "hollow",
    };
    let outline = outline(style.shape, place, radius);
    sheet.with_tip(&format!("<path class=\"{} {fill}\" d=\"{outline}\"", style.class), "path", tip);
}

/// Of about the same size for the eye, whatever the shape.
fn outline(shape: Shape, (x, y): (f64, f64), radius: f64) -> String {
    let r = radius;
    let corners: &[(f64, f64)] = match shape {
        Shape::Circle => {
            let (r, start, across) = (number(r), number(x - r), number(2.0 * r));
            return format!("M{start} {}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0z", number(y));
        }
        Shape::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        Shape::Triangle => &[(0.0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
        Shape::Diamond => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        Shape::Down => &[(0.0, 1.2), (1.15, -0.9), (-1.15, -0.9)],
        Shape::Cross => &[
            (-1.2, -0.7),
            (-0.7, -1.2),
            (0.0, -0.5),
            (0.7, -1.2),
            (1.2, -0.7),
            (0.5, 0.0),
            (1.2, 0.7),
            (0.7, 1.2),
            (0.0, 0.5),
            (-0.7, 1.2),
            (-1.2, 0.7),
            (-0.5, 0.0),
        ],
        Shape::Plus => &[
            (-0.4, -1.3),
            (0.4, -1.3),
            (0.4, -0.4),
            (1.3, -0.4),
            (1.3, 0.4),
            (0.4, 0.4),
            (0.4, 1.3),
            (-0.4, 1.3),
            (-0.4, 0.4),
            (-1.3, 0.4),
            (-1.3, -0.4),
            (-0.4, -0.4),
        ],
        Shape::Hexagon => &[(-1.15, 0.0), (-0.6, -1.0), (0.6, -1.0), (1.15, 0.0), (0.6, 1.0), (-0.6, 1.0)],
    };
    let places = corners.iter().map(|(dx, dy)| format!("{} {}", number(x + dx * r), number(y + dy * r)));
    format!("M{}z", places.collect::<Vec<_>>().join("L"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn sixteen_variants_differ_without_colour_and_lines() {
        let looks: Vec<_> = (0..16).map(style).collect();
        let colours: HashSet<_> = looks[..8].iter().map(|style| style.class).collect();
        assert_eq!(colours.len(), 8);
        let seen: HashSet<_> =
            looks.iter().map(|style| (format!("{:?}", style.shape), style.is_dashed)).collect();
        assert_eq!(seen.len(), 16);
    }
}

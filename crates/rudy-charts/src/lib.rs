//! Draws charts as SVG from descriptions of data.
//!
//! - [`Plot`]: one or more areas with axes, and in them [`Series`] of points, [`Line`]s, a [`Stack`] of areas and
//!   [`Rule`]s.
//! - [`Rows`]: a row for each name, with its values as dots on a common axis.
//! - [`Heat`]: a table whose cells are shaded.
//! - [`Flood`]: connections, CPU by thread and memory over time, as a plot.
//!
//! A document works on its own: it contains its style, with the colours of light and dark mode. It is as wide as a
//! phone, so that its text is readable there. It is valid XML for any data: text is escaped, and values that are no
//! numbers are drawn at an end of the axis.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

#[cfg(test)]
mod contrast;
mod escape;
mod flood;
mod frame;
mod heat;
mod legend;
mod mark;
mod plot;
mod rows;
mod scale;
mod series;
mod sheet;
mod stack;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wellformed;

pub use escape::escape;
pub use flood::{Flood, FloodSample};
pub use frame::Axis;
pub use heat::{Cell, Heat};
pub use legend::{Entry, Key};
pub use mark::{Fill, Shape, Style, style};
pub use plot::{At, Column, Line, Panel, Plot, Rule};
pub use rows::{Dot, Row, Rows};
pub use series::{Point, Series};
pub use sheet::STYLE;
pub use stack::{Layer, Stack, thinned};

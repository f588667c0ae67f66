//! Formats and parses quantities, so that every command, report and configuration key writes them alike.
//!
//! - [`duration`], [`bytes`], [`rate()`], [`count`], [`share`]: `1.53 ms`, `13.6 MiB`, `61,100/s`, `1,234,567`, `12.5 %`.
//! - [`Unit`]: the same for a value whose unit is data, and for the ticks of an axis.
//! - [`Time`] and [`Size`]: values of a configuration file or a flag, as in `"10s"` and `"16k"`.
//! - [`Count`] and [`Rate`]: values of a flag, as in `10k` and `100:5k`.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod format;
mod number;
mod rate;
mod size;
mod text;
mod time;
mod unit;

pub use format::{bytes, duration, float, per_second, rate, rough, share, share_down};
pub use number::{count, digits, grouped, round};
pub use rate::{Count, RATE_MAX, Rate, parse_decimal};
pub use size::Size;
pub use text::{Visible, VisibleStream, counted, is_interpreted, visible, visible_json, visible_lines};
pub use time::{Time, Timeout, parse_duration};
pub use unit::Unit;

//! Times and sizes.

use rudy_units::{Size, Time};

use crate::read::{Invalid, Setting, Value};
use crate::shape::{Kind, Named, Shape};

const TIME: &Named = &Named {
    name: "Time",
    doc: "A duration: numbers with the units `ms`, `s`, `m`, `h` or `d`. A number without a unit is in seconds.",
    kinds: &[Kind::Text, Kind::Number],
    pattern: None,
    examples: &["\"10s\"", "\"500ms\"", "\"5m\"", "\"1h\"", "75"],
};

const SIZE: &Named = &Named {
    name: "Size",
    doc: "A number of bytes, or a number with a unit: `k`, `M`, `G`, `T` or `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024), `kB`, `MB`, \
          `GB` or `TB` (powers of 1000).",
    kinds: &[Kind::Text, Kind::Integer],
    pattern: Some("^[0-9]+ *([kKMGT]?B|[KMGT]iB|[kKmMgGtT])?$"),
    examples: &["\"16k\"", "\"20M\"", "\"10MB\"", "4096"],
};

impl<const MIN: u64, const MAX: u64> Setting for Time<MIN, MAX> {
    const SHAPE: Shape = Shape::Named(TIME);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let time = match (value.as_text(), value.number(), value.float()) {
            (Some(text), ..) => Self::of_text(text),
            #[expect(clippy::cast_precision_loss, reason = "a number of seconds that large is an error")]
            (_, Some(seconds), _) => Self::of_seconds(seconds as f64),
            (.., Some(seconds)) => Self::of_seconds(seconds),
            _ => return value.expected("a time (\"10s\")"),
        };
        time.or_else(|lines| value.invalid(lines))
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

impl<const MIN: u64, const MAX: u64> Setting for Size<MIN, MAX> {
    const SHAPE: Shape = Shape::Named(SIZE);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let size = match (value.as_text(), value.number()) {
            (Some(text), _) => Self::of_text(text),
            (_, Some(bytes)) => Self::of_bytes(bytes),
            _ => return value.expected("a size (\"16k\")"),
        };
        size.or_else(|lines| value.invalid(lines))
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

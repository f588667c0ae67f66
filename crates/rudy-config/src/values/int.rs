//! Integers within bounds.

use std::num::NonZeroUsize;

use crate::read::{Invalid, Setting, Value};
use crate::shape::{Shape, Word};

/// An integer from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Int<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Int<MIN, MAX> {
    /// Converts to `usize`.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Converts to `u32`, which the bounds fit.
    #[must_use]
    pub fn as_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// Converts to `u16`, which the bounds fit.
    #[must_use]
    pub fn as_u16(self) -> u16 {
        u16::try_from(self.0).unwrap_or(u16::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> From<Int<MIN, MAX>> for usize {
    fn from(number: Int<MIN, MAX>) -> Self {
        number.as_usize()
    }
}

impl<const MIN: u64, const MAX: u64> From<Int<MIN, MAX>> for Option<u32> {
    fn from(number: Int<MIN, MAX>) -> Self {
        Some(number.as_u32())
    }
}

impl<const MIN: u64, const MAX: u64> From<Int<MIN, MAX>> for Option<NonZeroUsize> {
    fn from(number: Int<MIN, MAX>) -> Self {
        NonZeroUsize::new(number.as_usize())
    }
}

impl<const MIN: u64, const MAX: u64> Setting for Int<MIN, MAX> {
    const SHAPE: Shape = Shape::Integer { min: MIN, max: MAX };

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.integer(MIN, MAX).map(Self)
    }

    fn written(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// The largest number of something, at least 1, or `"unlimited"`, which is the largest integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Maximum(pub u64);

const UNLIMITED: &str = "unlimited";

impl Maximum {
    /// No limit.
    pub const UNLIMITED: Self = Self(u64::MAX);
}

impl Setting for Maximum {
    const SHAPE: Shape = Shape::Either(&[
        &Shape::Integer { min: 1, max: u64::MAX },
        &Shape::Words(&[Word { text: UNLIMITED, aliases: &[], doc: "No limit." }]),
    ]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        match value.as_text() {
            Some(UNLIMITED) => Ok(Self::UNLIMITED),
            _ => value.integer(1, u64::MAX).map(Self),
        }
    }

    fn written(&self) -> Option<String> {
        Some(if *self == Self::UNLIMITED { format!("\"{UNLIMITED}\"") } else { self.0.to_string() })
    }
}

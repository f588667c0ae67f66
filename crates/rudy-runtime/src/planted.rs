//! Faults that are planted, to show that the simulation finds their kind. Only a build with `--cfg planted` has them.

#[cfg(planted)]
mod list;

#[cfg(planted)]
pub use self::list::{FAULTS, is_planted, lose, plant};

/// Returns `false`.
#[cfg(not(planted))]
#[must_use]
#[inline(always)]
#[expect(clippy::inline_always, reason = "nothing of it is left in the server")]
pub const fn is_planted(_fault: &str) -> bool {
    false
}

/// Drops a value.
#[cfg(not(planted))]
pub fn lose<T>(_value: T) {}

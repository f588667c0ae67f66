//! Faults that are planted, to show that the simulation finds their kind. Only a build with `--cfg planted` has them.

/// Plants a fault in this process. Only the first call has an effect.
#[cfg(planted)]
pub fn plant(fault: &str) {
    PLANTED.get_or_init(|| fault.to_owned());
}

#[cfg(planted)]
static PLANTED: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Returns whether a fault is planted.
#[cfg(planted)]
#[must_use]
pub fn is_planted(fault: &str) -> bool {
    PLANTED.get().is_some_and(|planted| planted == fault)
}

/// Returns `false`.
#[cfg(not(planted))]
#[must_use]
#[inline(always)]
#[expect(clippy::inline_always, reason = "nothing of it is left in the server")]
pub const fn is_planted(_fault: &str) -> bool {
    false
}

//! What applications do, whatever their protocol.

use std::time::Duration;

/// How an application responds to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Responds,
    /// It takes this long before its response.
    Late(Duration),
    /// It pauses in the middle of its response.
    Pauses(Duration),
    /// It never responds.
    Hangs,
    /// It closes the connection without a response.
    Dies,
    /// It resets the connection in the middle of the body.
    DiesInBody,
    /// It responds, and closes the connection although it did not say so.
    Leaves,
    /// It sends something that is no response.
    Lies,
    /// It ends its response before the length that it has declared.
    Truncates,
}

impl Behaviour {
    /// Chooses one; it is not the first, `faults_per_mille` times of 1,000.
    pub(crate) fn random(random: &mut fastrand::Rng, faults_per_mille: u32) -> Self {
        if random.u32(..1000) >= faults_per_mille {
            return Self::Responds;
        }
        match random.u32(..8) {
            0 => Self::Late(Duration::from_millis(random.u64(1..20_000))),
            1 => Self::Pauses(Duration::from_millis(random.u64(1..20_000))),
            2 => Self::Hangs,
            3 => Self::Dies,
            4 => Self::DiesInBody,
            5 => Self::Leaves,
            6 => Self::Lies,
            _ => Self::Truncates,
        }
    }
}

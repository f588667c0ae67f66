//! What the server asks of its surroundings: the [time](clock), [chance](random), [tasks](spawn()), and a thread for
//! [work that blocks](blocking()).
//!
//! A simulation of the whole server answers in their place, so that a run depends on nothing but its seed. It has one thread, on which
//! whatever runs inside of a simulated process sees the [`Simulation`] of that process. Everywhere else a question costs one load and one
//! branch that is never taken; a value that is passed to each of the 200 places that read the clock would cost more, in lines and in
//! registers.

#![forbid(unsafe_code)]

pub mod clock;
mod planted;
pub mod random;
mod simulation;
mod tasks;
pub mod watch;

#[cfg(planted)]
pub use planted::{FAULTS, plant};
pub use planted::{is_planted, lose};
pub use simulation::{Entered, Simulation, current};
pub use tasks::{blocking, inside, sleep_until, spawn, spawn_on};

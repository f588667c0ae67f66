//! Runs experiments: compares servers under the same workload, in rounds.
//!
//! [`run()`] starts each variant of a [plan](rudy_experiment::plan) again for each workload and round, in an order that changes, and writes
//! a [record](rudy_experiment::record) after each run.

mod burn;
mod compare;
mod folders;
mod handshakes;
mod machine;
mod messages;
mod run;
mod sample;
mod variant;
mod workload;

pub use burn::burn;
pub use compare::Compare;
pub use handshakes::{Handshakes, handshakes};
pub use messages::{Messages, messages};
pub use run::{Options, run};

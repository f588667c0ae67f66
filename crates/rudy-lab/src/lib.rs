//! Experiments: compares servers under the same workload, in rounds, and computes whether one is better.
//!
//! A [`plan`] defines the variants, the workloads and the comparisons. [`run()`] starts each variant again for
//! each workload and round, in an order that changes. It writes a folder of [records](record), a line after each
//! run, so that an interruption loses nothing.

mod burn;
mod compare;
mod experiment;
mod folders;
mod handshakes;
mod list;
mod machine;
mod messages;
pub mod plan;
mod programs;
pub mod record;
mod report;
mod run;
mod sample;
mod variant;
mod workload;

pub use burn::burn;
pub use compare::Compare;
pub use handshakes::{Handshakes, handshakes};
pub use list::{list, print, show};
pub use messages::{Messages, messages};
pub use report::{DiffOptions, FailIfWorse, Format, ReportOptions, diff, report};
pub use run::{Options, run};

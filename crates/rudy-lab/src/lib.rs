//! Experiments: servers side by side under the same load, in rounds, with what is needed to say whether one is better.
//!
//! A [`plan`] says which subjects, which loads and what is to be compared. A [`run()`] of it starts each subject afresh for
//! each load and round, in an order that changes, and leaves a folder of [records](record), a line after each single run,
//! so that what was measured is never lost with what was not.

mod experiment;
mod list;
mod load;
mod machine;
mod messages;
mod place;
pub mod plan;
pub mod record;
mod report;
mod run;
mod sample;
mod subject;

pub use list::list;
pub use messages::{Messages, messages};
pub use report::{Format, ReportOptions, report};
pub use run::{Options, run};

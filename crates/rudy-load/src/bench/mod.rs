//! Load: many requests, in a closed loop or at a rate.

mod exchange;
mod feed;
mod fleet;
mod plan;
mod recorder;
mod run;
mod worker;

pub use plan::{Expected, Pace, Plan, Until};
pub use recorder::Recorder;
pub use run::{Interval, Outcome, RunError, ThreadTime, Watch, run};

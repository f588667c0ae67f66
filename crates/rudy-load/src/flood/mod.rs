//! A flood: many long-lived connections, opened on a ramp and kept, and how late what they bring is.

mod crowd;
mod plan;
mod run;
mod seen;

pub use plan::{Plan, Ramp, Requests, RequestsError};
pub use run::{FloodError, Moment, Outcome, Watch, run};
pub use seen::Seen;

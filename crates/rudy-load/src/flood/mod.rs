//! A flood: many long-lived connections, opened on a ramp and kept, and how late what they bring is.

mod command;
mod crowd;
mod document;
mod options;
mod plan;
mod plot;
mod report;
mod run;
mod seen;
mod series;
mod server;

pub use command::flood;
pub use options::{Options, Server};
pub use plan::{Plan, Ramp, Requests, RequestsError};
pub use run::{FloodError, Moment, Outcome, Watch, run};
pub use seen::Seen;

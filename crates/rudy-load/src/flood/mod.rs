//! `rudy flood`: opens many long-lived connections over a ramp, holds them, and measures the delay of their
//! data.

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

//! `rudy flood`: opens many long-lived connections over a ramp, holds them, and measures the delay of their
//! data.

mod command;
mod connections;
mod document;
mod measurement;
mod monitor;
mod options;
mod plan;
mod plot;
mod report;
mod run;
mod series;
mod server;
mod stream;
mod warnings;

pub use command::flood;
pub use measurement::Measurement;
pub use options::{Options, Server};
pub use plan::{Plan, Ramp, Requests, RequestsError};
pub use run::{FloodError, Outcome, Progress, Watch, monotonic, run};

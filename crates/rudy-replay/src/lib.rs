//! `rudy replay`: sends the requests of an access log to two servers, and compares their responses.
//!
//! Parsers of sources and the comparison are pure. [`Replay`] sends each request to both servers, [`Report`] groups the differences.

mod command;
mod compare;
mod curl;
mod follow_up;
mod mask;
mod options;
mod replay;
mod report;
mod request;
mod response;
mod server;
pub mod source;

pub use command::{CommandOptions, Source, replay};
pub use compare::{Comparison, Difference, Kind, Side};
pub use mask::Values;
pub use options::Options;
pub use replay::{Ended, Replay};
pub use report::{Group, Report};
pub use request::{Place, Request};
pub use response::{BODY_BYTES_MAX, Body, Failed, Outcome, Response};

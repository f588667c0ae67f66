//! `rudy get`: sends requests in sequence and measures the phases of each.

mod command;
mod options;
mod output;
mod report;

pub use command::get;
pub use options::Options;
pub(crate) use report::date;

//! `rudy get`: sends requests in sequence and measures the phases of each.

mod back_off;
mod command;
mod dial;
mod error;
mod observer;
mod options;
mod output;
mod redirect;
mod report;
mod session;
mod wait;

pub use command::get;
pub use options::Options;

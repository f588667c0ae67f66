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

pub(crate) use back_off::BackOff;
pub use command::get;
pub(crate) use dial::{connect, resolve};
pub(crate) use error::GetError;
pub(crate) use observer::Head;
pub use options::Options;
pub(crate) use output::Output;
pub(crate) use report::date;
pub(crate) use session::{Session, send};
pub(crate) use wait::Waiter;
pub use wait::{Stop, Stopped};

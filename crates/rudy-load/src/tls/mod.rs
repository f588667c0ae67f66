//! `rudy tls`: takes the handshake with a server apart.

mod command;
mod json;
mod options;
mod report;
mod visit;

pub use command::tls;
pub use options::{Options, parse_server};

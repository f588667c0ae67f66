//! FastCGI 1.0 for both ends of a connection, as pure state machines: bytes go in; bytes and events come out.
//!
//! The crate opens no sockets, reads no clock and uses no async runtime. "Section" without another name is one of the
//! [FastCGI Specification 1.0](https://fastcgi-archives.github.io/FastCGI_Specification.html).
//!
//! - [`gateway`]: the web server's end, with one request at a time.
//! - [`application`]: the app's end, with several requests at a time.
//! - [`cgi`]: the head of an app's response (RFC 3875 §6).
//! - [`record`]: the wire format; [`pairs`]: name-value pairs; [`values`]: the capacity that an app reports.
//! - [`Limits`]: limits on the memory that a peer can use.
//!
//! The library to write apps with is the crate `rudy-fastcgi-app`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod application;
pub mod cgi;
mod fault;
pub mod gateway;
mod limits;
pub mod pairs;
pub mod record;
mod record_decoder;
#[cfg(test)]
mod round_trip;
pub mod values;

pub use fault::Fault;
pub use limits::Limits;
pub use record::{ProtocolStatus, RequestId, Role};
pub use rudy_message::syntax::Excerpt;

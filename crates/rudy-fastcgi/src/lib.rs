//! FastCGI 1.0 for both ends of a connection, as pure state machines: bytes go in; bytes and events come out.
//!
//! Nothing here opens a socket, reads a clock, or knows of an async runtime. "Section" without another name is one of the
//! [FastCGI Specification 1.0](https://fastcgi-archives.github.io/FastCGI_Specification.html).
//!
//! - [`gateway`]: the web server's end, which has one request at a time.
//! - [`application`]: the app's end, which accepts several requests at a time.
//! - [`cgi`]: what an app answers, before its body (RFC 3875 §6).
//! - [`record`]: what both ends send, byte by byte; [`pairs`]: the names and values in it; [`values`]: what an app says of
//!   itself.
//! - [`Limits`]: every bound on what a peer can make us hold.
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
mod records;
#[cfg(test)]
mod round_trip;
pub mod values;

pub use fault::Fault;
pub use limits::Limits;
pub use record::{ProtocolStatus, RequestId, Role};
pub use rudy_http::syntax::Excerpt;

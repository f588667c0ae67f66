//! Conformance cases as data: input bytes and expected responses, for the state machine and for sockets on every engine.
//!
//! The cases are in `tests/conformance/*.case`; [`parse`] describes the format. All runners serve the same [`site`]. [`pure`]
//! runs a case against the state machine alone, with virtual time; [`socket`] runs it over loopback against an engine, [`streams`]
//! the same over HTTP/2 and HTTP/3.

mod case;
mod check;
mod escape;
mod http2;
mod http3;
mod parse;
pub mod pure;
mod request;
mod service;
pub mod site;
pub mod socket;
pub mod streams;
pub mod wire;

pub use case::{Case, End, Expected, ExpectedResponse, Http2, Step, Transcript};
pub use check::check;
pub use parse::load_all;
pub use service::Sites;

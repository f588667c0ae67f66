//! Conformance cases as data: bytes in, answers out, run against the pure machine and over sockets on every engine.
//!
//! The cases lie in `tests/conformance/*.case`; [`parse`] describes the format. What the server serves in them is in
//! [`site`], once for all runners. [`pure`] runs a case against the machine alone, with virtual time; [`socket`] runs
//! it over loopback against an engine.

mod case;
mod check;
mod escape;
mod parse;
pub mod pure;
mod service;
pub mod site;
pub mod socket;
pub mod wire;

pub use case::{Case, End, Expected, ExpectedAnswer, Seen, Step};
pub use check::check;
pub use parse::load_all;
pub use service::Sites;

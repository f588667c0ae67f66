//! The arithmetic of load and its measurement: numbers go in, numbers and plain sentences come out.
//!
//! Nothing here opens a socket or a file, reads a clock, or knows of an async runtime: who generates the load hands in
//! what it measured, and every rule can be tested at any time of day against a simulated server.
//!
//! - [`Histogram`]: latencies in fixed memory, three digits, readable by every `HdrHistogram` tool.
//! - [`Schedule`]: when the k-th request of a plan is due, as a formula.
//! - [`Slo`]: what a service is to hold, as people write it, and whether it did.
//! - [`knee::Search`]: the highest rate at which a server holds it.
//! - [`compare`]: whether one server is better than another, from a few rounds of both, in what [order](rotation).
//! - [`validity`]: whether a run's figures are what they seem to be.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod compare;
pub mod histogram;
pub mod knee;
pub mod late;
pub mod nines;
mod random;
pub mod rate;
pub mod rotation;
pub mod schedule;
pub mod slo;
pub mod validity;

pub use histogram::Histogram;
pub use nines::Nines;
pub use schedule::Schedule;
pub use slo::Slo;

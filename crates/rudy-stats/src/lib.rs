//! The statistics of load tests: numbers go in, numbers and sentences come out.
//!
//! Nothing here opens a socket or a file, reads a clock, or uses an async runtime. The load generator passes
//! in its measurements, so every rule can be tested with a simulated server.
//!
//! - [`Histogram`]: latencies in constant memory, three digits, compatible with `HdrHistogram` tools.
//! - [`Schedule`]: the due time of the k-th request of a plan, as a formula.
//! - [`Slo`]: a service level objective, and whether it was met.
//! - [`search::Search`]: the highest rate that meets an objective.
//! - [`compare`]: whether one server is better than another, from a few rounds of both in a balanced
//!   [order](rotation).
//! - [`growth`]: whether a count grows persistently, as the sockets of a process that leaks.
//! - [`validity`]: whether the metrics of a run are valid.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod compare;
pub mod growth;
pub mod histogram;
mod random;
pub mod rotation;
pub mod schedule;
pub mod search;
pub mod slo;
pub mod stream_schedule;
pub mod success;
pub mod validity;

pub use histogram::Histogram;
pub use schedule::Schedule;
pub use slo::Slo;
pub use success::SuccessRate;

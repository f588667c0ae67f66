//! Metrics of the server: counters of requests per route and worker, and the text that Prometheus reads.

mod exposition;
mod process;
mod render;
mod requests;
mod sums;
mod words;

pub(crate) use self::exposition::Format;
pub(crate) use self::render::{Sources, render};
pub(crate) use self::requests::{BOUNDS_US, RequestMetrics, RequestSnapshot};
pub use self::sums::Metrics;

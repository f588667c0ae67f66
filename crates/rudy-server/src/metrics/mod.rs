//! Metrics of the server: counters of requests per route and worker, and the text that Prometheus reads.

mod exposition;
mod process;
mod render;
mod requests;
mod words;

pub(crate) use self::exposition::Format;
pub(crate) use self::render::{Sources, render};
pub(crate) use self::requests::{BOUNDS_US, OwnCounters, RequestMetrics, RequestSnapshot};

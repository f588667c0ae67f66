//! Metrics of the server: counters of requests per route and worker, and the text that Prometheus reads.

mod exposition;
mod handler;
mod process;
mod render;
mod requests;
mod sums;
mod words;

use std::fmt;
use std::sync::OnceLock;

pub use self::exposition::Format;
pub use self::handler::MetricsTable;
pub use self::render::{Sources, render};
pub use self::requests::{BOUNDS_US, RequestMetrics, RequestSnapshot};
pub use self::sums::Metrics;

/// Writes the metrics of the process, with those that only the running server knows: of its upstreams, caches and limits.
#[derive(Default)]
pub struct MetricsText(OnceLock<Box<TextSource>>);

type TextSource = dyn Fn(Format) -> String + Send + Sync;

impl MetricsText {
    /// Sets what writes the text. Only the first call has an effect.
    pub fn set_source(&self, source: impl Fn(Format) -> String + Send + Sync + 'static) {
        let _already_set = self.0.set(Box::new(source));
    }

    /// Writes the metrics; none in a process that does not serve. Takes milliseconds.
    pub fn write(&self, format: Format) -> String {
        self.0.get().map(|source| source(format)).unwrap_or_default()
    }
}

impl fmt::Debug for MetricsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MetricsText").finish_non_exhaustive()
    }
}

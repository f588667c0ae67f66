//! Spans of requests for a collector (OTLP over HTTP).
//!
//! The worker encodes the spans of an exchange when it is over ([`spans`]), and appends them to a queue ([`queue`]). The thread of the
//! [`exporter`] sends what is in it, so no request waits for the collector. If the queue is full, spans are dropped and counted.

mod collector;
mod exporter;
mod queue;
mod spans;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

pub use self::exporter::Exporter;
pub use self::queue::Counts;
pub use self::table::{CollectorUrl, Percentage, TracingTable};

/// The exporters of a process: that of the configuration, and those of old ones that have spans left.
#[derive(Debug, Default)]
pub struct Exporters {
    open: Mutex<Vec<Weak<Exporter>>>,
    counts: Arc<Counts>,
}

impl Exporters {
    /// Returns the exporter with these settings: the one that a reload keeps, or a new one.
    pub fn get_or_make(&self, table: &TracingTable) -> Arc<Exporter> {
        let mut open = self.open.lock();
        open.retain(|exporter| exporter.strong_count() > 0);
        let known = open.iter().filter_map(Weak::upgrade).find(|known| known.has_settings_of(table));
        known.unwrap_or_else(|| {
            let made = Arc::new(Exporter::new(table, self.counts.clone()));
            open.push(Arc::downgrade(&made));
            made
        })
    }

    /// Sends what is queued, within this time, at the end of the process. Returns the number of spans that were not sent.
    #[must_use = "the caller reports lost spans"]
    pub fn close(&self, within: Duration) -> u64 {
        let open: Vec<_> = self.open.lock().iter().filter_map(Weak::upgrade).collect();
        // All of them send at the same time.
        for exporter in &open {
            exporter.begin_close();
        }
        open.iter().map(|exporter| exporter.wait_closed(within)).sum()
    }

    /// Returns the number of spans that were exported and lost, if there is or was an exporter.
    #[must_use]
    pub fn counts(&self) -> Option<&Counts> {
        let has_any = !self.open.lock().is_empty() || self.counts.has_any();
        has_any.then_some(&*self.counts)
    }
}

//! The updates of the page: rendered by one thread for all viewers, and only while there are some.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rudy_admin::Filter;
use rudy_handlers::topic::{Batch, Framing, History as Kept, Topic};
use rudy_runtime::clock;

use super::history::History;
use super::render::update;
use crate::status::{Activity, Selection};

/// Number of active requests on the page.
pub(super) const ACTIVE: usize = 25;

/// How many updates are stored: for a viewer that reads slowly, only the latest is of use.
const KEPT: Kept = Kept { messages: 2, bytes: 1024 * 1024 };

/// How long the thread continues without a viewer, so that a page that is loaded again continues its charts.
const LINGER: Duration = Duration::from_secs(10);

/// The updates for all viewers. A process has one.
#[derive(Debug)]
pub struct Live {
    topic: Arc<Topic>,
    /// The time between two updates while the thread runs.
    running: Mutex<Option<Duration>>,
}

impl Default for Live {
    fn default() -> Self {
        Self { topic: Arc::new(Topic::new(Framing::Sse)), running: Mutex::new(None) }
    }
}

impl Live {
    /// The updates, for a viewer that subscribes before [`Self::ensure_running`].
    pub(super) fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }

    /// Starts the thread if it does not run. The last viewer determines the interval.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(super) fn ensure_running(
        self: &Arc<Self>,
        activity: &Arc<Activity>,
        interval: Duration,
    ) -> io::Result<()> {
        let mut running = self.running.lock();
        if running.is_none() {
            let (live, activity) = (self.clone(), activity.clone());
            thread::Builder::new().name("dashboard".to_owned()).spawn(move || live.run(&activity))?;
        }
        *running = Some(interval);
        Ok(())
    }

    /// Publishes updates until there are no viewers.
    fn run(&self, activity: &Activity) {
        let mut history = History::new();
        let filter = Filter::default();
        while let Some(interval) = self.interval() {
            let begin = clock::now();
            let selection = Selection { filter: &filter, limit: ACTIVE, queries: false };
            if let Some(report) = activity.current(selection) {
                let rates = history.add(&report);
                let update = update(&report, rates, history.memory_bytes(), &history.charts());
                let mut batch = Batch::default();
                batch.push(&serde_json::json!(update).to_string());
                self.topic.publish(&batch, KEPT);
            }
            #[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "a thread of its own"))]
            thread::sleep(interval.saturating_sub(clock::since(begin)));
        }
    }

    /// Returns the time between two updates. `None` ends the thread, because there is no viewer.
    fn interval(&self) -> Option<Duration> {
        let mut running = self.running.lock();
        // A viewer subscribes before it starts the thread, so none is missed here.
        if self.topic.is_idle(clock::now(), LINGER) {
            *running = None;
        }
        *running
    }
}

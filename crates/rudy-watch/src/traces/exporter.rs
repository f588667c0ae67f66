//! The thread that sends spans to the collector.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderValue;
use parking_lot::Mutex;
use rudy_log::ErrorLog;
use rudy_pipeline::exchange::{Finished, Recorder};
use rudy_request::{BackOff, Stop, Stopped, Waiter};
use rudy_runtime::clock;
use rudy_trace::otlp::{self, Accepted};

use super::collector::{Collector, Outcome, options, shown};
use super::queue::{Batch, Counts, Queue};
use super::spans;
use super::table::TracingTable;

/// How long a batch is sent again and again, as in the OpenTelemetry Collector. Later spans fill the queue meanwhile.
const RETRY_MAX: Duration = Duration::from_mins(5);

/// Exports spans with the settings of a configuration. The last owner, a request or a configuration, lets its thread send what is queued.
#[derive(Debug)]
pub struct Exporter {
    table: TracingTable,
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    /// Interrupts a request of the thread; `None` before it is started. The thread has it, too, because its end interrupts.
    stop: Arc<Mutex<Option<Stop>>>,
}

impl Exporter {
    pub(super) fn new(table: &TracingTable, counts: Arc<Counts>) -> Self {
        let queue = Arc::new(Queue::new(table.queue.as_usize()));
        Self { table: table.clone(), queue, counts, stop: Arc::default() }
    }

    /// Whether spans that are recorded with these settings can be sent by this exporter.
    pub(super) fn has_settings_of(&self, table: &TracingTable) -> bool {
        let (sample, trust_clients) = (self.table.sample, self.table.trust_clients);
        self.table == TracingTable { sample, trust_clients, ..table.clone() }
    }

    /// Starts the thread, unless it runs. Failures go to `log`.
    ///
    /// # Errors
    ///
    /// The system lacks a thread or a descriptor.
    pub fn start(&self, log: &ErrorLog) -> io::Result<()> {
        let mut running = self.stop.lock();
        if running.is_some() {
            return Ok(());
        }
        let (stop, stopped) = Stop::new()?;
        let (table, queue, counts) = (self.table.clone(), self.queue.clone(), self.counts.clone());
        let sender = Sender { table, queue, counts, log: log.clone(), _stop: self.stop.clone() };
        thread::Builder::new().name("traces".to_owned()).spawn(move || sender.run(stopped))?;
        *running = Some(stop);
        Ok(())
    }

    /// Lets the thread send what is queued, and end.
    pub(super) fn begin_close(&self) {
        self.queue.close();
    }

    /// Waits for the end of the thread, and interrupts it if it takes too long. Returns the number of spans that were not sent.
    pub(super) fn wait_closed(&self, within: Duration) -> u64 {
        // A collector that takes longer than for a request would be no better later.
        let until = clock::now() + within.min(self.table.timeout.0);
        if self.stop.lock().is_none() || self.queue.wait_ended(until) {
            return 0;
        }
        self.stop.lock().take().into_iter().for_each(Stop::stop);
        self.queue.end()
    }
}

impl Drop for Exporter {
    /// Does not wait: the caller may be a worker.
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Recorder for Exporter {
    fn finished(&self, exchange: &Finished<'_>) {
        thread_local! {
            static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        SCRATCH.with_borrow_mut(|bytes| {
            bytes.clear();
            let now = clock::now();
            let spans = spans::write(exchange, now, clock::utc(), bytes);
            if !self.queue.push(bytes, spans, now) {
                self.counts.dropped.fetch_add(spans, Ordering::Relaxed);
            }
        });
    }
}

/// What the thread has.
struct Sender {
    table: TracingTable,
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    log: ErrorLog,
    _stop: Arc<Mutex<Option<Stop>>>,
}

impl Sender {
    fn run(self, stopped: Stopped) {
        let (options, waiter) = (options(&self.table), Waiter::stoppable(stopped));
        let mut collector = Collector::new(&self.table, &options, &waiter);
        while let Some((batch, dropped)) = self.queue.take() {
            if dropped > 0 {
                self.report(
                    "spans were dropped",
                    &format!("{dropped} spans dropped, because the queue was full (`queue`)"),
                );
            }
            self.deliver(&mut collector, &batch);
        }
        let left = self.queue.end();
        self.counts.failed.fetch_add(left, Ordering::Relaxed);
    }

    /// Sends a batch until the collector has accepted or rejected it, or it takes too long. While the server stops, once.
    fn deliver(&self, collector: &mut Collector<'_>, batch: &Batch) {
        let spans = batch.spans;
        let body = Bytes::from(self.request(batch));
        let (mut back_off, begun) = (BackOff::new(RETRY_MAX), clock::now());
        loop {
            let (retry_after, why) = match collector.send(body.clone()) {
                Outcome::Accepted(accepted) => return self.accepted(spans, &accepted),
                Outcome::Never(why) => {
                    self.counts.rejected.fetch_add(spans, Ordering::Relaxed);
                    let line = format!("{why}; {spans} spans are lost: check `endpoint` and `headers`");
                    return self.report("spans were rejected", &line);
                }
                Outcome::Later(retry_after, why) => (retry_after, why),
            };
            let delay = delay(&mut back_off, retry_after.as_ref());
            let is_late = clock::since(begun) + delay > RETRY_MAX;
            if is_late || self.queue.is_closing() {
                self.counts.failed.fetch_add(spans, Ordering::Relaxed);
                return self.report("spans were lost", &format!("{why}; {spans} spans are lost"));
            }
            let seconds = delay.as_secs();
            self.report(
                "spans are sent again",
                &format!("{why}; {spans} spans are sent again in {seconds} s"),
            );
            self.queue.rest(delay);
        }
    }

    fn request(&self, batch: &Batch) -> Vec<u8> {
        let name = self.table.service_name.as_bytes();
        otlp::request(
            |resource| {
                resource.text("service.name", name);
                resource.text("service.version", env!("CARGO_PKG_VERSION").as_bytes());
                resource.number("process.pid", std::process::id().into());
            },
            env!("CARGO_PKG_VERSION"),
            &batch.bytes,
        )
    }

    fn accepted(&self, spans: u64, accepted: &Accepted) {
        // A collector cannot reject more than it has received.
        let rejected = accepted.rejected.min(spans);
        self.counts.exported.fetch_add(spans - rejected, Ordering::Relaxed);
        self.counts.rejected.fetch_add(rejected, Ordering::Relaxed);
        if rejected > 0 || !accepted.message.is_empty() {
            let line = format!("it has rejected {rejected} of {spans} spans{}", shown(&accepted.message));
            self.report("some spans were rejected", &line);
        }
    }

    fn report(&self, kind: &str, line: &str) {
        let endpoint = self.table.endpoint.to_string();
        self.log.recurring_error((kind, &*endpoint), &format!("tracing: {endpoint}: {line}"));
    }
}

/// Returns the time until another attempt: what the collector asks for, or a second that doubles.
fn delay(back_off: &mut BackOff, retry_after: Option<&HeaderValue>) -> Duration {
    let now = clock::utc().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    // Whatever the failure is, the delay is that of a server that cannot serve now.
    let delay = back_off.delay_after(503, retry_after.map(HeaderValue::as_bytes), now).unwrap_or_default();
    delay.max(Duration::from_secs(1))
}

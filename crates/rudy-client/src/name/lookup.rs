//! Schedules the lookups of a name, and logs their results.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rudy_log::ErrorLog;
use rudy_runtime::clock;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{sleep, timeout};

use super::Name;
use super::answer::{is_same, list, unresolved_line, usable};
use crate::resolver::Answer;

/// The maximum number of simultaneous lookups. A lookup that hangs occupies a thread until the system gives
/// up (with glibc usually after 10 s).
const LOOKUPS_MAX: usize = 16;

/// The timing of lookups.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookupTiming {
    /// The interval of periodic lookups, as long as no answer has a TTL.
    pub(super) interval: Duration,
    /// The shortest pause before a lookup that a request needs because no address accepts a connection.
    pub(super) pause: Duration,
    /// How long requests wait for a lookup, counted from its start, so that a lookup that hangs does not
    /// delay later requests.
    pub(super) wait_timeout: Duration,
}

impl Default for LookupTiming {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { interval: 30 * second, pause: second, wait_timeout: second }
    }
}

/// The state of a name's lookups.
#[derive(Debug, Clone, Default)]
pub(super) struct LookupState {
    /// When the current lookup started, or the last one ended.
    since: Option<Instant>,
    is_running: bool,
    /// Whether a request needs a lookup.
    pub(super) is_requested: bool,
    /// The number of finished lookups.
    pub(super) ended: u64,
    /// Why the last lookup failed.
    failure: Option<String>,
    /// The TTL of the last answer.
    ttl: Option<Duration>,
}

/// Returns the runtime of all lookups and health checks, which starts with the first one. The runtimes of the engines
/// cannot be used: they wait for their blocking threads at the end, and a lookup may hang.
pub fn background_runtime() -> io::Result<Handle> {
    static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
    if rudy_runtime::current().is_some() {
        return Ok(Handle::current());
    }
    let mut runtime = RUNTIME.lock();
    if let Some(runtime) = &*runtime {
        return Ok(runtime.handle().clone());
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).max_blocking_threads(LOOKUPS_MAX).thread_name("upstreams").enable_all();
    Ok(runtime.insert(builder.build()?).handle().clone())
}

impl Name {
    /// Resolves the name. After a failure, the previous addresses stay.
    pub(crate) async fn look_up(&self, log: &ErrorLog) {
        self.state.send_modify(|state| {
            (state.since, state.is_running, state.is_requested) = (Some(clock::now()), true, false);
        });
        let answer = usable(self.resolver.addresses(&self.host, self.port).await);
        self.report(answer.as_ref().map(|answer| &*answer.records), log);
        self.state.send_modify(|state| {
            match answer {
                Ok(Answer { records, ttl }) => {
                    self.alternatives.set(records);
                    (state.failure, state.ttl) = (None, ttl);
                }
                Err(why) => {
                    state.failure = Some(why);
                    state.ttl = state.ttl.map(|ttl| ttl.min(self.timing.interval));
                }
            }
            (state.since, state.is_running) = (Some(clock::now()), false);
            state.ended += 1;
        });
    }

    /// Waits until the next lookup is due.
    pub(crate) async fn next_lookup(&self) {
        let mut state = self.state.subscribe();
        let requested = async {
            sleep(self.timing.pause).await;
            // This cannot fail: `self` has the sender.
            let _ = state.wait_for(|state| state.is_requested).await;
        };
        let interval = self.state.borrow().ttl.unwrap_or(self.timing.interval);
        let _ = timeout(interval, requested).await;
    }

    /// Waits for a lookup result that is younger than [`LookupTiming::pause`], but at most
    /// [`LookupTiming::wait_timeout`] from the start of the lookup.
    pub(super) async fn refresh(&self) {
        let mut state = self.state.subscribe();
        let LookupState { since, is_running, ended, .. } = state.borrow().clone();
        let age = since.map_or(Duration::MAX, clock::since);
        let mut wait_timeout = self.timing.wait_timeout;
        if is_running {
            wait_timeout = wait_timeout.saturating_sub(age);
        } else if age < self.timing.pause {
            return;
        } else {
            // A lookup that has started meanwhile is enough.
            self.state.send_modify(|state| state.is_requested = !state.is_running);
        }
        // After a timeout the request fails, as it would without the lookup.
        let _ = timeout(wait_timeout, state.wait_for(|state| state.ended > ended)).await;
    }

    /// Returns why the name has no address.
    pub(super) fn why_unresolved(&self) -> String {
        match &self.state.borrow().failure {
            Some(why) => format!("the name does not resolve: {why}"),
            None => "the name is being looked up".to_owned(),
        }
    }

    /// Logs changes.
    fn report(&self, answer: Result<&[SocketAddr], &String>, log: &ErrorLog) {
        let before = self.alternatives.addresses();
        let had_failed = self.state.borrow().failure.is_some();
        let name = self.to_string();
        let kind = ("a name does not resolve", &*name);
        match answer {
            Ok(now) if had_failed || !before.is_empty() && !is_same(&before, now) => {
                log.notice(&format!("{self} resolves to {}", list(now)));
            }
            Err(_) if had_failed => {}
            Err(why) if before.is_empty() => log.recurring_error(kind, &unresolved_line(self, why)),
            Err(why) => log.recurring_error(
                kind,
                &format!("{self} no longer resolves: {why}; connections still go to {}", list(&before)),
            ),
            Ok(_) => {}
        }
    }
}

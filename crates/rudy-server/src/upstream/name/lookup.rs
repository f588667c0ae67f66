//! Schedules the lookups of a name, and logs their results.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::Name;
use super::answer::{is_same, list, unresolved_line, usable};
use super::public::is_public;
use crate::error_log::ErrorLog;

/// The maximum number of simultaneous lookups. A lookup that hangs occupies a thread until the system gives
/// up (with glibc usually after 10 s).
const LOOKUPS_MAX: usize = 16;

/// A blocking function that resolves a host.
pub(super) type LookUp = Box<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The timing of lookups.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookupTiming {
    /// The interval of periodic lookups.
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
}

/// Resolves a host by the system: `/etc/hosts`, DNS, and the other sources in nsswitch.conf(5).
pub(super) fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// Resolves a host, and returns only public addresses.
pub(super) fn resolve_public(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    only_public(resolve(host, port)?)
}

/// Removes the addresses that are not public. An error if no other is left.
pub(super) fn only_public(mut addresses: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    addresses.retain(|address| is_public(address.ip()));
    if addresses.is_empty() {
        return Err(io::Error::other("it has no public address, and no setting names this host"));
    }
    Ok(addresses)
}

/// Returns the runtime of all lookups and health checks, which starts with the first one. The runtimes of the engines
/// cannot be used: they wait for their blocking threads at the end, and a lookup may hang.
pub(crate) fn background_runtime() -> io::Result<Handle> {
    static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*runtime {
        return Ok(runtime.handle().clone());
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).max_blocking_threads(LOOKUPS_MAX).thread_name("upstreams").enable_all();
    Ok(runtime.insert(builder.build()?).handle().clone())
}

impl Name {
    /// Resolves the name. After a failure, the previous addresses stay.
    pub(in crate::upstream) async fn look_up(self: &Arc<Self>, log: &ErrorLog) {
        self.state.send_modify(|state| {
            (state.since, state.is_running, state.is_requested) = (Some(Instant::now()), true, false);
        });
        let name = self.clone();
        let answer = spawn_blocking(move || (name.look_up)(&name.host, name.port)).await;
        let answer = usable(answer.unwrap_or_else(|panic| Err(io::Error::other(panic))));
        self.report(&answer, log);
        let failure = answer.map(|addresses| self.alternatives.set(addresses)).err();
        self.state.send_modify(|state| {
            (state.since, state.is_running, state.failure) = (Some(Instant::now()), false, failure);
            state.ended += 1;
        });
    }

    /// Waits until the next lookup is due.
    pub(in crate::upstream) async fn next_lookup(&self) {
        let mut state = self.state.subscribe();
        let requested = async {
            sleep(self.timing.pause).await;
            // This cannot fail: `self` has the sender.
            let _ = state.wait_for(|state| state.is_requested).await;
        };
        let _ = timeout(self.timing.interval, requested).await;
    }

    /// Waits for a lookup result that is younger than [`LookupTiming::pause`], but at most
    /// [`LookupTiming::wait_timeout`] from the start of the lookup.
    pub(super) async fn refresh(&self) {
        let mut state = self.state.subscribe();
        let LookupState { since, is_running, ended, .. } = state.borrow().clone();
        let age = since.map_or(Duration::MAX, |since| since.elapsed());
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
    fn report(&self, answer: &Result<Vec<SocketAddr>, String>, log: &ErrorLog) {
        let before = self.alternatives.addresses();
        let had_failed = self.state.borrow().failure.is_some();
        let kind = || format!("{self} does not resolve");
        match answer {
            Ok(now) if had_failed || !before.is_empty() && !is_same(&before, now) => {
                log.notice(&format!("{self} resolves to {}", list(now)));
            }
            Err(_) if had_failed => {}
            Err(why) if before.is_empty() => log.recurring_error(&kind(), &unresolved_line(self, why)),
            Err(why) => log.recurring_error(
                &kind(),
                &format!("{self} no longer resolves: {why}; connections still go to {}", list(&before)),
            ),
            Ok(_) => {}
        }
    }
}

//! When a name is looked up, and what the log says of it.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::Name;
use super::answer::{is_same, list, unresolved_line, usable};
use crate::error_log::ErrorLog;

/// Lookups at once, of all names. One that hangs keeps a thread until the system gives it up (with glibc after 10 s, usually).
const LOOKUPS_MAX: usize = 16;

/// What looks a host up, and blocks meanwhile.
pub(super) type LookUp = Box<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// How often a name is looked up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The pause between lookups.
    pub(super) interval: Duration,
    /// The shortest pause, when no address takes a connection.
    pub(super) pause: Duration,
    /// How long requests wait for a lookup, from when it began: one that hangs delays none that comes later.
    pub(super) patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { interval: 30 * second, pause: second, patience: second }
    }
}

/// Where the lookups of a name are.
#[derive(Debug, Clone, Default)]
pub(super) struct Round {
    /// When the one that runs began, or when the last one ended.
    since: Option<Instant>,
    is_running: bool,
    /// A request asks for one.
    pub(super) is_wanted: bool,
    /// Lookups that have ended.
    pub(super) ended: u64,
    /// Why the last one gave no address.
    failure: Option<String>,
}

/// Asks the system: `/etc/hosts`, DNS, and what else nsswitch.conf(5) has.
pub(super) fn ask_system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// The runtime of all lookups, started with the first name. It is no engine's: those wait for their blocking threads when they
/// end, and a lookup may hang.
pub(in crate::upstream) fn runtime() -> io::Result<Handle> {
    static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*runtime {
        return Ok(runtime.handle().clone());
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).max_blocking_threads(LOOKUPS_MAX).thread_name("lookup").enable_time();
    Ok(runtime.insert(builder.build()?).handle().clone())
}

impl Name {
    /// Looks it up. After a failure the addresses stay that it had.
    pub(in crate::upstream) async fn look_up(self: &Arc<Self>, log: &ErrorLog) {
        self.rounds.send_modify(|round| {
            (round.since, round.is_running, round.is_wanted) = (Some(Instant::now()), true, false);
        });
        let name = self.clone();
        let answer = spawn_blocking(move || (name.look_up)(&name.host, name.port)).await;
        let answer = usable(answer.unwrap_or_else(|panic| Err(io::Error::other(panic))));
        self.report(&answer, log);
        let failure = answer.map(|addresses| self.alternatives.set(addresses)).err();
        self.rounds.send_modify(|round| {
            (round.since, round.is_running, round.failure) = (Some(Instant::now()), false, failure);
            round.ended += 1;
        });
    }

    /// Waits until it is time for the next lookup.
    pub(in crate::upstream) async fn next_lookup(&self) {
        let mut rounds = self.rounds.subscribe();
        let wanted = async {
            sleep(self.pace.pause).await;
            // The sender is ours.
            let _ = rounds.wait_for(|round| round.is_wanted).await;
        };
        let _ = timeout(self.pace.interval, wanted).await;
    }

    /// Waits for an answer that is younger than [`Pace::pause`]; not for one whose lookup has taken [`Pace::patience`].
    pub(super) async fn renew(&self) {
        let mut rounds = self.rounds.subscribe();
        let Round { since, is_running, ended, .. } = rounds.borrow().clone();
        let age = since.map_or(Duration::MAX, |since| since.elapsed());
        let mut patience = self.pace.patience;
        if is_running {
            patience = patience.saturating_sub(age);
        } else if age < self.pace.pause {
            return;
        } else {
            // One that has begun meanwhile will do.
            self.rounds.send_modify(|round| round.is_wanted = !round.is_running);
        }
        // After this time the request fails, as without the lookup.
        let _ = timeout(patience, rounds.wait_for(|round| round.ended > ended)).await;
    }

    /// Why it has no address.
    pub(super) fn why_unresolved(&self) -> String {
        match &self.rounds.borrow().failure {
            Some(why) => format!("the name does not resolve: {why}"),
            None => "the name is being looked up".to_owned(),
        }
    }

    /// Says what has changed.
    fn report(&self, answer: &Result<Vec<SocketAddr>, String>, log: &ErrorLog) {
        let before = self.alternatives.addresses();
        let had_failed = self.rounds.borrow().failure.is_some();
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

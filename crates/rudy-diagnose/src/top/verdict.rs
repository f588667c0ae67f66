//! Says in words what the samples show.

use std::time::Duration;

use rudy_observe::{Difference, ThreadDifference};
use serde::Serialize;

use super::order::{is_busy, pattern};
use super::runtime::{Role, role};
use rudy_units::visible;

/// A conclusion from the samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    /// The kind, for programs.
    pub(super) kind: Kind,
    /// The conclusion.
    pub(super) text: String,
    /// The thread that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tid: Option<u32>,
}

/// The kind of a [`Verdict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// The process does next to nothing.
    Idle,
    /// A thread has used much of the time since its start.
    HotSinceStart,
    /// The busiest threads are not the program's.
    RuntimeOnly,
    /// A thread uses a whole core, or would if one were free.
    WholeCore,
    /// Threads wait for a core.
    RunDelay,
    /// Threads that ended used much of the CPU.
    EndedThreads,
}

/// Below this share of a core, a process is idle: a timer that fires a hundred times per second takes less.
const IDLE: f64 = 0.005;

/// From this share of its life, a thread is hot. A worker at a sensible load is below; an acceptor or a collector of garbage should
/// be far below.
const HOT: f64 = 0.4;

/// A thread must be that old before its share of CPU since its start means something.
const OLD_ENOUGH: Duration = Duration::from_secs(10);

/// From this share of the interval, a thread uses a whole core. The rest goes to other processes and to rounding.
const WHOLE_CORE: f64 = 0.9;

/// A thread that runs less may have been delayed once, by much.
const RUNS: f64 = 0.1;

/// If the other threads use less than this share of a core together, they wait.
const OTHERS_WAIT: f64 = 0.1;

/// From this ratio of run delay to CPU, threads wait for a core. `rudy bench` warns at 5 % of the time, but here the observed
/// process may be one of many on purpose.
const DELAYED: f64 = 0.2;

/// From this share of the CPU, threads that ended matter.
const ENDED: f64 = 0.2;

/// How many of the busiest threads are judged together, and how many at least.
const BUSIEST: usize = 10;
const BUSIEST_MIN: usize = 3;

/// The verdicts, the most important first. At least one for an idle process, none for one that works as expected.
pub(super) fn verdicts(difference: &Difference) -> Vec<Verdict> {
    let mut busiest: Vec<&ThreadDifference> =
        difference.threads.iter().filter(|thread| is_busy(thread)).collect();
    busiest.sort_by_key(|thread| std::cmp::Reverse(thread.cpu));
    let total: Duration = busiest.iter().map(|thread| thread.cpu).sum::<Duration>() + difference.cpu_of_ended;
    let ready: Duration = busiest.iter().filter_map(|thread| thread.ready).sum();
    if difference.share(total + ready) < IDLE {
        return [idle(difference, total)].into_iter().chain(hot_since_start(difference)).collect();
    }
    let mut verdicts: Vec<Verdict> = hot_since_start(difference).collect();
    verdicts.extend(whole_core(difference, &busiest));
    verdicts.extend(runtime_only(&busiest));
    verdicts.extend(run_delay(&busiest));
    verdicts.extend(ended(difference, total));
    verdicts
}

fn idle(difference: &Difference, total: Duration) -> Verdict {
    let text = format!(
        "idle: its {} used {} of a core in the last {}; sorted by CPU since the start",
        threads(difference.threads.len()),
        percent(difference.share(total)),
        rudy_units::duration(difference.time),
    );
    Verdict { kind: Kind::Idle, text, tid: None }
}

/// At most three, the hottest first.
fn hot_since_start(difference: &Difference) -> impl Iterator<Item = Verdict> {
    let share = |thread: &ThreadDifference| thread.cpu_since_start.as_secs_f64() / thread.age.as_secs_f64();
    let mut hot: Vec<&ThreadDifference> =
        difference.threads.iter().filter(|thread| thread.age >= OLD_ENOUGH && share(thread) >= HOT).collect();
    hot.sort_by(|a, b| share(b).total_cmp(&share(a)));
    hot.into_iter().take(3).map(move |thread| {
        let work = role(&thread.name).map(|(_, work)| format!(": it {work}")).unwrap_or_default();
        let text = format!(
            "{} has used {} since it started ({}){work}",
            name(thread),
            of(thread.cpu_since_start, thread.age),
            percent(share(thread)),
        );
        Verdict { kind: Kind::HotSinceStart, text, tid: Some(thread.tid) }
    })
}

/// A thread that never waits for anything but a core. On a machine without a free core it runs for a part of the time only.
fn whole_core(difference: &Difference, busiest: &[&ThreadDifference]) -> Option<Verdict> {
    let (first, others) = busiest.split_first()?;
    let ran = difference.share(first.cpu);
    let delayed = difference.share(first.ready.unwrap_or_default());
    if ran < RUNS || ran + delayed < WHOLE_CORE {
        return None;
    }
    let uses = if ran < WHOLE_CORE {
        format!(
            "never waits: it ran for {} of the time and had no free core for {}",
            percent(ran),
            percent(delayed)
        )
    } else {
        format!("uses a whole core for {} of the time", percent(ran.min(1.0)))
    };
    let others_wait = difference.share(others.iter().map(|thread| thread.cpu).sum()) < OTHERS_WAIT;
    let count = difference.threads.len() - 1;
    let others = match count {
        1 if others_wait => " while the other one waits".to_owned(),
        2.. if others_wait => format!(" while the other {count} wait"),
        _ => String::new(),
    };
    let text = format!("{} {uses}{others}", name(first));
    Some(Verdict { kind: Kind::WholeCore, text, tid: Some(first.tid) })
}

fn runtime_only(busiest: &[&ThreadDifference]) -> Option<Verdict> {
    let roles: Vec<_> =
        busiest.iter().take(BUSIEST).map_while(|thread| Some((thread, role(&thread.name)?))).collect();
    // The program has a share in the work if one of the ten busiest is its own.
    if roles.len() < BUSIEST_MIN || roles.len() < busiest.len().min(BUSIEST) {
        return None;
    }
    let mut listed: Vec<String> = Vec::new();
    for (thread, (_, work)) in &roles {
        let entry = format!("{} ({work})", visible(&pattern(&short(&thread.name))));
        if !listed.contains(&entry) {
            listed.push(entry);
        }
    }
    let is_managed = roles.iter().any(|(_, (role, _))| *role == Role::Management);
    let owner = if is_managed { "the runtime's or the server's own" } else { "the runtime's own" };
    let text = format!("the {} busiest threads are all {owner}: {}", roles.len(), listed.join(", "));
    Some(Verdict { kind: Kind::RuntimeOnly, text, tid: None })
}

fn run_delay(busiest: &[&ThreadDifference]) -> Option<Verdict> {
    let cpu: Duration = busiest.iter().map(|thread| thread.cpu).sum();
    let ready: Duration = busiest.iter().filter_map(|thread| thread.ready).sum();
    let ratio = ready.as_secs_f64() / cpu.as_secs_f64();
    if ready.is_zero() || ratio < DELAYED {
        return None;
    }
    let waited = match ratio {
        0.0..1.0 => format!("waited for a core {} as long as they ran", percent(ratio)),
        1.0..1000.0 => format!("waited for a core {ratio:.1} times as long as they ran"),
        _ => "waited for a core and did not run".to_owned(),
    };
    let text = format!("its threads {waited}: the machine has too few free cores for them");
    Some(Verdict { kind: Kind::RunDelay, text, tid: None })
}

fn ended(difference: &Difference, total: Duration) -> Option<Verdict> {
    let share = difference.cpu_of_ended.as_secs_f64() / total.as_secs_f64();
    if difference.cpu_of_ended.is_zero() || share < ENDED {
        return None;
    }
    let text = format!(
        "{} of the CPU went to threads that ended: it starts threads for short tasks, a thread pool may be cheaper",
        percent(share)
    );
    Some(Verdict { kind: Kind::EndedThreads, text, tid: None })
}

fn name(thread: &ThreadDifference) -> String {
    format!("{} ({})", visible(&short(&thread.name)), thread.tid)
}

/// The name without what Jetty adds for its own debugging: `qtp1-13-acceptor-0@2ed7-ServerConnector@2a{HTTP/1.1}`.
pub(super) fn short(name: &str) -> String {
    let end = name.find('@').filter(|end| *end > 0).unwrap_or(name.len());
    name[..end].to_owned()
}

fn threads(count: usize) -> String {
    if count == 1 { "one thread".to_owned() } else { format!("{count} threads") }
}

/// Whole percent; one decimal below ten.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A part of a time in one unit: `2.2 of 4.0 h`.
pub(super) fn of(part: Duration, whole: Duration) -> String {
    let (unit, seconds) = match whole.as_secs() {
        3600.. => ("h", 3600.0),
        60.. => ("min", 60.0),
        _ => ("s", 1.0),
    };
    format!("{:.1} of {:.1} {unit}", part.as_secs_f64() / seconds, whole.as_secs_f64() / seconds)
}

#[cfg(test)]
mod tests;

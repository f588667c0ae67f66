//! A sample as JSON.

use std::collections::BTreeMap;

use rudy_observe::{By, Group, Process, Socket, Sockets, State, Tally, by_state};
use rudy_stats::growth::Growth;
use rudy_units::visible_json;
use serde::Serialize;

use super::Options;
use super::counts::{Counter, state_key};
use super::history::History;
use super::verdict::{Leak, Verdict};
use crate::text::unix_ms;

/// A line with one object. `change` is since the start of a watch.
pub(super) fn sample(
    process: &Process,
    sockets: &Sockets,
    change: Option<&BTreeMap<Counter, i64>>,
    options: &Options,
) -> String {
    let grouped = |by| {
        let groups = sockets.grouped(by).into_iter().take(options.rows);
        groups.map(Addressed::from).collect::<Vec<_>>()
    };
    let object = SampleLine {
        time_ms: unix_ms(),
        pid: process.pid(),
        name: process.name(),
        descriptors: sockets.descriptors.open,
        descriptors_limit: sockets.descriptors.limit,
        sockets: sockets.total(),
        tcp: states(&sockets.with_descriptor),
        udp: sockets.udp,
        unix: sockets.unix,
        in_no_table: &sockets.in_no_table,
        not_accepted: sockets.with_descriptor.iter().map(|socket| u64::from(socket.not_accepted)).sum(),
        without_descriptor: states(&sockets.without_descriptor),
        remotes: (options.by == Some(By::RemoteAddress)).then(|| grouped(By::RemoteAddress)),
        locals: (options.by == Some(By::LocalAddress)).then(|| grouped(By::LocalAddress)),
        since_start: change.map(Change::from),
    };
    // Structs of numbers and strings can always be serialized.
    visible_json(&serde_json::to_string(&object).unwrap_or_default()) + "\n"
}

#[derive(Serialize)]
struct SampleLine<'a> {
    time_ms: u64,
    pid: u32,
    name: &'a str,
    descriptors: Option<u64>,
    descriptors_limit: Option<u64>,
    sockets: usize,
    tcp: BTreeMap<String, States>,
    udp: usize,
    unix: usize,
    in_no_table: &'a BTreeMap<String, usize>,
    not_accepted: u64,
    without_descriptor: BTreeMap<String, States>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remotes: Option<Vec<Addressed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locals: Option<Vec<Addressed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_start: Option<Change>,
}

/// The last line of a watch. All its numbers are results, because `rudy lab` records them as metrics.
pub(super) fn verdict(process: &Process, verdict: &Verdict, history: &History) -> String {
    let growth = |key: fn(&Growth) -> f64| {
        verdict.leaks.first().and_then(Leak::growth).map_or(0.0, |growth| key(&growth))
    };
    let descriptors = history.counts(Counter::Descriptors);
    let object = VerdictLine {
        name: process.name(),
        verdict: match (verdict.is_leak(), verdict.is_long_enough) {
            (true, _) => "leak",
            (false, true) => "no_leak",
            (false, false) => "too_short",
        },
        leak: verdict.is_leak(),
        watched_s: verdict.watched_s,
        samples: verdict.samples,
        descriptors_first: descriptors.first().copied(),
        descriptors_last: descriptors.last().copied(),
        descriptors_limit: history.descriptors.and_then(|descriptors| descriptors.limit),
        growth_per_s: growth(|growth| growth.per_s),
        growth_per_s_low: growth(|growth| growth.per_s_low),
        growth_per_s_high: growth(|growth| growth.per_s_high),
        descriptors_run_out_s: verdict.run_out.map(|run_out| run_out.in_s),
        descriptors_run_out_s_low: verdict.run_out.map(|run_out| run_out.earliest_s),
        descriptors_run_out_s_high: verdict.run_out.and_then(|run_out| run_out.latest_s),
        leaks: verdict.leaks.iter().map(Grown::from).collect(),
        growing: verdict.growing.iter().map(Grown::from).collect(),
    };
    visible_json(&serde_json::to_string(&object).unwrap_or_default()) + "\n"
}

#[derive(Serialize)]
struct VerdictLine<'a> {
    name: &'a str,
    verdict: &'static str,
    leak: bool,
    watched_s: f64,
    samples: u64,
    descriptors_first: Option<f64>,
    descriptors_last: Option<f64>,
    descriptors_limit: Option<u64>,
    /// Of the fastest leak.
    growth_per_s: f64,
    growth_per_s_low: f64,
    growth_per_s_high: f64,
    descriptors_run_out_s: Option<f64>,
    descriptors_run_out_s_low: Option<f64>,
    descriptors_run_out_s_high: Option<f64>,
    leaks: Vec<Grown>,
    growing: Vec<Grown>,
}

/// A counter that leaks or grows.
#[derive(Serialize)]
struct Grown {
    counter: String,
    has_descriptor: bool,
    remote: Option<String>,
    /// Null if the process has no more descriptors, so that nothing can grow.
    per_s: Option<f64>,
    per_s_low: Option<f64>,
    per_s_high: Option<f64>,
}

impl From<&Leak> for Grown {
    fn from(leak: &Leak) -> Self {
        let (key, growth) = (&leak.key, leak.growth());
        Self {
            counter: key.counter.key(),
            has_descriptor: key.counter.has_descriptor(),
            remote: key.remote.as_ref().map(|remote| remote.address.clone()),
            per_s: growth.map(|growth| growth.per_s),
            per_s_low: growth.map(|growth| growth.per_s_low),
            per_s_high: growth.map(|growth| growth.per_s_high),
        }
    }
}

#[derive(Serialize)]
struct States {
    sockets: usize,
    unread_bytes: u64,
    unsent_bytes: u64,
}

#[derive(Serialize)]
struct Addressed {
    address: String,
    sockets: usize,
    tcp: BTreeMap<String, usize>,
    without_descriptor: BTreeMap<String, usize>,
}

impl From<Group> for Addressed {
    fn from(group: Group) -> Self {
        let named = |states: &BTreeMap<State, usize>| {
            states.iter().map(|(state, count)| (state_key(*state), *count)).collect::<BTreeMap<_, _>>()
        };
        let (tcp, without_descriptor) = (named(&group.with_descriptor), named(&group.without_descriptor));
        Self { sockets: group.total(), address: group.name, tcp, without_descriptor }
    }
}

#[derive(Serialize, Default)]
struct Change {
    descriptors: i64,
    sockets: i64,
    udp: i64,
    unix: i64,
    in_no_table: i64,
    tcp: BTreeMap<String, i64>,
    without_descriptor: BTreeMap<String, i64>,
}

impl From<&BTreeMap<Counter, i64>> for Change {
    fn from(changes: &BTreeMap<Counter, i64>) -> Self {
        let mut all = Self::default();
        for (what, change) in changes {
            let slot = match what {
                Counter::Descriptors => &mut all.descriptors,
                Counter::Sockets => &mut all.sockets,
                Counter::Udp => &mut all.udp,
                Counter::Unix => &mut all.unix,
                Counter::InNoTable => &mut all.in_no_table,
                Counter::WithDescriptor(state) => all.tcp.entry(state_key(*state)).or_default(),
                Counter::WithoutDescriptor(state) => {
                    all.without_descriptor.entry(state_key(*state)).or_default()
                }
            };
            *slot = *change;
        }
        all
    }
}

fn states(sockets: &[Socket]) -> BTreeMap<String, States> {
    let tallies = by_state(sockets).into_iter();
    tallies
        .map(|(state, Tally { sockets, unread_bytes, unsent_bytes })| {
            (state_key(state), States { sockets, unread_bytes, unsent_bytes })
        })
        .collect()
}

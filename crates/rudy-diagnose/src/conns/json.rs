//! A sample as JSON.

use std::collections::BTreeMap;

use rudy_observe::{By, Group, Processes, Socket, Sockets, State, Tally, by_state};
use rudy_stats::growth::Growth;
use rudy_units::visible_json;
use serde_json::{Value, json};

use super::Options;
use super::counts::{Counter, state_key};
use super::history::History;
use super::verdict::{Leak, Verdict};
use crate::text::unix_ms;

/// A line with one object. `change` is since the start of a watch.
pub(super) fn sample(
    processes: &Processes,
    sockets: &Sockets,
    change: Option<&BTreeMap<Counter, i64>>,
    options: &Options,
) -> String {
    let not_accepted: u64 = sockets.with_descriptor.iter().map(|socket| u64::from(socket.not_accepted)).sum();
    let mut object = json!({
        "time_ms": unix_ms(),
        // Of several, the first.
        "pid": processes.pid(),
        "processes": processes.pids().count(),
        "name": processes.name(),
        "descriptors": sockets.descriptors.open,
        "descriptors_limit": sockets.descriptors.limit,
        "sockets": sockets.total(),
        "tcp": states(&sockets.with_descriptor),
        "udp": sockets.udp,
        "unix": sockets.unix,
        "in_no_table": sockets.in_no_table,
        "not_accepted": not_accepted,
        "without_descriptor": states(&sockets.without_descriptor),
    });
    for (by, key) in [(By::RemoteAddress, "remotes"), (By::LocalAddress, "locals")] {
        if options.by == Some(by) {
            object[key] =
                sockets.grouped(by).into_iter().take(options.rows).map(|group| addressed(&group)).collect();
        }
    }
    if let Some(changes) = change {
        object["since_start"] = since_start(changes);
    }
    visible_json(&object) + "\n"
}

/// The last line of a watch. All its numbers are results, because `rudy lab` records them as metrics.
pub(super) fn verdict(processes: &Processes, verdict: &Verdict, history: &History) -> String {
    let fastest = verdict.leaks.first().and_then(Leak::growth);
    let growth = |key: fn(&Growth) -> f64| fastest.map_or(0.0, |growth| key(&growth));
    let descriptors = history.counts(Counter::Descriptors);
    let object = json!({
        "name": processes.name(),
        "verdict": match (verdict.is_leak(), verdict.is_long_enough) {
            (true, _) => "leak",
            (false, true) => "no_leak",
            (false, false) => "too_short",
        },
        "leak": verdict.is_leak(),
        "watched_s": verdict.watched_s,
        "samples": verdict.samples,
        "descriptors_first": descriptors.first(),
        "descriptors_last": descriptors.last(),
        "descriptors_limit": history.descriptors.and_then(|descriptors| descriptors.limit),
        "growth_per_s": growth(|growth| growth.per_s),
        "growth_per_s_low": growth(|growth| growth.per_s_low),
        "growth_per_s_high": growth(|growth| growth.per_s_high),
        "descriptors_run_out_s": verdict.run_out.map(|run_out| run_out.in_s),
        "descriptors_run_out_s_low": verdict.run_out.map(|run_out| run_out.earliest_s),
        "descriptors_run_out_s_high": verdict.run_out.and_then(|run_out| run_out.latest_s),
        "leaks": verdict.leaks.iter().map(grown).collect::<Value>(),
        "growing": verdict.growing.iter().map(grown).collect::<Value>(),
    });
    visible_json(&object) + "\n"
}

/// A counter that leaks or grows. Its growth is null if the process has no more descriptors, so that nothing can grow.
fn grown(leak: &Leak) -> Value {
    let (key, growth) = (&leak.key, leak.growth());
    json!({
        "counter": key.counter.key(),
        "has_descriptor": key.counter.has_descriptor(),
        "remote": key.remote.as_ref().map(|remote| &remote.address),
        "per_s": growth.map(|growth| growth.per_s),
        "per_s_low": growth.map(|growth| growth.per_s_low),
        "per_s_high": growth.map(|growth| growth.per_s_high),
    })
}

fn addressed(group: &Group) -> Value {
    let named = |states: &BTreeMap<State, usize>| {
        states.iter().map(|(state, count)| (state_key(*state), *count)).collect::<BTreeMap<_, _>>()
    };
    json!({
        "address": group.name,
        "sockets": group.total(),
        "tcp": named(&group.with_descriptor),
        "without_descriptor": named(&group.without_descriptor),
    })
}

fn since_start(changes: &BTreeMap<Counter, i64>) -> Value {
    let of = |counter| changes.get(&counter).copied().unwrap_or_default();
    let by_state = |state_of: fn(&Counter) -> Option<State>| {
        let of = |(counter, change): (&Counter, &i64)| Some((state_key(state_of(counter)?), *change));
        changes.iter().filter_map(of).collect::<BTreeMap<_, _>>()
    };
    json!({
        "descriptors": of(Counter::Descriptors),
        "sockets": of(Counter::Sockets),
        "udp": of(Counter::Udp),
        "unix": of(Counter::Unix),
        "in_no_table": of(Counter::InNoTable),
        "tcp": by_state(|counter| if let Counter::WithDescriptor(state) = counter { Some(*state) } else { None }),
        "without_descriptor": by_state(|counter| {
            if let Counter::WithoutDescriptor(state) = counter { Some(*state) } else { None }
        }),
    })
}

fn states(sockets: &[Socket]) -> BTreeMap<String, Value> {
    let of = |(state, Tally { sockets, unread_bytes, unsent_bytes }): (State, Tally)| {
        let object = json!({"sockets": sockets, "unread_bytes": unread_bytes, "unsent_bytes": unsent_bytes});
        (state_key(state), object)
    };
    by_state(sockets).into_iter().map(of).collect()
}

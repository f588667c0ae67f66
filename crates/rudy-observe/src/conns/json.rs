//! A sample as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Options;
use super::change::Counter;
use crate::text::unix_ms;
use crate::{By, Group, Process, Socket, Sockets, State, Tally, by_state};

/// A line with one object. `change` is since the start of a watch.
pub(super) fn line(
    process: &Process,
    sockets: &Sockets,
    change: Option<&BTreeMap<Counter, i64>>,
    options: &Options,
) -> String {
    let grouped = |by| {
        let groups = sockets.grouped(by).into_iter().take(options.rows);
        groups.map(Addressed::from).collect::<Vec<_>>()
    };
    let object = Line {
        time_ms: unix_ms(),
        pid: process.pid(),
        name: process.name(),
        descriptors: sockets.descriptors.open,
        descriptors_limit: sockets.descriptors.limit,
        sockets: sockets.total(),
        tcp: states(&sockets.with_descriptor),
        udp: sockets.udp,
        unix: sockets.unix,
        in_no_table: sockets.in_no_table,
        not_accepted: sockets.with_descriptor.iter().map(|socket| u64::from(socket.not_accepted)).sum(),
        without_descriptor: states(&sockets.without_descriptor),
        remotes: (options.by == Some(By::RemoteAddress)).then(|| grouped(By::RemoteAddress)),
        locals: (options.by == Some(By::LocalAddress)).then(|| grouped(By::LocalAddress)),
        since_start: change.map(Change::from),
    };
    // Structs of numbers and strings can always be serialized.
    serde_json::to_string(&object).unwrap_or_default() + "\n"
}

#[derive(Serialize)]
struct Line<'a> {
    time_ms: u64,
    pid: u32,
    name: &'a str,
    descriptors: Option<u64>,
    descriptors_limit: Option<u64>,
    sockets: usize,
    tcp: BTreeMap<String, States>,
    udp: usize,
    unix: usize,
    in_no_table: usize,
    not_accepted: u64,
    without_descriptor: BTreeMap<String, States>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remotes: Option<Vec<Addressed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locals: Option<Vec<Addressed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_start: Option<Change>,
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
            states.iter().map(|(state, count)| (key(*state), *count)).collect::<BTreeMap<_, _>>()
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
                Counter::WithDescriptor(state) => all.tcp.entry(key(*state)).or_default(),
                Counter::WithoutDescriptor(state) => all.without_descriptor.entry(key(*state)).or_default(),
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
            (key(state), States { sockets, unread_bytes, unsent_bytes })
        })
        .collect()
}

/// The name of a state as a key: `close_wait`.
fn key(state: State) -> String {
    state.name().to_ascii_lowercase()
}

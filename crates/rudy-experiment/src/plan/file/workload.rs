//! Parses workloads.

use std::time::Duration;

use rudy_stats::Slo;
use rudy_units::Time;
use serde::Deserialize;
use toml::Spanned;

use super::{FileTable, Reader};
use crate::plan::{Expect, Kind, Quick, Stall, TlsUse, Workload};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadTable {
    pub(super) name: Spanned<String>,
    kind: KindName,
    path: Option<String>,
    #[serde(default)]
    headers: Vec<String>,
    connections: Option<u32>,
    time: Option<Time>,
    rate: Option<f64>,
    requests: Option<u32>,
    keepalive: Option<bool>,
    streams: Option<u32>,
    quick: Option<Quick>,
    ramp: Option<Time>,
    timeout: Option<Time>,
    slo: Option<Spanned<String>>,
    hold: Option<Time>,
    n: Option<u32>,
    rounds: Option<usize>,
    #[serde(default)]
    separate_cores: bool,
    estimate: Option<Time>,
    exit_codes: Option<Vec<i32>>,
    pub(super) stall: Option<Stall>,
    tls: Option<TlsUse>,
    round_trip: Option<Time>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    https: bool,
    expect: Option<Expect>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum KindName {
    Bench,
    Burst,
    Sequence,
    MaxRate,
    Idle,
    Flood,
    Run,
}

/// Default number of connections, the same as that of `rudy bench`.
const CONNECTIONS: u32 = 64;

/// Maximum number of connections, requests of a burst, or streams: more would exhaust the ports of an
/// address.
const AT_ONCE_MAX: u32 = 28_000;

/// The flags of `rudy bench` that the lab sets itself, for its keys and to read the results.
const OWN_FLAGS: [&str; 15] = [
    "--connections",
    "--duration",
    "--requests",
    "--rate",
    "--slo",
    "--step-time",
    "--hold-time",
    "--warm-up-time",
    "--json",
    "--ndjson",
    "--hgrm",
    "--plain",
    "--interval",
    "--split",
    "--start-at",
];

/// The short flags of them, to which a value can be attached.
const OWN_SHORT_FLAGS: [&str; 5] = ["-c", "-d", "-z", "-n", "-R"];

/// Whether an argument is such a flag, with or without its value.
fn is_own(argument: &str) -> bool {
    let (flag, _) = argument.split_once('=').unwrap_or((argument, ""));
    OWN_FLAGS.contains(&flag) || OWN_SHORT_FLAGS.iter().any(|short| argument.starts_with(short))
}

impl WorkloadTable {
    /// The given keys, and whether the kind of workload supports them.
    fn keys(&self) -> [(&'static str, bool, bool); 20] {
        use KindName::{Bench, Burst, Flood, Idle, MaxRate, Run, Sequence};
        let is = |kinds: &[KindName]| kinds.contains(&self.kind);
        [
            ("connections", self.connections.is_some(), is(&[Bench, MaxRate, Idle, Flood])),
            ("time", self.time.is_some(), is(&[Bench, MaxRate, Idle, Flood])),
            ("rate", self.rate.is_some(), is(&[Bench])),
            ("requests", self.requests.is_some(), is(&[Bench, Burst, Sequence])),
            ("keepalive", self.keepalive.is_some(), is(&[Bench, Sequence])),
            ("streams", self.streams.is_some(), is(&[Bench])),
            ("tls", self.tls.is_some(), is(&[Bench, Burst, Sequence])),
            ("round_trip", self.round_trip.is_some(), is(&[Bench, Burst, Sequence])),
            ("arguments", !self.arguments.is_empty(), is(&[Bench, Burst, Sequence, MaxRate])),
            ("https", self.https, is(&[Bench, Burst, Sequence, MaxRate])),
            ("expect", self.expect.is_some(), is(&[Bench, Burst, Sequence, MaxRate])),
            ("quick", self.quick.is_some(), is(&[Bench])),
            ("ramp", self.ramp.is_some(), is(&[Idle, Flood])),
            ("timeout", self.timeout.is_some(), is(&[Burst, Run])),
            ("slo", self.slo.is_some(), is(&[MaxRate])),
            ("hold", self.hold.is_some(), is(&[MaxRate])),
            ("n", self.n.is_some(), is(&[Run])),
            ("exit_codes", self.exit_codes.is_some(), is(&[Run])),
            ("path", self.path.is_some(), !is(&[Run])),
            ("headers", !self.headers.is_empty(), !is(&[Run])),
        ]
    }

    /// Whether it runs its variants to their end.
    pub(super) fn is_run(&self) -> bool {
        self.kind == KindName::Run
    }

    /// Whether its responses must come from a cache.
    pub(super) fn is_cached(&self) -> bool {
        self.expect.as_ref().is_some_and(|expect| expect.cached)
    }

    pub(super) fn has_n(&self) -> bool {
        self.n.is_some()
    }
}

impl Reader<'_> {
    pub(super) fn workload(&self, table: WorkloadTable, files: &[FileTable]) -> Result<Workload, String> {
        let wrong = |expected: &str| Err(self.at(&table.name, expected));
        // The requests of a bench are sequential per connection.
        let at_once = table.requests.filter(|_| table.kind != KindName::Bench);
        let mut counts = [table.connections, at_once, table.streams].into_iter().flatten();
        if counts.any(|count| !(1..=AT_ONCE_MAX).contains(&count)) {
            return wrong(&format!(
                "`connections`, `requests` and `streams` must be numbers from 1 to {AT_ONCE_MAX}"
            ));
        }
        if table.kind == KindName::Bench {
            self.check_bench(&table)?;
        }
        if table.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return wrong("`rate` must be a number of requests per second above 0");
        }
        if let Some((key, ..)) = table.keys().into_iter().find(|(_, is_there, belongs)| *is_there && !belongs)
        {
            return wrong(&format!("this kind of workload does not support `{key}`"));
        }
        if let Some(own) = table.arguments.iter().find(|argument| is_own(argument)) {
            return wrong(&format!(
                "`arguments` must not have {own}, which the lab sets itself: use the keys of the workload, such as `time` and `rate`"
            ));
        }
        if let Some(expect) = &table.expect {
            self.check_expected(&table.name, expect, files)?;
        }
        let path = table.path.clone().unwrap_or_else(|| "/".to_owned());
        // An empty path is for variants whose URL has one.
        if !path.is_empty() && !path.starts_with('/') {
            return wrong("`path` must start with a slash, as in \"/1k.html\"");
        }
        if table.rounds == Some(0) {
            return wrong("`rounds` must be at least 1");
        }
        let kind = self.kind(&table)?;
        Ok(Workload {
            name: table.name.into_inner(),
            path,
            headers: table.headers,
            stall: table.stall,
            quick: table.quick,
            rounds: table.rounds,
            separate_cores: table.separate_cores,
            estimate: table.estimate,
            tls: table.tls,
            round_trip: table.round_trip,
            arguments: table.arguments,
            is_https: table.https,
            expect: table.expect,
            kind,
        })
    }

    fn check_expected(
        &self,
        name: &Spanned<String>,
        expect: &Expect,
        files: &[FileTable],
    ) -> Result<(), String> {
        match &expect.body {
            Some(body) if !files.iter().any(|file| file.path.get_ref() == body) => {
                Err(self.at(name, &format!("`expect`: the plan has no [[file]] {body:?}")))
            }
            None if expect.encoding.is_some() => Err(self.at(name, "`expect`: `encoding` needs a `body`")),
            _ => Ok(()),
        }
    }

    fn check_bench(&self, table: &WorkloadTable) -> Result<(), String> {
        let wrong = |expected: &str| Err(self.at(&table.name, expected));
        match (table.requests, table.quick) {
            (Some(0), _) | (_, Some(Quick::Requests(0))) => wrong("`requests` must be at least 1"),
            (Some(_), _) if table.time.is_some() || table.rate.is_some() => {
                wrong("a bench has either `requests`, or a `time` and optionally a `rate`")
            }
            (Some(_), Some(Quick::Time(_))) => {
                wrong("`quick` must be a number of requests here, as in { requests = 1000 }")
            }
            (None, Some(Quick::Requests(_))) => {
                wrong("`quick` must be a time here, as in { time = \"10s\" }")
            }
            _ => Ok(()),
        }
    }

    fn kind(&self, table: &WorkloadTable) -> Result<Kind, String> {
        let time = |time: Option<Time>, seconds| time.unwrap_or(Time(Duration::from_secs(seconds)));
        let connections = table.connections.unwrap_or(CONNECTIONS);
        let missing = |what: &str| self.at(&table.name, what);
        let requests = || table.requests.ok_or_else(|| missing("`requests` is missing"));
        Ok(match table.kind {
            KindName::Bench => Kind::Bench {
                connections,
                time: time(table.time, 5),
                rate: table.rate,
                requests: table.requests,
                is_closing: table.keepalive == Some(false),
                streams: table.streams,
            },
            KindName::Idle => {
                Kind::Idle { connections, ramp: time(table.ramp, 5), time: time(table.time, 10) }
            }
            KindName::Flood => {
                Kind::Flood { connections, ramp: time(table.ramp, 5), time: time(table.time, 10) }
            }
            KindName::Burst => Kind::Burst { requests: requests()?, timeout: time(table.timeout, 60) },
            KindName::Sequence => {
                Kind::Sequence { requests: requests()?, keeps_alive: table.keepalive == Some(true) }
            }
            KindName::Run => Kind::Run {
                n: table.n,
                within: time(table.timeout, 60),
                exit_codes: table.exit_codes.clone().unwrap_or_else(|| vec![0]),
            },
            KindName::MaxRate => {
                let Some(slo) = &table.slo else {
                    return Err(missing("`slo` is missing: what is to hold, as in \"p99<20ms\"?"));
                };
                slo.get_ref().parse::<Slo>().map_err(|error| self.at(slo, &error.to_string()))?;
                let (time, hold) = (time(table.time, 6), time(table.hold, 30));
                Kind::MaxRate { slo: slo.get_ref().clone(), connections, time, hold }
            }
        })
    }
}

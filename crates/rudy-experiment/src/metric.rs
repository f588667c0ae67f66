//! The metrics of runs: names, titles, units, and their words in sentences.

use rudy_units::Unit;

/// A metric as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Metric {
    /// The name in the records.
    pub(crate) name: String,
    /// The name in a sentence.
    pub(crate) title: String,
    pub(crate) unit: Unit,
    /// The factor from the recorded value to the unit.
    pub(crate) factor: f64,
}

/// A metric: its name in the records, its title, and the verb and the noun of a sentence, as in "rudy needs 0.74 times the CPU per request of
/// nginx".
type Known = (&'static str, &'static str, &'static str, &'static str);

/// The metrics of a [`Run`](crate::record::Run) in which variants can be compared, because their better direction is known.
///
/// The `nines` are none: they are a lower bound, which grows with the number of requests, so of two servers without a
/// failure the faster one has more.
pub(crate) const COMPARABLE: [Known; 19] = [
    ("requests_per_s", "throughput", "serves", "requests per second"),
    ("cpu_us_per_request", "CPU per request", "needs", "CPU per request"),
    ("cpu_user_us_per_request", "CPU per request in user mode", "needs", "CPU per request in user mode"),
    ("cpu_system_us_per_request", "CPU per request in the kernel", "needs", "CPU per request in the kernel"),
    ("p50_ns", "median latency", "has", "median latency"),
    ("p90_ns", "latency, p90", "has", "p90 latency"),
    ("p99_ns", "latency, p99", "has", "p99 latency"),
    ("p999_ns", "latency, p99.9", "has", "p99.9 latency"),
    ("max_ns", "maximum latency", "has", "maximum latency"),
    ("errors", "errors", "has", "errors"),
    ("private_bytes", "private memory", "needs", "private memory"),
    ("private_bytes_per_connection", "memory per connection", "needs", "private memory per connection"),
    ("schedule_delay_p99_ns", "schedule delay, p99", "has", "p99 schedule delay"),
    ("time_s", "total time", "takes", "time"),
    ("cpu_s", "CPU time", "needs", "CPU time"),
    ("max_rate_per_s", "maximum sustainable rate", "sustains", "maximum rate"),
    ("handshakes_per_s", "TLS handshakes", "has", "TLS handshakes"),
    ("signatures_per_s", "signatures", "has", "signatures"),
    ("tls_done_ns", "TLS done", "has", "TLS done"),
];

/// Other metrics whose titles differ from their names.
const OTHERS: [Known; 11] = [
    ("failed_share", "failed requests", "has", "failed requests"),
    ("generator_share", "CPU of the busiest client thread", "has", "CPU of the busiest client thread"),
    ("background_cpu_share", "CPU of other processes", "has", "CPU of other processes"),
    ("steal_share", "CPU steal", "has", "CPU steal"),
    ("schedule_delay_p50_ns", "schedule delay, median", "has", "median schedule delay"),
    ("schedule_delay_max_ns", "maximum schedule delay", "has", "maximum schedule delay"),
    (
        "client_schedule_delay_p99_ns",
        "schedule delay of the client, p99",
        "has",
        "schedule delay of the client, p99",
    ),
    ("idle_private_bytes", "private memory before the workload", "has", "private memory before the workload"),
    ("client_cpu_us_per_request", "CPU per request in the client", "has", "CPU per request in the client"),
    ("resumed_share", "resumed handshakes", "has", "resumed handshakes"),
    ("handshake_client_cpu_us", "CPU per handshake in the client", "has", "CPU per handshake in the client"),
];

/// Whether variants can be compared in a metric.
pub(crate) fn is_comparable(name: &str) -> bool {
    COMPARABLE.iter().any(|(known, ..)| *known == name)
}

fn known(name: &str) -> Option<&'static Known> {
    COMPARABLE.iter().chain(&OTHERS).find(|(known, ..)| *known == name)
}

impl Metric {
    /// Looks up a metric by its name in the records.
    pub(crate) fn named(name: &str) -> Self {
        let (unit, factor, before) = Unit::of_key(name);
        let title =
            known(name).map_or_else(|| before.replace('_', " "), |(_, title, ..)| (*title).to_owned());
        Self { name: name.to_owned(), title, unit, factor }
    }

    /// The verb and the noun of a sentence.
    pub(crate) fn phrase(&self) -> (&str, &str) {
        known(&self.name).map_or(("has", &self.title), |(_, _, verb, noun)| (verb, noun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_its_unit_from_the_end_of_its_name() {
        for (name, title, unit) in [
            ("p99_ns", "latency, p99", Unit::Time),
            ("cpu_us_per_request", "CPU per request", Unit::Time),
            ("schedule_delay_max_ns", "maximum schedule delay", Unit::Time),
            ("client_schedule_delay_p99_ns", "schedule delay of the client, p99", Unit::Time),
            ("messages_per_s", "messages", Unit::Rate),
            ("private_bytes_per_connection", "memory per connection", Unit::Bytes),
            ("said", "said", Unit::Count),
        ] {
            let metric = Metric::named(name);
            assert_eq!((metric.title.as_str(), metric.unit), (title, unit), "{name}");
        }
    }
}

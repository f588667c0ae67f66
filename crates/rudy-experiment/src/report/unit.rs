//! Names and units of metrics.

use rudy_units::Unit;

/// A metric as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    /// The name in the records.
    pub(super) name: String,
    /// The name in a sentence.
    pub(super) title: String,
    pub(super) unit: Unit,
    /// The factor from the recorded value to the unit.
    pub(super) factor: f64,
}

/// Names of metrics that differ from their keys.
const TITLES: [(&str, &str); 29] = [
    ("requests_per_s", "throughput"),
    ("errors", "errors"),
    ("failed_share", "failed requests"),
    ("generator_share", "CPU of the busiest client thread"),
    ("background_cpu_share", "CPU of other processes"),
    ("steal_share", "CPU steal"),
    ("time_s", "total time"),
    ("cpu_s", "CPU time"),
    ("p50_ns", "median latency"),
    ("p90_ns", "latency, p90"),
    ("p99_ns", "latency, p99"),
    ("p999_ns", "latency, p99.9"),
    ("max_ns", "maximum latency"),
    ("schedule_delay_p50_ns", "schedule delay, median"),
    ("schedule_delay_p99_ns", "schedule delay, p99"),
    ("schedule_delay_max_ns", "maximum schedule delay"),
    ("client_schedule_delay_p99_ns", "schedule delay of the client, p99"),
    ("cpu_us_per_request", "CPU per request"),
    ("cpu_user_us_per_request", "CPU per request in user mode"),
    ("cpu_system_us_per_request", "CPU per request in the kernel"),
    ("private_bytes", "private memory"),
    ("idle_private_bytes", "private memory before the workload"),
    ("private_bytes_per_connection", "memory per connection"),
    ("max_rate_per_s", "maximum sustainable rate"),
    ("client_cpu_us_per_request", "CPU per request in the client"),
    ("handshakes_per_s", "TLS handshakes"),
    ("resumed_share", "resumed handshakes"),
    ("handshake_client_cpu_us", "CPU per handshake in the client"),
    ("tls_done_ns", "TLS done"),
];

impl Metric {
    /// Looks up a metric by its name in the records.
    pub(super) fn named(name: &str) -> Self {
        let (unit, factor, before) = Unit::of_key(name);
        let known = TITLES.iter().find(|(known, _)| *known == name).map(|(_, title)| (*title).to_owned());
        let title = known.unwrap_or_else(|| before.replace('_', " "));
        Self { name: name.to_owned(), title, unit, factor }
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

//! Formats metrics, and chooses the units of axes.

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds.
    Time,
    /// Bytes, shown in steps of 1024.
    Bytes,
    /// A rate per second.
    Rate,
    /// A count, or a metric without a unit.
    Count,
    /// Busy cores.
    Cores,
    /// A fraction, shown in percent.
    Share,
}

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
const TITLES: [(&str, &str); 23] = [
    ("requests_per_s", "throughput"),
    ("errors", "errors"),
    ("generator_share", "busiest thread of the generator"),
    ("background_cpu_share", "CPU of other processes"),
    ("steal_share", "CPU that the host gave away"),
    ("time_s", "time in all"),
    ("cpu_s", "CPU time"),
    ("p50_ns", "median latency"),
    ("p90_ns", "latency, p90"),
    ("p99_ns", "latency, p99"),
    ("p999_ns", "latency, p99.9"),
    ("max_ns", "longest latency"),
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
    ("max_rate_per_s", "highest rate that holds"),
];

/// The suffix of a name is its unit.
const ENDS: [(&str, Unit, f64); 10] = [
    ("_ns", Unit::Time, 1e-9),
    ("_us", Unit::Time, 1e-6),
    ("_us_per_request", Unit::Time, 1e-6),
    ("_ms", Unit::Time, 1e-3),
    ("_per_s", Unit::Rate, 1.0),
    ("_s", Unit::Time, 1.0),
    ("_bytes", Unit::Bytes, 1.0),
    ("_bytes_per_connection", Unit::Bytes, 1.0),
    ("_share", Unit::Share, 1.0),
    ("_percent", Unit::Share, 0.01),
];

impl Metric {
    /// Looks up a metric by its name in the records.
    pub(super) fn named(name: &str) -> Self {
        let (end, unit, factor) =
            ENDS.into_iter().find(|(end, ..)| name.ends_with(end)).unwrap_or(("", Unit::Count, 1.0));
        let known = TITLES.iter().find(|(known, _)| *known == name).map(|(_, title)| (*title).to_owned());
        let title = known.unwrap_or_else(|| name.strip_suffix(end).unwrap_or(name).replace('_', " "));
        Self { name: name.to_owned(), title, unit, factor }
    }
}

impl Unit {
    /// A value with its unit and three digits: `1.23 ms`, `61,100/s`, `5.44 MiB`.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Rate => format!("{}/s", digits(value)),
            Self::Count => digits(value),
            Self::Share => format!("{} %", digits(value * 100.0)),
            Self::Time | Self::Bytes | Self::Cores => {
                let (size, name) = self.part(value);
                let name = if self == Self::Cores && (value - 1.0).abs() < 1e-9 { "core" } else { name };
                format!("{} {name}", digits(value / size))
            }
        }
    }

    /// The same for a tick, whose number is round.
    pub(super) fn tick(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let (size, name) = self.part(value);
        let after = match self {
            Self::Rate | Self::Count => "",
            _ => &format!(" {name}"),
        };
        format!("{}{after}", round(value / size))
    }

    /// The unit of an axis that ends at a value: its size, and its name in the title.
    pub(super) fn part(self, end: f64) -> (f64, &'static str) {
        let of = |parts: &[(f64, &'static str)]| {
            let fits = parts.iter().rev().find(|(size, _)| end.abs() >= size * 0.9995);
            fits.or(parts.first()).copied().unwrap_or((1.0, ""))
        };
        match self {
            Self::Time => of(&[(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")]),
            Self::Bytes => of(&[
                (1.0, "B"),
                (1024.0, "KiB"),
                (1_048_576.0, "MiB"),
                (1_073_741_824.0, "GiB"),
                (1_099_511_627_776.0, "TiB"),
            ]),
            Self::Rate => (1.0, "per second"),
            Self::Count => (1.0, ""),
            Self::Cores => (1.0, "cores"),
            Self::Share => (0.01, "%"),
        }
    }
}

/// Three digits with thousands separators; small integers have no decimals.
pub(super) fn digits(value: f64) -> String {
    let size = value.abs();
    if size < 100.0 && (value - value.round()).abs() < 1e-9 {
        return format!("{value:.0}");
    }
    match size {
        s if s < 0.0995 => round(value),
        s if s < 0.9995 => format!("{value:.3}"),
        s if s < 9.995 => format!("{value:.2}"),
        s if s < 99.95 => format!("{value:.1}"),
        s if s < 9999.5 => grouped(value),
        _ => {
            let decade = 10_f64.powf(size.log10().floor() - 2.0);
            grouped((value / decade).round() * decade)
        }
    }
}

/// A round number with as many decimals as it has.
pub(super) fn round(value: f64) -> String {
    if value.abs() >= 999.5 {
        return grouped(value);
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `1,234,567`.
fn grouped(value: f64) -> String {
    let plain = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in plain.char_indices() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_three_digits_and_the_unit_that_fits() {
        for (unit, value, text) in [
            (Unit::Time, 0.0, "0 ns"),
            (Unit::Time, 1.2345e-3, "1.23 ms"),
            (Unit::Time, 61.26e-6, "61.3 µs"),
            (Unit::Time, 106.0, "106 s"),
            (Unit::Time, 0.04, "40 ms"),
            (Unit::Bytes, 32768.0, "32 KiB"),
            (Unit::Bytes, 714.0, "714 B"),
            (Unit::Bytes, 336_592_896.0, "321 MiB"),
            (Unit::Rate, 61_123.0, "61,100/s"),
            (Unit::Rate, 4_321.0, "4,321/s"),
            (Unit::Count, 35.0, "35"),
            (Unit::Cores, 1.0, "1 core"),
            (Unit::Cores, 0.2564, "0.256 cores"),
            (Unit::Share, 0.125, "12.5 %"),
            (Unit::Count, 1_234_567.0, "1,230,000"),
        ] {
            assert_eq!(unit.text(value), text, "{value}");
        }
    }

    #[test]
    fn a_tick_is_as_short_as_it_can_be() {
        for (unit, value, text) in [
            (Unit::Time, 0.0, "0"),
            (Unit::Time, 2e-4, "200 µs"),
            (Unit::Time, 1e-3, "1 ms"),
            (Unit::Time, 100.0, "100 s"),
            (Unit::Rate, 50_000.0, "50,000"),
            (Unit::Count, 0.25, "0.25"),
            (Unit::Share, 0.5, "50 %"),
        ] {
            assert_eq!(unit.tick(value), text, "{value}");
        }
    }

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

//! Parses the output of a variant that runs to its end: its metrics, or the report of a known load generator.

mod ab;
mod h2load;
mod json;
mod metrics;
mod wrk;

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_experiment::plan::{Kind, OutputFormat};
use rudy_stats::validity::Conditions;

use super::Measurement;
use super::bench::{self, is_supported};

/// Parses the output. An error names the missing part.
pub(crate) fn read(output_format: OutputFormat, text: &str, kind: &Kind) -> Result<Measurement, String> {
    let of = |tool: &str, tally: Option<Tally>| {
        tally.map(Tally::measurement).ok_or_else(|| format!("its output is not a report of {tool}"))
    };
    match output_format {
        OutputFormat::Metrics => metrics::read(text),
        OutputFormat::Bench => bench::read(text, kind).map_err(|why| format!("its report is invalid: {why}")),
        OutputFormat::Wrk => of("wrk --latency", wrk::read(text)),
        OutputFormat::H2load => of("h2load", h2load::read(text)),
        OutputFormat::Ab => of("ab", ab::read(text)),
        OutputFormat::Json => json::read(text),
    }
}

/// The counts of a load generator.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    requests: u64,
    /// The number of failed requests.
    wrong: u64,
    /// Requests without a response that `requests` does not include.
    lost: u64,
    requests_per_s: f64,
    /// The reported quantiles of the latency, in ascending order.
    quantiles: Vec<(f64, Duration)>,
}

impl Tally {
    fn measurement(self) -> Measurement {
        let all = self.requests + self.lost;
        let errors = self.wrong + self.lost;
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let mut metrics = BTreeMap::from([
            ("requests_per_s".to_owned(), self.requests_per_s),
            ("errors".to_owned(), errors as f64),
        ]);
        let nanoseconds = |time: Duration| time.as_secs_f64() * 1e9;
        for (name, wanted) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("max_ns", 1.0)] {
            #[expect(clippy::float_cmp, reason = "both are written in a program, neither is computed")]
            let of = self.quantiles.iter().find(|(quantile, _)| *quantile == wanted);
            let of = of.filter(|_| is_supported(wanted, self.requests));
            metrics.extend(of.map(|(_, time)| (name.to_owned(), nanoseconds(*time))));
        }
        // A distribution of two points is not useful.
        let points = self.quantiles.iter().map(|(quantile, time)| [*quantile, nanoseconds(*time)]);
        let latency = (self.quantiles.len() > 2).then(|| points.collect());
        let (succeeded, failed) = (Some(all - errors.min(all)), Some(errors.min(all)));
        Measurement {
            metrics,
            requests: self.requests,
            latency,
            conditions: Conditions { succeeded, failed, ..Conditions::default() },
            ..Measurement::default()
        }
    }
}

/// The number after a name at the start of a line.
fn after<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
    line.split_ascii_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind =
        Kind::Run { n: None, within: rudy_units::Time(Duration::ZERO), exit_codes: Vec::new() };

    fn metrics(output_format: OutputFormat, text: &str) -> BTreeMap<String, f64> {
        let measurement = read(output_format, text, &KIND).unwrap();
        assert!(measurement.warnings.is_empty(), "{:?}", measurement.warnings);
        measurement.metrics.into_iter().map(|(name, value)| (name, value.round())).collect()
    }

    fn expected(metrics: &[(&str, f64)]) -> BTreeMap<String, f64> {
        metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    /// Each report is of 16 connections to a server that stalled for the second of three seconds.
    #[test]
    fn the_metrics_of_each_generator_are_those_it_prints() {
        assert_eq!(
            metrics(OutputFormat::Wrk, include_str!("tests/wrk.txt")),
            expected(&[
                ("requests_per_s", 34882.0),
                ("errors", 0.0),
                ("p50_ns", 210e3),
                ("p90_ns", 531_680e3),
                ("p99_ns", 950_720e3),
                ("max_ns", 997_030e3)
            ])
        );
        assert_eq!(
            metrics(OutputFormat::H2load, include_str!("tests/h2load.txt")),
            expected(&[("requests_per_s", 32737.0), ("errors", 0.0), ("max_ns", 1_010_000e3)])
        );
        // The median is below a millisecond, which `ab` prints as 0.
        assert_eq!(
            metrics(OutputFormat::Ab, include_str!("tests/ab.txt")),
            expected(&[("requests_per_s", 42449.0), ("errors", 0.0), ("p99_ns", 1e6), ("max_ns", 1015e6)])
        );
    }

    #[test]
    fn what_went_wrong_is_counted_and_suspect() {
        let wrk = include_str!("tests/wrk.txt").replace(
            "Requests/sec",
            "  Socket errors: connect 0, read 5, write 0, timeout 3\n  Non-2xx or 3xx responses: 1992\nRequests/sec",
        );
        let h2load = include_str!("tests/h2load.txt")
            .replace("98210 succeeded, 0 failed, 0 errored", "96210 succeeded, 2000 failed, 7 errored");
        let ab = include_str!("tests/ab.txt")
            .replace("Failed requests:        0", "Failed requests:        2000\nNon-2xx responses:      13");
        for (output_format, text) in
            [(OutputFormat::Wrk, wrk), (OutputFormat::H2load, h2load), (OutputFormat::Ab, ab)]
        {
            let measurement = read(output_format, &text, &KIND).unwrap();
            assert!((measurement.metrics["errors"] - 2000.0).abs() < 0.5, "{output_format:?}");
            let warnings = crate::run::warnings(&measurement, None, None);
            assert!(warnings[0].sentence.contains("of the requests failed"), "{warnings:?}");
        }
    }

    #[test]
    fn output_without_a_report_is_an_error() {
        for output_format in [OutputFormat::Wrk, OutputFormat::H2load, OutputFormat::Ab, OutputFormat::Bench]
        {
            let why = read(output_format, "unable to connect", &KIND).err();
            assert!(why.is_some_and(|why| why.contains("report")), "{output_format:?}");
        }
    }
}

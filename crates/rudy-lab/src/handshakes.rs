//! `rudy tls --matrix`: runs the plan `handshakes`, and prints its metrics as tables of keys and modes.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rudy_command::{Exit, report_error};
use rudy_experiment::charts;
use rudy_experiment::experiment::{self, Experiment};
use rudy_experiment::plan::Kind;
use rudy_stats::compare::Summary;
use rudy_units::{Unit, Visible, grouped, share};
use serde_json::json;

use crate::run::{Options, run_then};

/// The chart of `--plot`: the CPU time of a full handshake in the server, by the size of the key.
const CHART: &str = "curve-full-cpu-per-request";

/// The options of `rudy tls --matrix`.
#[derive(Debug, Clone, Default)]
pub struct Handshakes {
    /// The number of rounds.
    pub rounds: usize,
    /// Only these variants and workloads of the plan.
    pub only: Vec<String>,
    /// The results folder; a temporary one by default.
    pub out: Option<PathBuf>,
    /// The file for the chart, as SVG.
    pub plot: Option<PathBuf>,
    /// Whether the output is JSON.
    pub is_json: bool,
    /// Whether workloads are short.
    pub is_quick: bool,
}

/// Measures handshakes with each type of key, and prints tables.
#[must_use]
pub fn handshakes(options: &Handshakes) -> Exit {
    let temporary = match tempfile::tempdir() {
        Ok(temporary) => temporary,
        Err(error) => {
            return report_error(Exit::CannotRun, &format!("cannot make a temporary folder: {error}"));
        }
    };
    let out = options.out.clone().unwrap_or_else(|| temporary.path().join("handshakes"));
    let run = Options {
        plan: Some("handshakes".to_owned()),
        rounds: Some(options.rounds),
        only: options.only.clone(),
        out: Some(out),
        is_quick: options.is_quick,
        ..Options::default()
    };
    run_then(&run, |folder, exit| match print(folder, options) {
        Ok(()) => exit,
        Err(why) => report_error(Exit::CannotRun, &why),
    })
}

fn print(folder: &Path, options: &Handshakes) -> Result<(), String> {
    let experiment = experiment::read(folder)?;
    if let Some(path) = &options.plot {
        let chart = charts(&experiment).into_iter().find(|chart| chart.id == CHART);
        let chart = chart.ok_or("--plot needs the workload `full`, and RSA keys of at least two sizes")?;
        fs::write(path, chart.svg).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let text = if options.is_json { to_json(&experiment) } else { tables(&experiment) };
    // A closed pipe is no error: the reader has read enough.
    let _ = Visible(io::stdout()).write_all(text.as_bytes());
    Ok(())
}

/// The median of a metric over the rounds.
fn median(experiment: &Experiment, variant: &str, workload: &str, metric: &str) -> Option<f64> {
    let runs = experiment.measured(variant, workload);
    let values: Vec<f64> = runs.filter_map(|run| run.metrics.get(metric).copied()).collect();
    Summary::new(&values).map(|summary| summary.median)
}

/// A column: a title, and the text of a variant under a workload.
type Column<'a> = (&'a str, Box<dyn Fn(&str, &str) -> Option<String> + 'a>);

fn tables(experiment: &Experiment) -> String {
    let value = |variant: &str, workload: &str, metric| median(experiment, variant, workload, metric);
    // CPU time of one request, as requests in a second of CPU time.
    let per_cpu = |metric| {
        move |variant: &str, workload: &str| Some(grouped((1e6 / value(variant, workload, metric)?).round()))
    };
    let time = |metric, factor: f64| {
        move |variant: &str, workload: &str| Some(Unit::Time.text(value(variant, workload, metric)? * factor))
    };
    let rates: [Column<'_>; 5] = [
        (
            "per second",
            Box::new(|variant, workload| Some(grouped(value(variant, workload, "requests_per_s")?.round()))),
        ),
        ("per CPU s, server", Box::new(per_cpu("cpu_us_per_request"))),
        ("per CPU s, client", Box::new(per_cpu("client_cpu_us_per_request"))),
        ("resumed", Box::new(|variant, workload| Some(share(value(variant, workload, "resumed_share")?)))),
        ("median latency", Box::new(time("p50_ns", 1e-9))),
    ];
    let times: [Column<'_>; 2] =
        [("TLS done", Box::new(time("tls_done_ns", 1e-9))), ("total time", Box::new(time("time_s", 1.0)))];
    let mut text = String::new();
    for workload in &experiment.plan().workloads {
        let columns = if matches!(workload.kind, Kind::Bench { .. }) { &rates[..] } else { &times };
        text += &table(experiment, &workload.name, columns);
    }
    text
}

fn table(experiment: &Experiment, workload: &str, columns: &[Column<'_>]) -> String {
    let mut text = format!("{workload:<28}");
    // Writing to a string does not fail.
    for (title, _) in columns {
        let _ = write!(text, "{title:>20}");
    }
    text.push('\n');
    for variant in &experiment.plan().variants {
        let _ = write!(text, "  {:<26}", variant.name);
        for (_, cell) in columns {
            let _ = write!(text, "{:>20}", cell(&variant.name, workload).unwrap_or_else(|| "–".to_owned()));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// The medians of all metrics of each variant and workload.
fn to_json(experiment: &Experiment) -> String {
    let mut cells = Vec::new();
    for workload in &experiment.plan().workloads {
        for variant in &experiment.plan().variants {
            let runs = experiment.measured(&variant.name, &workload.name);
            let names: std::collections::BTreeSet<&String> =
                runs.flat_map(|run| run.metrics.keys()).collect();
            let metrics = names
                .into_iter()
                .map(|name| (name.clone(), json!(median(experiment, &variant.name, &workload.name, name))));
            let metrics: serde_json::Map<_, _> = metrics.collect();
            cells.push(json!({"variant": variant.name, "workload": workload.name, "metrics": metrics}));
        }
    }
    format!("{:#}\n", json!(cells))
}

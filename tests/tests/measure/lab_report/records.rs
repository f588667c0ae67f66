//! Fake results of experiments, in the format of `rudy lab run`.

use rudy_experiment::record::{
    Commands, Head, Machine, Outcome, PLAN, RESULTS, Record, Run, Sample, Warning,
};
use rudy_tests::prelude::*;

/// A plan with markup, long words and other scripts in its names. The first variant uses half the CPU of the second one.
pub(crate) const HOSTILE: &str = r#"
name = "<img src=x onerror=alert(1)> & \"quotes\""
question = "What of </style><script>errors.push('run')</script>?"
rounds = 8
source = "a report with a very long line and </script> in it"

[[variant]]
name = "<b>new</b>"
command = ["new", "</pre><script>errors.push('run')</script>"]
control = true

[[variant]]
name = "a-variant-whose-name-is-so-long-that-it-has-no-room-on-a-phone-and-has-no-place-to-break"
command = ["old"]

[[workload]]
name = "1k"
kind = "bench"

[[workload]]
name = "ströme '&' flood"
kind = "flood"
connections = 100

[[compare]]
variant = "<b>new</b>"
with = "a-variant-whose-name-is-so-long-that-it-has-no-room-on-a-phone-and-has-no-place-to-break"
metrics = ["cpu_us_per_request", "p99_ns", "private_bytes"]

[[baseline]]
name = "<i>Jetty</i>"
variant = "<b>new</b>"
workload = "1k"
text = "three <u>nines</u>"
[baseline.metrics]
p99_ns = 20000000
"#;

/// A plan with two variants, one of which is twice as good.
pub(crate) const PLAIN: &str = r#"
name = "plain"
question = "Which?"
rounds = 7
[[variant]]
name = "new"
command = ["new"]
[[variant]]
name = "old"
command = ["old"]
[[workload]]
name = "1k"
kind = "bench"
[[compare]]
variant = "new"
with = "old"
metrics = ["cpu_us_per_request"]
"#;

/// Writes the folder of an experiment with all runs of the plan.
pub(crate) fn write(folder: &Path, text: &str) {
    let plan = rudy_experiment::plan::parse(text, "made.toml", None).expect("the plan is right");
    let mut records = vec![Record::Head(Box::new(Head {
        plan: plan.clone(),
        started: "2026-11-21T10:00:00Z".to_owned(),
        seed: 7,
        machine: Machine {
            cpu: "a processor".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
            kernel: "6.18.0".to_owned(),
            governor: None,
            has_smt: false,
        },
        versions: BTreeMap::from([("rudy".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        command: ["rudy", "lab", "run", "made.toml"].map(str::to_owned).to_vec(),
    }))];
    for round in 0..plan.rounds {
        for workload in &plan.workloads {
            for (place, variant) in plan.variants.iter().enumerate() {
                for is_control in [false, true].into_iter().filter(|again| !again || variant.is_control) {
                    let is_flood = matches!(workload.kind, rudy_experiment::plan::Kind::Flood { .. });
                    let mut run = run(round, place, is_flood);
                    (run.variant, run.workload, run.is_control) =
                        (variant.name.clone(), workload.name.clone(), is_control);
                    run.commands.variant.clone_from(&variant.command);
                    records.push(Record::Run(Box::new(run)));
                }
            }
        }
    }
    let line = |record: &Record| serde_json::to_string(record).expect("a record is JSON") + "\n";
    folder.write(RESULTS, records.iter().map(line).collect::<String>());
    folder.write(PLAN, text);
}

/// Returns a run of the variant at this position. The second one uses twice the CPU of the first one. One run of the third round is
/// suspect, and one of the fourth failed.
fn run(round: usize, place: usize, is_flood: bool) -> Run {
    let level = f64::from(u32::try_from(place + 1).expect("a plan has few variants"));
    let noise = 1.0 + 0.01 * f64::from(u32::try_from(round % 4).expect("it is below 4"));
    let has_failed = (round, place) == (3, 1);
    let mut metrics: BTreeMap<String, f64> = BTreeMap::from([
        ("cpu_us_per_request".to_owned(), 10.0 * level * noise),
        ("requests_per_s".to_owned(), 50_000.0 / level / noise),
        ("p99_ns".to_owned(), 2e6 * level * noise),
        ("private_bytes".to_owned(), 5e6 * level * noise),
        ("errors".to_owned(), 0.0),
    ]);
    if is_flood {
        metrics.remove("requests_per_s");
    }
    let points = [(0.0, 1e5), (0.5, 4e5), (0.9, 9e5), (0.99, 2e6), (0.999, 5e6), (1.0, 9e6)];
    let warning = Warning {
        sentence: "the generator's <core> was busy 93 % of the time".to_owned(),
        concerns: vec!["p99_ns".to_owned()],
    };
    Run {
        round,
        position: place,
        variant: String::new(),
        workload: String::new(),
        is_control: false,
        began_s: 0.0,
        seconds: 1.0,
        commands: Commands {
            variant: Vec::new(),
            workload: vec!["rudy".to_owned(), "bench".to_owned(), "http://127.0.0.1:1/a b".to_owned()],
        },
        outcome: if has_failed {
            Outcome::Failed { why: "it ended (exit code 1) under the workload:\n<panic>".to_owned() }
        } else {
            Outcome::Measured
        },
        metrics: if has_failed { BTreeMap::new() } else { metrics },
        latency: Some(points.map(|(share, time)| [share, time * level * noise]).to_vec()),
        samples: (0..8).map(|second| sample(second, level)).collect(),
        warnings: if (round, place) == (2, 0) { vec![warning] } else { Vec::new() },
        notes: Vec::new(),
        intervals: Vec::new(),
        steps: Vec::new(),
    }
}

fn sample(second: u32, level: f64) -> Sample {
    let time = f64::from(second);
    Sample {
        t_s: time,
        threads: BTreeMap::from([("worker & <co>".to_owned(), [0.2 * time * level, 0.1 * time])]),
        private_bytes: 4_000_000 + u64::from(second) * 100_000,
        shared_bytes: 1 << 20,
        descriptors: 20,
        connections: u64::from(second) * 12,
        voluntary_switches: 5,
        involuntary_switches: 1,
    }
}

//! The flags of `rudy lab`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use rudy_command::{Exit, print, report_error};
use rudy_experiment::{DiffFormat, DiffOptions, Format, Gate, ReportOptions};
use rudy_lab::{Compare, Options};

use crate::values::{constant_rate, number};

/// Compare servers with repeated, interleaved benchmarks
///
/// A plan (a TOML file) lists the servers, the workloads and the comparisons. The lab starts a new server process for each
/// workload and round, and changes the order in each round.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "Examples:
  rudy lab list                 list the built-in plans
  rudy lab run files            run a built-in plan and write a report
  rudy lab run mine.toml        run your own plan; `rudy lab run --help` shows one
  rudy lab compare './old --port {port}' './new --port {port}' --url http://127.0.0.1:{port}/"
)]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// List the built-in plans, with their expected duration and the servers that are not installed
    #[command(after_help = "Example: rudy lab list")]
    List,
    Show(Show),
    Run(Run),
    Compare(CompareArguments),
    Diff(Diff),
    Report(Report),
    Messages(Messages),
    Burn(Burn),
}

/// Run a plan and write a report
///
/// Writes each result to the results folder at once. Ctrl-C stops the servers and keeps the results so far; --resume
/// continues from there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab run files                          run a built-in plan; see `rudy lab list`
  rudy lab run files --quick --only rudy --only nginx-small --only 1k
  rudy lab run mine.toml --out results        run your own plan
  rudy lab run --resume results               continue an interrupted run

A plan that compares two engines; docs/lab.md describes all keys:
  [[file]]
  path = \"1k.html\"
  size = \"1KiB\"
  [[variant]]
  name = \"percore\"
  command = [\"rudy\", \"serve\", \"{folder}\", \"--port\", \"{port}\"]
  [[variant]]
  name = \"task\"
  command = [\"rudy\", \"serve\", \"{folder}\", \"--port\", \"{port}\", \"--engine\", \"task\"]
  [[workload]]
  name = \"1k\"
  kind = \"bench\"
  path = \"/1k.html\"
  [[compare]]
  variant = \"percore\"
  with = \"task\"

Exit codes: 0 done, 1 failed to run, 2 invalid arguments or plan, 3 a gate failed (--fail-if-worse, --require-not-worse), 130 interrupted.")]
struct Run {
    /// Plan file, or name of a built-in plan
    #[arg(value_name = "PLAN", required_unless_present = "resume", conflicts_with = "resume")]
    plan: Option<String>,
    /// Number of rounds, instead of the plan's; a verdict needs at least 6, more with many comparisons
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    rounds: Option<usize>,
    /// Results folder [default: lab-PLAN-TIME]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Run only this server or workload of the plan (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    only: Vec<String>,
    /// Continue the interrupted run in this results folder
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Try the plan: two rounds with workloads of one second
    #[arg(long, conflicts_with = "resume")]
    quick: bool,
    /// Compare each variant with itself (A/A): every difference is false
    #[arg(long, conflicts_with = "resume")]
    aa: bool,
    /// Exit with 3 if a variant is worse than the one it is compared with, by more than this percentage
    #[arg(long, value_name = "N%", value_parser = Gate::fail_if_worse, conflicts_with = "quick")]
    fail_if_worse: Option<Gate>,
    /// Exit with 3 unless each variant is shown to be less than this percentage worse
    #[arg(long, value_name = "N%", value_parser = Gate::require_not_worse, conflicts_with_all = ["quick", "fail_if_worse"])]
    require_not_worse: Option<Gate>,
}

/// Print a built-in plan
///
/// Also prints the configurations and programs that the plans use. A copy of a plan finds them without their files.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab show files >mine.toml              copy a plan to change it
  rudy lab show peers/nginx-static.conf

Exit codes: 0 done, 2 no such plan.")]
struct Show {
    /// Name of a plan, or a path in one
    #[arg(value_name = "NAME")]
    name: String,
}

/// Compare two servers without a plan file
///
/// Starts the servers in rounds, or measures two that run already, and writes the same report as `rudy lab run`. Compares the
/// CPU of servers that it starts, and the throughput, or with --rate the latency.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab compare './old --port {port}' './new --port {port}' --url http://127.0.0.1:{port}/a.html
  rudy lab compare --url http://10.0.0.7/ --url http://10.0.0.8/ --rate 1000
  rudy lab compare './old {port}' './new {port}' --url http://127.0.0.1:{port}/ --fail-if-worse 5%
  rudy lab compare './a' './b' --url http://127.0.0.1:8080/ --print-plan >mine.toml
  rudy lab compare --url http://10.0.0.7/ --url http://10.0.0.8/ -- -m POST -b @/tmp/item.json

{port} is a free port. The second server is compared with the first one. Commands run in a shell, in the current folder.

Exit codes: 0 done, 1 failed to run, 2 invalid arguments, 3 a gate failed (--fail-if-worse, --require-not-worse), 130 interrupted.")]
struct CompareArguments {
    /// Two shell commands that start the servers in the foreground; without them, the servers run already
    #[arg(value_name = "COMMAND", num_args = 0..=2)]
    commands: Vec<String>,
    /// Further arguments of `rudy bench`, such as a method and a body
    #[arg(value_name = "ARGUMENT", last = true)]
    arguments: Vec<String>,
    /// URL to request; twice for two servers that run already
    #[arg(long, value_name = "URL", required = true)]
    url: Vec<String>,
    /// Name in the report (twice)
    #[arg(long, value_name = "NAME", default_values = ["A", "B"], num_args = 1)]
    name: Vec<String>,
    /// Number of connections
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = number)]
    connections: NonZeroU32,
    /// Duration of each measurement
    #[arg(short, long, value_name = "TIME", default_value = "3s")]
    duration: rudy_units::Time,
    /// Requests per second; without it, each connection sends its next request after the response
    #[arg(short = 'R', long, value_name = "RATE", value_parser = constant_rate)]
    rate: Option<f64>,
    /// Header field of each request, as in 'Accept: */*' (repeatable)
    #[arg(short = 'H', long, value_name = "FIELD")]
    header: Vec<String>,
    /// Number of rounds; a verdict needs at least 7
    #[arg(long, value_name = "N", default_value_t = 10)]
    rounds: usize,
    /// Results folder [default: lab-compare-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Exit with 3 if the second server is worse, by more than this percentage
    #[arg(long, value_name = "N%", value_parser = Gate::fail_if_worse)]
    fail_if_worse: Option<Gate>,
    /// Exit with 3 unless the second server is shown to be less than this percentage worse
    #[arg(long, value_name = "N%", value_parser = Gate::require_not_worse, conflicts_with = "fail_if_worse")]
    require_not_worse: Option<Gate>,
    /// Print the plan as TOML, and do not run it
    #[arg(long)]
    print_plan: bool,
}

/// Compare the results of two folders
///
/// Compares each variant and workload that both have, such as those of today and of last week. The rounds are not pairs, so the
/// intervals are wider than those of one run, and a change of the machine counts as a difference. Differences of machine, versions
/// and plans are printed first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab diff lab-files-monday lab-files-friday
  rudy lab diff old new --fail-if-worse 10%
  rudy lab diff old new --json | jq '.comparisons[] | select(.verdict == \"worse\")'

Exit codes: 0 done, 1 no verdict for a gate, 2 invalid arguments or no results, 3 a gate failed (--fail-if-worse, --require-not-worse).")]
struct Diff {
    /// Results folder to compare with
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// Results folder to compare
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print CSV, with a line for each comparison
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Exit with 3 if a variant is worse than before, by more than this percentage
    #[arg(long, value_name = "N%", value_parser = Gate::fail_if_worse)]
    fail_if_worse: Option<Gate>,
    /// Exit with 3 unless each variant is shown to be less than this percentage worse
    #[arg(long, value_name = "N%", value_parser = Gate::require_not_worse, conflicts_with = "fail_if_worse")]
    require_not_worse: Option<Gate>,
}

/// Write a report of results
///
/// A report has the comparisons with confidence intervals, all metrics of all servers, validity warnings, and the commands to
/// repeat the measurement. Several results folders make one report, which corrects the verdicts for all its comparisons.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab report results                     write results/report.html
  rudy lab report monday tuesday --out both.html
  rudy lab report results --format markdown   print tables
  rudy lab report results --format csv >runs.csv
  rudy lab report results --format json | jq -r '.experiments[].findings[].sentence'
  rudy lab report results --charts pictures   also write each chart as SVG

Exit codes: 0 done, 1 cannot write, 2 invalid arguments or no results.")]
struct Report {
    /// Results folders of `rudy lab run`
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "html")]
    format: FormatName,
    /// Output file, or - for standard output [default: DIR/report.html for html, otherwise -]
    #[arg(long, value_name = "FILE|-")]
    out: Option<PathBuf>,
    /// Folder for the charts as SVG
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormatName {
    /// Web page with charts
    Html,
    /// Tables in GitHub's Markdown
    Markdown,
    /// Comparisons and metrics for programs
    Json,
    /// A line for each metric of each run
    Csv,
}

/// Measure the overhead of the work-stealing scheduler
///
/// N tasks send a ping to each other, reply to each ping with a pong, and end after their last pong. Prints the elapsed
/// time, the CPU time and the number of messages. `rudy lab run schedulers` compares numbers of workers, and Erlang.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab messages 800 --workers 4           time_s, cpu_s, messages, ns_per_message
  for w in 1 2 4 8 16; do echo $w; rudy lab messages 800 --workers $w; done

Exit codes: 0 done, 1 failed to run, 2 invalid arguments.")]
struct Messages {
    /// Number of tasks, from 2 to 4000
    #[arg(value_name = "N")]
    tasks: u32,
    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "W")]
    workers: Option<usize>,
}

/// Serve requests that each use a given CPU time
///
/// `rudy lab run calibrate` compares such servers, to find out whether a known difference can be measured on this machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab burn 200us --listen 127.0.0.1:8080

Exit codes: 1 cannot listen, 2 invalid arguments.")]
struct Burn {
    /// CPU time of each request
    #[arg(value_name = "TIME")]
    cpu: rudy_units::Time,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: std::net::SocketAddr,
}

impl Lab {
    /// Runs the command and returns its exit code.
    pub(crate) fn run(self) -> Exit {
        match self.command {
            LabCommand::List => rudy_experiment::list(),
            LabCommand::Show(show) => rudy_experiment::show(&show.name),
            LabCommand::Run(run) => rudy_lab::run(&run.into()),
            LabCommand::Compare(compare) => compare.run(),
            LabCommand::Diff(Diff { old, new, json, csv, fail_if_worse, require_not_worse }) => {
                let gate = fail_if_worse.or(require_not_worse);
                let format = match (json, csv) {
                    (true, _) => DiffFormat::Json,
                    (_, true) => DiffFormat::Csv,
                    _ => DiffFormat::Text,
                };
                rudy_experiment::diff(&DiffOptions { old, new, format, gate })
            }
            LabCommand::Report(report) => rudy_experiment::report(&report.into()),
            LabCommand::Burn(Burn { cpu, listen }) => rudy_lab::burn(listen, cpu.0),
            LabCommand::Messages(Messages { tasks, workers }) => {
                let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                rudy_lab::messages(rudy_lab::Messages { tasks, workers: workers.unwrap_or_else(cores) })
            }
        }
    }
}

impl From<Run> for Options {
    fn from(run: Run) -> Self {
        Self {
            plan: run.plan,
            rounds: run.rounds,
            out: run.out,
            only: run.only,
            resume: run.resume,
            is_quick: run.quick,
            is_aa: run.aa,
            gate: run.fail_if_worse.or(run.require_not_worse),
            text: None,
        }
    }
}

impl CompareArguments {
    fn run(self) -> Exit {
        let Ok([a, b]) = <[String; 2]>::try_from(self.name) else {
            return report_error(Exit::BadInput, "--name is needed twice, or not at all");
        };
        let compare = Compare {
            commands: self.commands,
            urls: self.url,
            names: [a, b],
            connections: self.connections.get(),
            duration: self.duration,
            rate: self.rate,
            headers: self.header,
            arguments: self.arguments,
            rounds: self.rounds,
        };
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let text = match compare.plan(&folder) {
            Ok(text) if self.print_plan => return print(&text),
            Ok(text) => text,
            Err(why) => return report_error(Exit::BadInput, &why),
        };
        rudy_lab::run(&Options {
            plan: Some("compare".to_owned()),
            text: Some(text),
            out: self.out,
            gate: self.fail_if_worse.or(self.require_not_worse),
            ..Options::default()
        })
    }
}

impl From<Report> for ReportOptions {
    fn from(report: Report) -> Self {
        let format = match report.format {
            FormatName::Html => Format::Html,
            FormatName::Markdown => Format::Markdown,
            FormatName::Json => Format::Json,
            FormatName::Csv => Format::Csv,
        };
        Self { folders: report.folders, format, out: report.out, charts: report.charts }
    }
}

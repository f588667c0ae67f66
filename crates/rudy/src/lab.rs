//! The flags of `rudy lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use rudy_lab::{Format, Options, ReportOptions};
use rudy_load::Exit;

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
  rudy lab run mine.toml        run your own plan; `rudy lab run --help` shows one"
)]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// List the built-in plans
    #[command(after_help = "Example: rudy lab list")]
    List,
    Run(Run),
    Report(Report),
    Messages(Messages),
}

/// Run a plan and write a report
///
/// Writes each result to the results folder at once. Ctrl-C stops the servers and keeps the results so far; --resume
/// continues from there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab run files                          run a built-in plan; see `rudy lab list`
  rudy lab run files --quick --only nginx --only rudy --only 1k
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

Exit codes: 0 done, 1 failed to run, 2 invalid arguments or plan, 130 interrupted.")]
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
  rudy lab report results --format json | jq -r '.experiments[].findings[].sentence'
  rudy lab report results --charts pictures   also write each chart as SVG and CSV

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
    /// Folder for the charts as SVG, with their data as CSV
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
    /// One row per run, with all metrics
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

impl Lab {
    /// Runs the command and returns its exit code.
    pub(crate) fn run(self) -> Exit {
        match self.command {
            LabCommand::List => rudy_lab::list(),
            LabCommand::Run(run) => rudy_lab::run(&run.into()),
            LabCommand::Report(report) => rudy_lab::report(&report.into()),
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
        }
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

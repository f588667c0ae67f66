//! The flags of `rudy lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use rudy_lab::{Format, Options, ReportOptions};
use rudy_load::Exit;

/// Compare servers: several, side by side, under the same loads, in rounds.
///
/// A plan (TOML) says which servers, which loads, and what is compared with what. Each server is started afresh for each load
/// and round, in an order that changes from round to round.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "Example: rudy lab run files"
)]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Name the plans that Rudy has with it
    #[command(after_help = "Example: rudy lab list")]
    List,
    Run(Run),
    Report(Report),
    Messages(Messages),
}

/// Carry out a plan
///
/// What is measured is written to the folder of the results after every single run. Ctrl-C ends the servers and keeps what
/// was measured; --resume goes on from there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab run files                          a built-in plan; see `rudy lab list`
  rudy lab run files --quick --only nginx --only rudy --only 1k
  rudy lab run mine.toml --out results        a plan of your own
  rudy lab run --resume results               go on where it was interrupted

Exit codes: 0 done, 1 could not run, 2 bad arguments or a wrong plan, 130 interrupted.")]
struct Run {
    /// The plan's file, or the name of a built-in one
    #[arg(value_name = "PLAN", required_unless_present = "resume", conflicts_with = "resume")]
    plan: Option<String>,
    /// So many rounds, whatever the plan says; a verdict takes 6 or more, with the number of comparisons
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    rounds: Option<usize>,
    /// Write the results to this folder [default: lab-PLAN-TIME]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Only this subject or load of the plan; may be given again
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    only: Vec<String>,
    /// Go on with the experiment in this folder
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Two rounds and loads of a second: to see whether a plan works
    #[arg(long, conflicts_with = "resume")]
    quick: bool,
}

/// Make a report of what was measured
///
/// A report has the findings with their intervals, every figure of every subject, the doubts, and what is needed to repeat it.
/// Several folders make one report, in which verdicts are corrected for the comparisons of all.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab report results                     a page: results/report.html
  rudy lab report monday tuesday --out both.html
  rudy lab report results --format markdown   tables, on standard output
  rudy lab report results --format json | jq -r '.experiments[].findings[].sentence'
  rudy lab report results --charts pictures   the page, and each chart as SVG and CSV

Exit codes: 0 done, 1 could not write, 2 bad arguments or no results.")]
struct Report {
    /// Folders that `rudy lab run` has left
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// How it is written
    #[arg(long, value_name = "FORMAT", default_value = "html")]
    format: FormatName,
    /// Write it to this file, or to standard output (-) [default: a page to report.html in DIR, the rest to -]
    #[arg(long, value_name = "FILE|-")]
    out: Option<PathBuf>,
    /// Write each chart to this folder, as SVG and its data as CSV
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormatName {
    /// A page for a browser, with charts
    Html,
    /// Tables as in the issues of GitHub
    Markdown,
    /// Everything that was found, for programs
    Json,
    /// A row for each run with all its figures
    Csv,
}

/// Send messages from all to all: what the work-stealing scheduler takes for them
///
/// N tasks ping each other, answer each ping with a pong, and are done with their last pong. It prints how long that took, what CPU
/// it cost, and how many messages there were. `rudy lab run schedulers` does it with several numbers of workers, beside Erlang.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy lab messages 800 --workers 4           time_s, cpu_s, messages, ns_per_message
  for w in 1 2 4 8 16; do echo $w; rudy lab messages 800 --workers $w; done

Exit codes: 0 done, 1 could not run, 2 bad arguments.")]
struct Messages {
    /// How many tasks, from 2 to 4000
    #[arg(value_name = "N")]
    tasks: u32,
    /// How many OS threads carry them [default: one per core]
    #[arg(long, value_name = "W")]
    workers: Option<usize>,
}

impl Lab {
    /// Does it.
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

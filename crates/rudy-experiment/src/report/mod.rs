//! The report of an experiment, from its records.

mod analysis;
pub(crate) mod chart;
mod csv;
mod diff;
#[cfg(test)]
pub(crate) mod fixtures;
mod gate;
mod html;
mod json;
mod markdown;
mod rows;
mod shell;

pub use self::diff::{DiffFormat, DiffOptions, diff};
pub use self::gate::Gate;

use std::fs;
use std::path::{Path, PathBuf};

use rudy_command::{Exit, print_line, report_error, write_output};
use rudy_units::visible_lines;

use crate::experiment::{self, Experiment};

/// The name of the page in a results folder.
const PAGE: &str = "report.html";

/// The name of the same report for programs.
const DOCUMENT: &str = "report.json";

/// The options of `rudy lab report`.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Results folders of `rudy lab run`; several make one report.
    pub folders: Vec<PathBuf>,
    /// The format.
    pub format: Format,
    /// The output: a file, or `-` for standard output. By default, a page is written to `report.html` in its
    /// folder, or in the current folder for several; other formats go to standard output.
    pub out: Option<PathBuf>,
    /// The folder for charts, each as `ID.svg`.
    pub charts: Option<PathBuf>,
}

/// The format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A web page with charts.
    Html,
    /// Tables in GitHub's Markdown.
    Markdown,
    /// All comparisons and metrics as JSON.
    Json,
    /// A line for each metric of each run, as CSV.
    Csv,
}

/// Writes a report of experiments.
#[must_use]
pub fn report(options: &ReportOptions) -> Exit {
    match make(options) {
        Ok(()) => Exit::Done,
        Err((exit, why)) => report_error(exit, &why),
    }
}

fn make(options: &ReportOptions) -> Result<(), (Exit, String)> {
    let experiments = options.folders.iter().map(|folder| experiment::read(folder));
    let experiments: Vec<Experiment> =
        experiments.collect::<Result<_, _>>().map_err(|why| (Exit::BadInput, why))?;
    let report = analysis::analyse(&experiments);
    let text = match options.format {
        Format::Html => html::write(&report),
        Format::Markdown => markdown::write(&report),
        Format::Json => json::write(&report),
        Format::Csv => csv::runs(&experiments),
    };
    let cannot = |why| (Exit::CannotRun, why);
    write(&text, &options.place()).map_err(cannot)?;
    options.charts.as_deref().map_or(Ok(()), |folder| write_charts(&experiments, folder)).map_err(cannot)
}

impl ReportOptions {
    /// The output path. The page of a single folder is written into that folder.
    fn place(&self) -> PathBuf {
        match (&self.out, self.format, self.folders.as_slice()) {
            (Some(out), ..) => out.clone(),
            (None, Format::Html, [folder]) => folder.join(PAGE),
            (None, Format::Html, _) => PathBuf::from(PAGE),
            (None, ..) => PathBuf::from("-"),
        }
    }
}

/// Writes to a file and reports its name on stderr, or writes to standard output.
fn write(text: &str, place: &Path) -> Result<(), String> {
    if place == Path::new("-") {
        return write_output(&visible_lines(text));
    }
    save(text, place)?;
    print_line(&format!("the report is in {}", place.display()));
    Ok(())
}

fn save(text: &str, place: &Path) -> Result<(), String> {
    fs::write(place, text).map_err(|error| format!("cannot write {}: {error}", place.display()))
}

/// Writes each chart as SVG; for several experiments, into a folder for each.
fn write_charts(experiments: &[Experiment], folder: &Path) -> Result<(), String> {
    for (number, experiment) in experiments.iter().enumerate() {
        let folder = match experiments {
            [_] => folder.to_owned(),
            _ => folder.join((number + 1).to_string()),
        };
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        for chart in chart::charts(experiment) {
            save(&chart.svg, &folder.join(format!("{}.svg", chart.id)))?;
        }
    }
    Ok(())
}

/// Writes the report of a completed run into its folder, as a page and as JSON. Returns the path of the page, and
/// the findings as Markdown for a terminal.
///
/// # Errors
///
/// A message, if the folder is invalid or not writable.
pub fn after_run(folder: &Path) -> Result<(PathBuf, String), String> {
    let experiments = [experiment::read(folder)?];
    let report = analysis::analyse(&experiments);
    let page = folder.join(PAGE);
    save(&html::write(&report), &page)?;
    save(&json::write(&report), &folder.join(DOCUMENT))?;
    Ok((page, markdown::findings(&report)))
}

/// The exit code of the results in a folder, with a message unless they pass.
#[must_use]
pub fn judge(folder: &Path, gate: Gate) -> (Exit, String) {
    match experiment::read(folder) {
        Ok(experiment) => gate.exit(&analysis::analyse(&[experiment]).sections[0].comparisons),
        Err(why) => (Exit::CannotRun, why),
    }
}

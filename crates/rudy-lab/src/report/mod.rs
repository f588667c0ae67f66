//! What an experiment has shown: its findings in words and numbers, made from the records that it has left.

mod analysis;
mod cells;
mod chart;
mod csv;
mod html;
mod json;
#[cfg(test)]
pub(crate) mod made;
mod markdown;
mod rows;
mod shell;
mod text;
mod unit;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rudy_load::Exit;

use crate::experiment::{self, Experiment};

/// The name of the page in a folder of results.
const PAGE: &str = "report.html";

/// What is asked for.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Folders that `rudy lab run` has left; several make one report.
    pub folders: Vec<PathBuf>,
    /// How it is written.
    pub format: Format,
    /// To where: a file, or `-` for standard output. If absent, a page goes to `report.html` in its folder, or in the working
    /// folder if it is of several; everything else to standard output.
    pub out: Option<PathBuf>,
    /// A folder for the charts, each as `ID.svg` and `ID.csv`.
    pub charts: Option<PathBuf>,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A page for a browser, with charts.
    Html,
    /// Tables as in the issues of GitHub.
    Markdown,
    /// Everything that was found, for programs.
    Json,
    /// A row for each run with all its figures, for programs that compute with them.
    Csv,
}

/// Makes a report of experiments that were run.
#[must_use]
pub fn report(options: &ReportOptions) -> Exit {
    match make(options) {
        Ok(()) => Exit::Done,
        Err((exit, why)) => {
            // That nobody reads it changes nothing.
            let _ = writeln!(io::stderr(), "error: {why}");
            exit
        }
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
        Format::Csv => csv::write(&report),
    };
    let cannot = |why| (Exit::CannotRun, why);
    write(&text, &options.place()).map_err(cannot)?;
    options.charts.as_deref().map_or(Ok(()), |folder| write_charts(&experiments, folder)).map_err(cannot)
}

impl ReportOptions {
    /// Where the report goes: that of one folder into it, so that they stay together.
    fn place(&self) -> PathBuf {
        match (&self.out, self.format, self.folders.as_slice()) {
            (Some(out), ..) => out.clone(),
            (None, Format::Html, [folder]) => folder.join(PAGE),
            (None, Format::Html, _) => PathBuf::from(PAGE),
            (None, ..) => PathBuf::from("-"),
        }
    }
}

/// Writes to a file and says on stderr that it is there, or to standard output.
fn write(text: &str, place: &Path) -> Result<(), String> {
    if place == Path::new("-") {
        return match io::stdout().write_all(text.as_bytes()) {
            // Whoever closed the pipe has what they wanted.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(format!("cannot write to standard output: {error}"))
            }
            _ => Ok(()),
        };
    }
    save(text, place)?;
    let _ = writeln!(io::stderr(), "the report is in {}", place.display());
    Ok(())
}

fn save(text: &str, place: &Path) -> Result<(), String> {
    fs::write(place, text).map_err(|error| format!("cannot write {}: {error}", place.display()))
}

/// Each chart as a picture and as its data; of several experiments each in a folder of its own.
fn write_charts(experiments: &[Experiment], folder: &Path) -> Result<(), String> {
    for (number, experiment) in experiments.iter().enumerate() {
        let folder = match experiments {
            [_] => folder.to_owned(),
            _ => folder.join((number + 1).to_string()),
        };
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        for chart in chart::charts(experiment) {
            save(&chart.svg, &folder.join(format!("{}.svg", chart.id)))?;
            save(&chart.csv, &folder.join(format!("{}.csv", chart.id)))?;
        }
    }
    Ok(())
}

/// Writes the page of a run that is over into its folder. Where it is, and the findings as text for a terminal.
///
/// # Errors
///
/// What is wrong with the folder, or why nothing can be written there.
pub(crate) fn after_run(folder: &Path) -> Result<(PathBuf, String), String> {
    let experiments = [experiment::read(folder)?];
    let report = analysis::analyse(&experiments);
    let page = folder.join(PAGE);
    save(&html::write(&report), &page)?;
    Ok((page, text::write(&report)))
}

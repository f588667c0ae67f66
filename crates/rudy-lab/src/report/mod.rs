//! What an experiment has shown: its findings in words and numbers, made from the records that it has left.

mod analysis;
mod chart;
#[cfg(test)]
pub(crate) mod made;
mod markdown;
mod read;
mod rows;
mod text;
mod unit;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rudy_load::Exit;

use self::analysis::Report;
use self::read::Experiment;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Folders that `rudy lab run` has left; several make one report.
    pub folders: Vec<PathBuf>,
    /// How it is written.
    pub format: Format,
    /// To where: a file, or `-` for standard output. If absent, that is where each format belongs.
    pub out: Option<PathBuf>,
    /// A folder for each chart as `ID.svg` and `ID.csv`.
    pub charts: Option<PathBuf>,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Tables as in the issues of GitHub.
    Markdown,
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
    let experiments: Vec<Experiment> = options
        .folders
        .iter()
        .map(|folder| read::read(folder))
        .collect::<Result<_, _>>()
        .map_err(|why| (Exit::BadInput, why))?;
    let report = analysis::analyse(&experiments);
    let text = written(&report, options.format);
    write(&text, options.out.as_deref()).map_err(|why| (Exit::CannotRun, why))
}

fn written(report: &Report, format: Format) -> String {
    match format {
        Format::Markdown => markdown::write(report),
    }
}

fn write(text: &str, out: Option<&Path>) -> Result<(), String> {
    match out {
        Some(path) if path != Path::new("-") => {
            fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
        }
        _ => match io::stdout().write_all(text.as_bytes()) {
            // Whoever closed the pipe has what they wanted.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(format!("cannot write to standard output: {error}"))
            }
            _ => Ok(()),
        },
    }
}

/// Reads one of the folder's reports: the findings of a run that is over, as text for its terminal.
///
/// # Errors
///
/// What is wrong with the folder, or with what was to be written there.
pub(crate) fn after_run(folder: &Path) -> Result<String, String> {
    let experiments = [read::read(folder)?];
    Ok(text::write(&analysis::analyse(&experiments)))
}

//! The outputs of a run: files and standard output.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rudy_command::CommandError;
use serde::Serialize;

use super::options::OutputOptions;
use super::report::{Document, Rows, Run, render};
use super::run::Interval;
use crate::output_file::OutputFile;
use crate::units::{visible_json, visible_lines};

/// All outputs, opened before the run so that errors appear before the measurement.
pub(super) struct Output {
    has_spectrum: bool,
    json: Option<Sink>,
    hgrm: Option<Sink>,
    ndjson: Option<(Rows<BufWriter<OutputFile>>, PathBuf)>,
    /// The text report goes to standard output, unless another output uses it.
    text: Option<Sink>,
    /// The error that ended the output of rows.
    ndjson_error: Option<String>,
}

impl Output {
    /// Opens the outputs.
    pub(super) fn open(options: &OutputOptions) -> Result<Self, CommandError> {
        let paths = [&options.json, &options.ndjson, &options.hgrm];
        let stdout_count = paths.iter().filter(|path| path.as_deref().is_some_and(is_stdout)).count();
        if stdout_count > 1 {
            let message = "only one of --json, --ndjson and --hgrm can go to standard output (-)";
            return Err(CommandError::Arguments(message.to_owned()));
        }
        let open = |path: &Option<PathBuf>| path.as_deref().map(Sink::open).transpose();
        let ndjson = open(&options.ndjson)?.map(|sink| (Rows::new(BufWriter::new(sink.file)), sink.path));
        Ok(Self {
            has_spectrum: options.has_spectrum,
            json: open(&options.json)?,
            hgrm: open(&options.hgrm)?,
            ndjson,
            text: if stdout_count == 0 { Some(Sink::open(Path::new("-"))?) } else { None },
            ndjson_error: None,
        })
    }

    /// Writes the row of an interval. An error is reported at the end.
    pub(super) fn interval(&mut self, interval: &Interval) {
        let Some((rows, path)) = &mut self.ndjson else { return };
        if let Err(error) = rows.write(interval) {
            self.ndjson_error = write_error(path, &error);
            self.ndjson = None;
        }
    }

    /// Writes a report from JSON and text.
    pub(super) fn write(self, json: &str, text: &str) -> Result<(), String> {
        let written = [self.json.map(|sink| sink.write(json)), self.text.map(|sink| sink.write(text))];
        let errors: Vec<_> = written.into_iter().flatten().filter_map(Result::err).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    /// Writes the reports to all outputs.
    ///
    /// # Errors
    ///
    /// A message with the errors of all outputs, including those of earlier rows.
    pub(super) fn finish(self, run: &Run) -> Result<(), String> {
        let mut errors = Vec::from_iter(self.ndjson_error);
        if let Some(sink) = self.json {
            errors.extend(to_json(&Document::new(run)).and_then(|document| sink.write(&document)).err());
        }
        if let Some(sink) = self.hgrm {
            errors.extend(sink.write(&run.outcome.recorder.latency.to_hgrm()).err());
        }
        if let Some(sink) = self.text {
            errors.extend(sink.write(&visible_lines(&render(run, self.has_spectrum))).err());
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }
}

/// Formats a report as indented JSON.
pub(super) fn to_json(document: &impl Serialize) -> Result<String, String> {
    let json = serde_json::to_string_pretty(document);
    json.map(|json| visible_json(&json) + "\n").map_err(|error| error.to_string())
}

/// A file, or standard output.
struct Sink {
    file: OutputFile,
    path: PathBuf,
}

impl Sink {
    fn open(path: &Path) -> Result<Self, CommandError> {
        let file = if is_stdout(path) {
            // Standard output without the line buffer of `io::stdout`.
            io::stdout().as_fd().try_clone_to_owned().map(|stdout| File::from(stdout).into())
        } else {
            OutputFile::open(path)
        };
        let path = path.to_owned();
        match file {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => {
                Err(CommandError::Environment(format!("cannot write to {}: {error}", display_name(&path))))
            }
        }
    }

    fn write(mut self, text: &str) -> Result<(), String> {
        let result = self.file.write_all(text.as_bytes());
        result.err().and_then(|error| write_error(&self.path, &error)).map_or(Ok(()), Err)
    }
}

/// Converts a write error into a message. A closed pipe is no error: the reader has read enough.
fn write_error(path: &Path, error: &io::Error) -> Option<String> {
    let is_broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
    (!is_broken_pipe).then(|| format!("cannot write to {}: {error}", display_name(path)))
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn display_name(path: &Path) -> String {
    if is_stdout(path) { "standard output".to_owned() } else { path.display().to_string() }
}

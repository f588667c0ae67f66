//! Reads the files of one configuration.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use toml::de::DeTable;

use crate::diagnostics::{Location, Problem, Sources};
use crate::hints::Hints;
use crate::read::{Outcome, Reader};
use crate::setting::Setting;
use crate::variables::Expansion;

/// The maximum size of a file: enough for thousands of sites. A device such as `/dev/zero` has no end.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The files of a configuration, and what is wrong in them.
pub struct Files {
    /// The files that could be read.
    pub sources: Sources,
    /// All problems found so far, in all files.
    pub problems: Vec<Problem>,
    /// The locations of invalid values, which were skipped, in all files.
    pub invalid: Vec<Location>,
    hints: &'static dyn Hints,
}

impl Files {
    /// Reads no file yet.
    #[must_use]
    pub fn new(hints: &'static dyn Hints) -> Self {
        Self { sources: Sources::default(), problems: Vec::new(), invalid: Vec::new(), hints }
    }

    /// Reads a file into a `T`, with environment variables expanded. Invalid values are skipped, so that all problems are reported
    /// at once. `None` if the file cannot be read or is not TOML, and no `T` if the file as a whole is invalid.
    pub fn read<T: Setting>(&mut self, path: &Path) -> Option<(Location, Option<T>)> {
        let name = path.display().to_string();
        let text = match read_text(path) {
            Ok(text) => text,
            Err(why) => {
                self.problems.push(Problem::value(&Location::none(), format!("cannot read {name}: {why}")));
                return None;
            }
        };
        let number = self.sources.add(name, text.clone());
        let (document, errors) = DeTable::parse_recoverable(&text);
        if !errors.is_empty() {
            // After a syntax error, nothing else in the file is reliable: an unclosed quote changes all that follows.
            match self.hints.other_format(&text) {
                Some(what) => self.problems.push(Problem::span(number, first_line(&text), what)),
                None => self.problems.extend(syntax_errors(number, &text, &errors)),
            }
            return None;
        }
        let (location, mut document) = (Location::file(number), document.into_inner());
        let mut expansion = Expansion {
            lookup: &|name| std::env::var(name).ok(),
            placeholders: &mut self.sources.placeholders,
            problems: &mut self.problems,
            expanded: Vec::new(),
            invalid: Vec::new(),
        };
        expansion.table(&mut document, &location);
        let Expansion { expanded, invalid, .. } = expansion;
        let reader = Reader::new(path.parent().unwrap_or(Path::new("")), self.hints, &expanded, invalid);
        let Outcome { value, problems, invalid } = reader.read(document, &location);
        self.problems.extend(problems);
        self.invalid.extend(invalid);
        Some((location, value))
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("the file is larger than 4 MiB".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        format!("line {line} is not UTF-8")
    })
}

/// The first line that is neither empty nor a comment.
fn first_line(text: &str) -> Range<usize> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = lines.next().unwrap_or_default();
    let start = line.as_ptr().addr() - text.as_ptr().addr();
    start..start + line.len()
}

/// Keeps only the first of several errors in adjacent lines: one mistake, such as an unclosed quote, causes the others.
fn syntax_errors(source: usize, text: &str, errors: &[toml::de::Error]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (mut last_line, mut line, mut end) = (None, 0, 0);
    let mut errors: Vec<_> = errors.iter().map(|error| (error.span().unwrap_or_default(), error)).collect();
    errors.sort_by_key(|(span, _)| span.start);
    for (span, error) in errors {
        line += text.get(end..span.start).unwrap_or_default().matches('\n').count();
        end = span.start;
        if last_line.is_none_or(|last| line > last + 1) {
            problems.push(Problem::span(source, span, error.message()));
        }
        last_line = Some(line);
    }
    problems
}

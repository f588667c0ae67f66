//! Reads the files of one configuration.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::DeTable;

use crate::diagnostics::Problem;
use crate::hints::Hints;
use crate::includes::{Includer, Texts};
use crate::invalid::InvalidValues;
use crate::location::Location;
use crate::read::{Outcome, Reader, Setting};
use crate::sources::Sources;
use crate::text::{first_line, read_text, syntax_errors};
use crate::variables::Expansion;

/// The files of a configuration, and what is wrong in them.
pub struct Files {
    /// The files that could be read.
    pub sources: Sources,
    /// All problems found so far, in all files.
    pub problems: Vec<Problem>,
    /// The locations of invalid values, which were skipped, in all files.
    pub invalid: InvalidValues,
    hints: &'static dyn Hints,
    /// The tables that may include files, as in their headers: `site.route`.
    including: &'static [&'static str],
}

impl Files {
    /// Reads no file yet. The tables `including` may have the key `include`.
    #[must_use]
    pub fn new(hints: &'static dyn Hints, including: &'static [&'static str]) -> Self {
        Self {
            sources: Sources::default(),
            problems: Vec::new(),
            invalid: InvalidValues::default(),
            hints,
            including,
        }
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
        let texts = Texts::default();
        let text = texts.keep(text);
        let number = self.sources.add(name, text.to_owned());
        let (document, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            // After a syntax error, nothing else in the file is reliable: an unclosed quote changes all that follows.
            match self.hints.other_format(text) {
                Some(what) => self.problems.push(Problem::span(number, first_line(text), what)),
                None => self.problems.extend(syntax_errors(number, text, &errors)),
            }
            return None;
        }
        let (location, mut document) = (Location::file(number), document.into_inner());
        let mut includer = Includer {
            texts: &texts,
            read: BTreeMap::new(),
            tables: self.including,
            sources: &mut self.sources,
            problems: &mut self.problems,
            invalid: Vec::new(),
            open: vec![path.canonicalize().unwrap_or_else(|_| path.to_owned())],
        };
        includer.table(&mut document, &location);
        let not_included = includer.invalid;
        let mut expansion = Expansion {
            lookup: &|name| std::env::var(name).ok(),
            placeholders: &mut self.sources.placeholders,
            problems: &mut self.problems,
            expanded: Vec::new(),
            invalid: Vec::new(),
        };
        expansion.table(&mut document, &location);
        let Expansion { expanded, invalid, .. } = expansion;
        let reader = Reader::new(&self.sources, self.hints, &expanded, invalid);
        let Outcome { value, problems, invalid } = reader.read(document, &location);
        self.problems.extend(problems);
        self.invalid.0.extend(invalid.into_iter().chain(not_included));
        Some((location, value))
    }
}

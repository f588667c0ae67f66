//! The files of a configuration, and where values are written in them.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::location::{Location, Mounts};
use crate::placeholders::Placeholders;

/// The files of a configuration, with the spans of their values.
#[derive(Debug, Default)]
pub struct Sources {
    pub(crate) files: Vec<Source>,
    /// Values from the environment, which are not shown.
    pub placeholders: Placeholders,
    /// Where the values of included files are written.
    pub(crate) mounts: Mounts,
    /// Where the values are that a table without them has from another one.
    inherited: Mounts,
}

/// A configuration file.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path, for display.
    pub(crate) name: String,
    /// The text.
    pub(crate) text: String,
    /// The span of each value, by its pointer: `site.0.hosts`. Found when a place is shown: most files have no problem.
    spans: OnceLock<HashMap<String, Spans>>,
    /// Where lines end.
    line_ends: OnceLock<Vec<usize>>,
}

/// The span of a value and of its key.
#[derive(Debug, Clone)]
pub(crate) struct Spans {
    pub(crate) key: Option<Range<usize>>,
    pub(crate) value: Range<usize>,
}

impl Sources {
    /// Adds a file and returns its number.
    pub(crate) fn add(&mut self, name: String, text: String) -> usize {
        self.files.push(Source { name, text, spans: OnceLock::new(), line_ends: OnceLock::new() });
        self.files.len() - 1
    }

    /// The folder of the file in which a value is written.
    pub(crate) fn folder_of(&self, location: &Location) -> &Path {
        let source = self.files.get(self.mounts.origin(location).source);
        source.and_then(|source| Path::new(&source.name).parent()).unwrap_or(Path::new(""))
    }

    /// Notes that a table has a value from another one: its problems are shown there.
    pub fn inherit(&mut self, location: Location, origin: Location) {
        self.inherited.0.insert(location, origin);
    }

    /// Where a value is written, also one that its table has from another one.
    pub(crate) fn origin(&self, location: &Location) -> Location {
        self.mounts.origin(&self.inherited.origin(location)).into_owned()
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|source| source.name.as_ref())
    }

    /// Returns the file and the line of a location, for people. `None` for flags, and for a value that is missing.
    #[must_use]
    pub fn place(&self, location: &Location) -> Option<String> {
        let (source, span) = self.written(location)?;
        Some(format!("{}:{}", source.name, source.line(span.start)))
    }

    /// Whether the value at a location is `false`.
    #[must_use]
    pub fn is_false(&self, location: &Location) -> bool {
        self.written(location).is_some_and(|(source, span)| source.text.get(span) == Some("false"))
    }

    /// The keys, and the elements of lists, that tables have from included files.
    pub fn included(&self) -> impl Iterator<Item = &Location> {
        self.mounts.0.keys()
    }

    /// The file in which a value is written, and its span.
    fn written(&self, location: &Location) -> Option<(&Source, Range<usize>)> {
        let location = self.mounts.origin(location);
        let source = self.files.get(location.source)?;
        Some((source, source.spans().get(&location.pointer)?.value.clone()))
    }
}

impl Source {
    pub(crate) fn spans(&self) -> &HashMap<String, Spans> {
        self.spans.get_or_init(|| {
            let (document, _) = DeTable::parse_recoverable(&self.text);
            let mut spans = HashMap::new();
            record_table(&mut spans, document.get_ref(), &Location::file(0));
            spans
        })
    }

    /// Returns the number of the line of a position.
    fn line(&self, position: usize) -> usize {
        let line_ends =
            self.line_ends.get_or_init(|| self.text.match_indices('\n').map(|(at, _)| at).collect());
        line_ends.partition_point(|end| *end < position) + 1
    }
}

fn record_table(spans: &mut HashMap<String, Spans>, table: &DeTable<'_>, location: &Location) {
    for (key, value) in table {
        record_value(spans, Some(key.span()), value, &location.key(key.get_ref()));
    }
}

fn record_value(
    spans: &mut HashMap<String, Spans>,
    key: Option<Range<usize>>,
    value: &Spanned<DeValue<'_>>,
    location: &Location,
) {
    spans.insert(location.pointer.clone(), Spans { key, value: value.span() });
    match value.get_ref() {
        DeValue::Table(table) => record_table(spans, table, location),
        DeValue::Array(array) => {
            for (index, value) in array.iter().enumerate() {
                record_value(spans, None, value, &location.index(index));
            }
        }
        _ => {}
    }
}

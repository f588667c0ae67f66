//! What is wrong with a configuration: all of it at once, each with its file, its line and what was expected.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::hints::nearest;
use super::variables::Placeholders;

/// The files that make up one configuration, with where each value stands in them.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: Vec<Source>,
    /// What came from the environment, and is not shown.
    pub(crate) placeholders: Placeholders,
}

/// One file.
#[derive(Debug)]
pub(super) struct Source {
    /// Its path, as it is shown.
    pub(super) name: String,
    /// Its text.
    pub(super) text: String,
    /// Where each value stands, by its pointer: `site.0.hosts`.
    pub(super) spans: HashMap<String, Spans>,
}

/// Where a value stands, and the key that names it.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    pub(super) key: Option<Range<usize>>,
    pub(super) value: Range<usize>,
}

impl Sources {
    /// Adds a file; the answer is its number.
    pub(super) fn add(&mut self, name: String, text: String) -> usize {
        self.files.push(Source { name, text, spans: HashMap::new() });
        self.files.len() - 1
    }

    /// The paths of the files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &std::path::Path> {
        self.files.iter().map(|source| source.name.as_ref())
    }

    /// Notes where each value of a file stands.
    pub(super) fn note(&mut self, number: usize, table: &DeTable<'_>) {
        if let Some(source) = self.files.get_mut(number) {
            source.note_table(table, &Location::file(number));
        }
    }
}

impl Source {
    fn note_table(&mut self, table: &DeTable<'_>, location: &Location) {
        for (key, value) in table {
            self.note_value(Some(key.span()), value, &location.key(key.get_ref()));
        }
    }

    fn note_value(&mut self, key: Option<Range<usize>>, value: &Spanned<DeValue<'_>>, location: &Location) {
        self.spans.insert(location.pointer.clone(), Spans { key, value: value.span() });
        match value.get_ref() {
            DeValue::Table(table) => self.note_table(table, location),
            DeValue::Array(array) => {
                for (index, value) in array.iter().enumerate() {
                    self.note_value(None, value, &location.index(index));
                }
            }
            _ => {}
        }
    }
}

/// Names a value of a configuration file, whether it is there or not: the file and the keys that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    source: usize,
    pointer: String,
}

impl Location {
    /// The whole file.
    pub(crate) fn file(source: usize) -> Self {
        Self { source, pointer: String::new() }
    }

    /// No file: a configuration made from flags.
    pub(crate) fn none() -> Self {
        Self::file(usize::MAX)
    }

    /// The value of a key in it.
    pub(crate) fn key(&self, key: &str) -> Self {
        let dot = if self.pointer.is_empty() { "" } else { "." };
        Self { source: self.source, pointer: format!("{}{dot}{key}", self.pointer) }
    }

    /// An element of it.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.key(&index.to_string())
    }

    /// Whether it is `other` or inside of it.
    pub(super) fn is_in(&self, other: &Self) -> bool {
        let rest = self.pointer.strip_prefix(&other.pointer);
        self.source == other.source
            && rest.is_some_and(|rest| rest.is_empty() || other.pointer.is_empty() || rest.starts_with('.'))
    }

    /// Whether it is a key of the same table, probably meant to be `other`.
    pub(super) fn is_near(&self, other: &Self) -> bool {
        let key = |location: &Self| location.pointer.rsplit('.').next().unwrap_or_default().to_owned();
        self.parent() == other.parent() && nearest(&key(self), [key(other).as_str()].into_iter()).is_some()
    }

    /// The keys that lead to it, as they stand in the header of a table: `site.route`.
    pub(super) fn keys(&self) -> String {
        let keys: Vec<_> = self.pointer.split('.').filter(|key| key.parse::<usize>().is_err()).collect();
        keys.join(".")
    }

    /// The table or list that it is in; nothing for a file.
    pub(super) fn parent(&self) -> Option<Self> {
        let pointer = self.pointer.rsplit_once('.').map_or("", |(parent, _)| parent).to_owned();
        (!self.pointer.is_empty()).then_some(Self { source: self.source, pointer })
    }

    /// As text, for [`Self::from_text`].
    pub(super) fn to_text(&self) -> String {
        format!("{} {}", self.source, self.pointer)
    }

    /// Reads what [`Self::to_text`] has written; nowhere for other text.
    pub(super) fn from_text(text: &str) -> Self {
        let parts = text.split_once(' ').and_then(|(source, pointer)| Some((source.parse().ok()?, pointer)));
        parts.map_or_else(Self::none, |(source, pointer)| Self { source, pointer: pointer.to_owned() })
    }
}

/// One thing that is wrong, or worth saying.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    title: String,
    at: At,
    label: String,
    also: Option<(Location, String)>,
    help: Option<String>,
    /// What it follows from, if one of these is wrong.
    causes: Vec<Location>,
}

#[derive(Debug, Clone)]
enum At {
    Value(Location),
    Key(Location),
    Span(usize, Range<usize>),
}

impl Problem {
    /// About a value. `title` is what is wrong.
    pub(crate) fn value(location: &Location, title: impl Into<String>) -> Self {
        Self::new(At::Value(location.clone()), title)
    }

    /// About a key, whatever its value.
    pub(crate) fn key(location: &Location, title: impl Into<String>) -> Self {
        Self::new(At::Key(location.clone()), title)
    }

    /// About a piece of a file's text.
    pub(super) fn span(source: usize, span: Range<usize>, title: impl Into<String>) -> Self {
        Self::new(At::Span(source, span), title)
    }

    fn new(at: At, title: impl Into<String>) -> Self {
        Self {
            title: visible(&title.into()),
            at,
            label: String::new(),
            also: None,
            help: None,
            causes: Vec::new(),
        }
    }

    /// Without values that came from the environment.
    fn masked(self, placeholders: &Placeholders) -> Self {
        let mask = |text: String| placeholders.mask(&text).into_owned();
        Self {
            title: mask(self.title),
            label: mask(self.label),
            also: self.also.map(|(location, label)| (location, mask(label))),
            help: self.help.map(mask),
            at: self.at,
            causes: self.causes,
        }
    }

    /// What was expected, written beside the caret.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = visible(&label.into());
        self
    }

    /// Another place that has to do with it.
    pub(crate) fn also(mut self, location: &Location, label: impl Into<String>) -> Self {
        self.also = Some((location.clone(), label.into()));
        self
    }

    /// It is not said if something is wrong at this place.
    pub(crate) fn unless_invalid(mut self, cause: &Location) -> Self {
        self.causes.push(cause.clone());
        self
    }

    /// Whether it follows from what was said of these places.
    pub(super) fn follows_from(&self, wrong: &[Location]) -> bool {
        let is_wrong =
            |cause: &Location| wrong.iter().any(|wrong| wrong.is_in(cause) || wrong.is_near(cause));
        let is_left_out = |about: &Location| wrong.iter().any(|wrong| about.is_in(wrong));
        let (At::Value(about) | At::Key(about)) = &self.at else { return false };
        is_left_out(about) || self.causes.iter().any(is_wrong)
    }

    /// What to do next.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The most problems that are shown: people read no more, and each is looked for in the whole text of its file.
const SHOWN_MAX: usize = 100;

/// Everything that is wrong with a configuration.
#[derive(Debug)]
pub struct Diagnostics {
    sources: Arc<Sources>,
    problems: Vec<Problem>,
}

impl Diagnostics {
    pub(crate) fn new(sources: Arc<Sources>, problems: Vec<Problem>) -> Self {
        let problems = problems.into_iter().map(|problem| problem.masked(&sources.placeholders)).collect();
        Self { sources, problems }
    }

    /// What is wrong by several checks of the same configuration, together.
    pub(crate) fn all<const N: usize>(checks: [Result<(), Self>; N]) -> Result<(), Self> {
        let wrong = checks.into_iter().filter_map(Result::err);
        wrong
            .reduce(|mut all, more| {
                all.problems.extend(more.problems);
                all
            })
            .map_or(Ok(()), Err)
    }

    /// How many things are wrong.
    #[must_use]
    pub fn count(&self) -> usize {
        self.problems.len()
    }

    /// All of them as text for people, in the order of the files, or the first hundred; `colour` is for terminals.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut problems: Vec<_> =
            self.problems.iter().map(|problem| (self.locate(&problem.at), problem)).collect();
        problems.sort_by_key(|(at, _)| at.as_ref().map(|(source, span)| (*source, span.start)));
        let mut text = String::new();
        for (at, problem) in problems.into_iter().take(SHOWN_MAX) {
            text.push_str(&renderer.render(&self.report(at, problem)));
            text.push_str("\n\n");
        }
        let count = self.count();
        let plural = if count == 1 { "" } else { "s" };
        let rest =
            if count > SHOWN_MAX { format!(", the first {SHOWN_MAX} are shown") } else { String::new() };
        text + &format!("{count} error{plural} in the configuration{rest}\n")
    }

    fn report<'a>(&'a self, at: Option<(usize, Range<usize>)>, problem: &'a Problem) -> Vec<Group<'a>> {
        let title = Level::ERROR.primary_title(&problem.title);
        let mut group = match at {
            Some((number, span)) => {
                let source = &self.sources.files[number];
                let mut snippet = Snippet::source(&source.text)
                    .path(&source.name)
                    .annotation(AnnotationKind::Primary.span(span).label(&problem.label));
                let also = problem
                    .also
                    .as_ref()
                    .and_then(|(location, label)| Some((self.locate(&At::Value(location.clone()))?, label)));
                match also {
                    Some(((other, span), label)) if other == number => {
                        snippet = snippet.annotation(AnnotationKind::Context.span(span).label(label));
                        title.element(snippet)
                    }
                    Some(((other, span), label)) => {
                        let other = &self.sources.files[other];
                        title.element(snippet).element(
                            Snippet::source(&other.text)
                                .path(&other.name)
                                .annotation(AnnotationKind::Context.span(span).label(label)),
                        )
                    }
                    None => title.element(snippet),
                }
            }
            None if problem.label.is_empty() => Group::with_title(title),
            None => title.element(Level::NOTE.message(&problem.label)),
        };
        if let Some(help) = &problem.help {
            group = group.element(Level::HELP.message(help));
        }
        vec![group]
    }

    /// Where to draw the caret. A value that is not there is looked for at the table that should hold it.
    fn locate(&self, at: &At) -> Option<(usize, Range<usize>)> {
        let (At::Value(location) | At::Key(location)) = at else {
            let At::Span(source, span) = at else { return None };
            return self.sources.files.get(*source).map(|_| (*source, span.clone()));
        };
        let source = self.sources.files.get(location.source)?;
        let mut pointer = location.pointer.as_str();
        let spans = loop {
            if let Some(spans) = source.spans.get(pointer) {
                break spans;
            }
            match pointer.rsplit_once('.') {
                Some((parent, _)) => pointer = parent,
                None => return Some((location.source, 0..0)),
            }
        };
        let whole = pointer == location.pointer;
        let span = match at {
            At::Key(_) if whole => spans.key.as_ref().unwrap_or(&spans.value),
            _ => &spans.value,
        };
        Some((location.source, span.clone()))
    }
}

/// Escapes control characters: a terminal would obey them, and one of them ends a line. (In the lines of a configuration file,
/// annotate-snippets replaces them.)
pub(crate) fn visible(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

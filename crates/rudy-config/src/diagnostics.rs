//! Diagnostics of a configuration: all problems at once, each with file, line and expected value.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use rudy_units::visible;

use crate::invalid::InvalidValues;
use crate::location::Location;
use crate::sources::Sources;

/// A problem in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    title: String,
    at: Target,
    label: String,
    also: Option<(Location, String)>,
    help: Option<String>,
    /// If a value at one of these locations is invalid, the problem is only a consequence.
    causes: Vec<Location>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Target {
    Value(Location),
    Key(Location),
    Span(usize, Range<usize>),
}

impl Problem {
    /// A problem with a value.
    pub fn value(location: &Location, title: impl Into<String>) -> Self {
        Self::new(Target::Value(location.clone()), title)
    }

    /// A problem with a key.
    pub fn key(location: &Location, title: impl Into<String>) -> Self {
        Self::new(Target::Key(location.clone()), title)
    }

    /// A problem with a range of a file.
    pub(crate) fn span(source: usize, span: Range<usize>, title: impl Into<String>) -> Self {
        Self::new(Target::Span(source, span), title)
    }

    fn new(at: Target, title: impl Into<String>) -> Self {
        Self {
            title: visible(&title.into()),
            at,
            label: String::new(),
            also: None,
            help: None,
            causes: Vec::new(),
        }
    }

    /// Shows where the values are written, and placeholders in place of values from the environment.
    fn shown(self, sources: &Sources) -> Self {
        let mask = |text: String| sources.placeholders.mask(&text).into_owned();
        Self {
            title: mask(self.title),
            label: mask(self.label),
            also: self.also.map(|(location, label)| (sources.origin(&location), mask(label))),
            help: self.help.map(mask),
            at: match self.at {
                Target::Value(location) => Target::Value(sources.origin(&location)),
                Target::Key(location) => Target::Key(sources.origin(&location)),
                span @ Target::Span(..) => span,
            },
            causes: Vec::new(),
        }
    }

    /// Returns the problem on one line, for the log.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}: {}", self.title, self.label)
    }

    /// Sets the text beside the caret: what was expected.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = visible(&label.into());
        self
    }

    /// Adds a related location.
    #[must_use]
    pub fn also(mut self, location: &Location, label: impl Into<String>) -> Self {
        self.also = Some((location.clone(), label.into()));
        self
    }

    /// Suppresses the problem if something at this location is invalid.
    #[must_use]
    pub fn unless_invalid(mut self, cause: &Location) -> Self {
        self.causes.push(cause.clone());
        self
    }

    /// Whether the problem is a consequence of invalid values.
    #[must_use]
    pub fn follows_from(&self, invalid: &InvalidValues, sources: &Sources) -> bool {
        let is_invalid = |cause: &Location| invalid.any_in(cause) || invalid.misspells(cause);
        let (Target::Value(about) | Target::Key(about)) = &self.at else { return false };
        invalid.encloses(about)
            || invalid.encloses(&sources.origin(about))
            || self.causes.iter().any(is_invalid)
    }

    /// Sets the advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The maximum number of problems to show: rendering each one scans its whole file.
const SHOWN_MAX: usize = 100;

/// All problems of a configuration.
#[derive(Debug)]
pub struct Diagnostics {
    sources: Arc<Sources>,
    problems: Vec<Problem>,
}

impl Diagnostics {
    /// Problems in these files. One in a value that several sites have from the same place is shown once.
    #[must_use]
    pub fn new(sources: Arc<Sources>, problems: Vec<Problem>) -> Self {
        let mut problems: Vec<_> = problems.into_iter().map(|problem| problem.shown(&sources)).collect();
        let mut seen = HashSet::new();
        problems.retain(|problem| seen.insert(problem.clone()));
        Self { sources, problems }
    }

    /// Combines the problems of several checks of the same configuration.
    pub fn all<const N: usize>(checks: [Result<(), Self>; N]) -> Result<(), Self> {
        let invalid = checks.into_iter().filter_map(Result::err);
        invalid
            .reduce(|mut all, more| {
                all.problems.extend(more.problems);
                all
            })
            .map_or(Ok(()), Err)
    }

    /// Splits off the problems about files that do not exist, as their titles.
    #[must_use]
    pub fn split_missing_files(mut self) -> (Vec<String>, Self) {
        let says_so = |text: &str| text.contains("No such file or directory");
        let is_missing = |problem: &Problem| says_so(&problem.title) || says_so(&problem.label);
        let missing = self.problems.extract_if(.., |problem| is_missing(problem));
        let titles = missing.map(|problem| problem.title).collect();
        (titles, self)
    }

    /// The number of problems.
    #[must_use]
    pub fn count(&self) -> usize {
        self.problems.len()
    }

    /// Renders the first hundred problems in file order; `colour` is for terminals.
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
                let also = problem.also.as_ref().and_then(|(location, label)| {
                    Some((self.locate(&Target::Value(location.clone()))?, label))
                });
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

    /// Returns the span of the caret. For a missing value, it is the table that should contain the value.
    fn locate(&self, at: &Target) -> Option<(usize, Range<usize>)> {
        let (Target::Value(location) | Target::Key(location)) = at else {
            let Target::Span(source, span) = at else { return None };
            return self.sources.files.get(*source).map(|_| (*source, span.clone()));
        };
        let source = self.sources.files.get(location.source)?;
        let mut pointer = location.pointer.as_str();
        let spans = loop {
            if let Some(spans) = source.spans().get(pointer) {
                break spans;
            }
            match pointer.rsplit_once('.') {
                Some((parent, _)) => pointer = parent,
                None => return Some((location.source, 0..0)),
            }
        };
        let whole = pointer == location.pointer;
        let span = match at {
            Target::Key(_) if whole => spans.key.as_ref().unwrap_or(&spans.value),
            _ => &spans.value,
        };
        Some((location.source, span.clone()))
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

//! The order in which nginx chooses a location, as an order of routes.
//!
//! nginx prefers the location that is exactly the path. Otherwise it looks for the longest prefix: if that has `^~`, it is used. If not, the
//! first regular expression that matches is used, and without one the longest prefix. The first route of Rudy that matches is used. So
//! the routes of prefixes with `^~` come before those of expressions, except for the paths of longer prefixes.

use super::Context;
use super::scope::{Scope, named};
use crate::regexes::{escaped, is_plain, path_pattern, widened};
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// Which requests a route is for.
#[derive(Debug, Clone, Default)]
pub(super) struct Match {
    /// The pattern of the path.
    pub(super) path: String,
    /// A pattern that the path has to match as well.
    pub(super) within: Option<String>,
    /// Patterns of paths that are not meant.
    pub(super) except: Vec<String>,
    /// Other conditions.
    pub(super) conditions: Vec<(String, Value)>,
    /// Conditions that must not be met.
    pub(super) not: Vec<(String, Value)>,
}

impl Match {
    pub(super) fn path(path: impl Into<String>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// A route with these paths and conditions.
    pub(super) fn route(&self) -> Table {
        let mut route = Table::default();
        route.set("path", self.path.as_str());
        let mut when = self.conditions.clone();
        if let Some(within) = &self.within {
            when.insert(0, ("path".to_owned(), within.as_str().into()));
        }
        let mut not: Vec<Value> = self.not.iter().map(|pair| Value::Table(vec![pair.clone()])).collect();
        if !self.except.is_empty() {
            not.insert(0, Value::table([("path", Value::texts(self.except.clone()))]));
        }
        if !not.is_empty() {
            when.push(("not".to_owned(), Value::one_or_many(not)));
        }
        if !when.is_empty() {
            route.set("when", Value::Table(when));
        }
        route
    }

    /// The same, if a regular expression matches as well.
    pub(super) fn and_regex(&self, pattern: &str) -> Self {
        let mut both = self.clone();
        if both.path == "/*" {
            pattern.clone_into(&mut both.path);
        } else {
            let narrower = std::mem::replace(&mut both.path, pattern.to_owned());
            // Of two conditions on the path, the one of the location is narrower.
            both.within = Some(narrower);
        }
        both
    }
}

/// How a location is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Exact(String),
    Prefix { path: String, is_final: bool },
    Regex { expression: String, ignore_case: bool },
    Named,
}

impl Kind {
    pub(super) fn of(location: &Directive) -> Self {
        let (first, second) = (location.arg(0), location.arg(1).to_owned());
        let regex = |ignore_case| Self::Regex { expression: second.clone(), ignore_case };
        match first {
            "=" => Self::Exact(second),
            "^~" => Self::Prefix { path: second, is_final: true },
            "~" => regex(false),
            "~*" => regex(true),
            _ if first.starts_with('@') => Self::Named,
            _ => Self::joined(first),
        }
    }

    /// A modifier may be written without a space.
    fn joined(text: &str) -> Self {
        let regex =
            |expression: &str, ignore_case| Self::Regex { expression: expression.to_owned(), ignore_case };
        if let Some(expression) = text.strip_prefix("~*") {
            regex(expression, true)
        } else if let Some(expression) = text.strip_prefix('~') {
            regex(expression, false)
        } else if let Some(path) = text.strip_prefix("^~") {
            Self::Prefix { path: path.to_owned(), is_final: true }
        } else if let Some(path) = text.strip_prefix('=') {
            Self::Exact(path.to_owned())
        } else {
            Self::Prefix { path: text.to_owned(), is_final: false }
        }
    }
}

/// A location with the requests that nginx chooses it for.
#[derive(Debug, Clone)]
pub(super) struct Chosen<'a> {
    pub(super) location: &'a Directive,
    pub(super) scope: Scope<'a>,
    pub(super) kind: Kind,
    pub(super) matched: Match,
}

/// The locations of a server, in the order of Rudy's routes.
pub(super) fn in_order<'a>(server: &Scope<'a>, context: &mut Context<'_>) -> Vec<Chosen<'a>> {
    let mut level = Level::default();
    level.add(server, None, false);
    if level.regexes.is_empty() {
        // Without expressions, the longest prefix is used in any case.
        for prefix in &mut level.prefixes {
            prefix.is_final = false;
        }
    }
    level.prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.path.len()));
    let mut chosen = level.exact.clone();
    chosen.extend(level.nested_regexes(context));
    chosen.extend(level.prefixes(true));
    for (location, scope, within) in &level.regexes {
        chosen.extend(regex(location, scope, within.clone(), context));
    }
    chosen.extend(level.prefixes(false));
    chosen
}

/// The locations of a server by their kind. Those inside of other locations are among them.
#[derive(Debug, Default)]
struct Level<'a> {
    exact: Vec<Chosen<'a>>,
    prefixes: Vec<Prefix<'a>>,
    /// The expressions of the server.
    regexes: Vec<(&'a Directive, Scope<'a>, Option<String>)>,
    /// Expressions inside of a prefix, which are tried first.
    nested: Vec<(String, &'a Directive, Scope<'a>)>,
}

/// A location with a prefix.
#[derive(Debug)]
struct Prefix<'a> {
    path: String,
    /// Whether expressions outside of it are not tried.
    is_final: bool,
    /// The prefix of the location that it is in.
    outer: Option<String>,
    location: &'a Directive,
    scope: Scope<'a>,
}

impl<'a> Level<'a> {
    fn add(&mut self, scope: &Scope<'a>, prefix: Option<&str>, is_final: bool) {
        for location in named(scope.own(), "location") {
            let inner = scope.inner(location.children());
            match Kind::of(location) {
                Kind::Exact(path) => {
                    let matched = Match::path(exact_pattern(&path));
                    let kind = Kind::Exact(path);
                    self.add(&inner, None, true);
                    self.exact.push(Chosen { location, scope: inner, kind, matched });
                }
                Kind::Prefix { path, is_final: own } => {
                    let is_final = is_final || own;
                    self.add(&inner, Some(&path), is_final);
                    let outer = prefix.map(str::to_owned);
                    self.prefixes.push(Prefix { path, is_final, outer, location, scope: inner });
                }
                Kind::Regex { expression, ignore_case } => {
                    if let Ok(pattern) = path_pattern(&expression, ignore_case) {
                        self.add_inside_regex(&inner, &pattern);
                    }
                    match prefix {
                        Some(prefix) => self.nested.push((prefix.to_owned(), location, inner)),
                        None => self.regexes.push((location, inner, None)),
                    }
                }
                Kind::Named => {}
            }
        }
    }

    /// Locations inside of an expression are tried before it.
    fn add_inside_regex(&mut self, scope: &Scope<'a>, outer: &str) {
        for location in named(scope.own(), "location") {
            let inner = scope.inner(location.children());
            if matches!(Kind::of(location), Kind::Regex { .. }) {
                self.regexes.push((location, inner, Some(outer.to_owned())));
            }
        }
    }

    fn nested_regexes(&self, context: &mut Context<'_>) -> Vec<Chosen<'a>> {
        let mut nested = self.nested.clone();
        nested.sort_by_key(|(prefix, ..)| std::cmp::Reverse(prefix.len()));
        let chosen = nested.iter().filter_map(|(prefix, location, scope)| {
            let within = (prefix != "/").then(|| prefix_pattern(prefix));
            let mut chosen = regex(location, scope, within, context)?;
            chosen.matched.except = self.longer(prefix).collect();
            Some(chosen)
        });
        chosen.collect()
    }

    /// The prefixes with or without `^~`, the longest one first.
    fn prefixes(&self, is_final: bool) -> impl Iterator<Item = Chosen<'a>> {
        self.prefixes.iter().filter(move |prefix| prefix.is_final == is_final).map(|prefix| {
            let mut matched = Match::path(prefix_pattern(&prefix.path));
            if prefix.is_final {
                // For the paths of longer prefixes without `^~`, the expressions are tried.
                let is_inside = |other: &&Prefix<'_>| !other.is_final && other.is_longer_than(&prefix.path);
                let inside = self.prefixes.iter().filter(is_inside);
                matched.except = inside.map(|prefix| prefix_pattern(&prefix.path)).collect();
            }
            let kind = Kind::Prefix { path: prefix.path.clone(), is_final: prefix.is_final };
            Chosen { location: prefix.location, scope: prefix.scope.clone(), kind, matched }
        })
    }

    /// The patterns of longer prefixes that are not in the location with this one.
    fn longer(&self, path: &str) -> impl Iterator<Item = String> {
        let is_other =
            move |prefix: &&Prefix<'_>| prefix.is_longer_than(path) && prefix.outer.as_deref() != Some(path);
        self.prefixes.iter().filter(is_other).map(|prefix| prefix_pattern(&prefix.path))
    }
}

impl Prefix<'_> {
    fn is_longer_than(&self, path: &str) -> bool {
        self.path.starts_with(path) && self.path != path
    }
}

/// A location with an expression; `None` if Rudy does not have the expression.
fn regex<'a>(
    location: &'a Directive,
    scope: &Scope<'a>,
    within: Option<String>,
    context: &mut Context<'_>,
) -> Option<Chosen<'a>> {
    let kind = Kind::of(location);
    let Kind::Regex { expression, ignore_case } = &kind else { return None };
    let closes = super::access::closes(scope);
    let path = match path_pattern(expression, *ignore_case) {
        Ok(path) => path,
        Err(why) if closes => {
            context.ledger.different(location, format!("{why}: more paths are closed"));
            path_pattern(&widened(expression), *ignore_case).unwrap_or_else(|_| "/*".to_owned())
        }
        Err(why) => {
            context.ledger.open(location, format!("{why}: write its route with another pattern"));
            return None;
        }
    };
    let matched = Match { path, within, ..Match::default() };
    Some(Chosen { location, scope: scope.clone(), kind, matched })
}

/// The pattern for one path.
pub(super) fn exact_pattern(path: &str) -> String {
    if is_plain(path) { path.to_owned() } else { format!("regex:^{}$", escaped(path)) }
}

/// The pattern for all paths that begin with a text: `/a` is also the beginning of `/about`.
pub(super) fn prefix_pattern(path: &str) -> String {
    match path {
        "/" | "" => "/*".to_owned(),
        _ if !is_plain(path) => format!("regex:^{}", escaped(path)),
        _ if path.ends_with('/') => format!("{path}**"),
        _ => format!("{path}*/*"),
    }
}

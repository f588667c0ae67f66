//! Steps that a request passes in order, as routes: settings for some of the requests, and handlers that respond to some.
//!
//! Caddy, Apache and `HAProxy` think in such chains. A route of Rudy has one handler and all its settings. So each handler becomes a route,
//! and for each setting that only some of its requests have, one more before it.

use crate::guard::{Guard, covers};
use crate::site::extend;
use crate::toml::{Table, Value};

/// The most conditional settings of a handler: each doubles the routes. What closes comes first.
const CONDITIONS_MAX: usize = 5;

/// A step.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Keys of the routes for these requests. Those of a later step replace those of an earlier one.
    Setting(Guard, Table),
    /// A handler with keys of its own.
    Handler(Guard, Table),
    /// Blocks of which a request passes only the first that is for it.
    Blocks(Vec<(Guard, Vec<Step>)>),
}

impl Step {
    /// A route that rejects requests, because what closes them has no translation.
    pub(crate) fn closed(guard: Guard, why: &str) -> Self {
        let mut table = Table::default();
        table.comment(format!("Closed: {why}"));
        table.set("respond", 403);
        Self::Handler(guard, table)
    }
}

/// The routes of a chain, and the settings that have no handler behind them.
pub(crate) fn routes(steps: &[Step]) -> Vec<Table> {
    let mut routes = Vec::new();
    add(steps, &Guard::default(), Vec::new(), &mut routes);
    prune(routes)
}

/// The most routes of a site.
const ROUTES_MAX: usize = 2000;

type Settings<'a> = Vec<(&'a Guard, &'a Table)>;

fn add<'a>(steps: &'a [Step], outer: &Guard, mut settings: Settings<'a>, routes: &mut Vec<Table>) {
    for (at, step) in steps.iter().enumerate() {
        if routes.len() > ROUTES_MAX {
            return;
        }
        match step {
            Step::Setting(guard, table) => settings.push((guard, table)),
            Step::Handler(guard, table) => {
                let guard = outer.and(guard);
                handler(&guard, table, &settings, routes);
                if outer.implies(&guard) && !passes_on(table) {
                    return;
                }
            }
            Step::Blocks(blocks) => {
                for (guard, inner) in blocks {
                    let both = outer.and(guard);
                    if !outer.is_all() && outer.excludes(guard) {
                        continue;
                    }
                    // What follows is for requests that the block does not respond to.
                    let all: Vec<Step> = inner.iter().chain(&steps[at + 1..]).cloned().collect();
                    let mut inner_routes = Vec::new();
                    block(&all, &both, &settings, &mut inner_routes);
                    routes.append(&mut inner_routes);
                    if outer.implies(&both) {
                        return;
                    }
                }
            }
        }
    }
}

fn block(steps: &[Step], guard: &Guard, settings: &Settings<'_>, routes: &mut Vec<Table>) {
    add(steps, guard, settings.clone(), routes);
}

/// The routes of a handler: the narrow ones first.
fn handler(guard: &Guard, table: &Table, settings: &[(&Guard, &Table)], routes: &mut Vec<Table>) {
    let is_closed = table.get("respond") == Some(&Value::Integer(403));
    let conditional: Vec<&Guard> = if is_closed {
        // What is closed needs no login and no fields.
        Vec::new()
    } else {
        let mut found: Vec<&Guard> = Vec::new();
        for (other, _) in settings {
            if !guard.implies(other) && !guard.excludes(other) && !found.contains(other) {
                found.push(other);
            }
        }
        found
    };
    split(guard, table, settings, &conditional[..conditional.len().min(CONDITIONS_MAX)], routes);
}

fn split(
    guard: &Guard,
    table: &Table,
    settings: &[(&Guard, &Table)],
    conditional: &[&Guard],
    routes: &mut Vec<Table>,
) {
    let Some((first, rest)) = conditional.split_first() else {
        let mut route = guard.route();
        for (other, setting) in settings {
            if guard.implies(other) {
                apply(&mut route, setting);
            }
        }
        apply(&mut route, table);
        routes.push(route);
        return;
    };
    if guard.implies(first) || guard.excludes(first) {
        return split(guard, table, settings, rest, routes);
    }
    // The path of the handler stays that of the route: prefixes are removed by it.
    let both = first.and(guard);
    let narrowed = if guard.path().is_empty() { guard.and(first) } else { both };
    split(&narrowed, table, settings, rest, routes);
    split(guard, table, settings, rest, routes);
}

/// Tables whose keys are joined.
const JOINED: [&str; 3] = ["response_headers", "request_headers", "error_pages"];

/// Sets the keys of a step.
pub(crate) fn apply(route: &mut Table, table: &Table) {
    for comment in &table.comments {
        route.comment(comment.clone());
    }
    for (key, value) in table.keys() {
        match value {
            Value::Table(pairs) if JOINED.contains(&key.as_str()) => extend(route, key, pairs.clone()),
            // Rules that no longer hold.
            Value::Bool(false) if ["access", "basic_auth", "forward_auth"].contains(&key.as_str()) => {
                route.remove(key);
            }
            _ => route.set(key, value.clone()),
        }
    }
}

fn passes_on(route: &Table) -> bool {
    matches!(route.get("files"), Some(Value::Table(keys)) if keys.iter().any(|(key, _)| key == "next_route"))
}

/// Leaves out routes that no request reaches, which Rudy rejects.
fn prune(routes: Vec<Table>) -> Vec<Table> {
    let patterns = |route: &Table| match route.get("path") {
        Some(Value::Text(path)) => vec![path.clone()],
        Some(Value::List(paths)) => {
            let text = |value: &Value| if let Value::Text(text) = value { Some(text.clone()) } else { None };
            paths.iter().filter_map(text).collect()
        }
        _ => Vec::new(),
    };
    // The patterns of earlier routes, with their conditions.
    let mut taken: Vec<(String, Option<Value>)> = Vec::new();
    let mut kept = Vec::new();
    for mut route in routes {
        let mut left = patterns(&route);
        let when = route.get("when").cloned();
        let is_taken = |path: &String| {
            taken.iter().any(|(all, other)| (other.is_none() || *other == when) && covers(all, path))
        };
        left.retain(|path| !is_taken(path));
        if left.is_empty() {
            continue;
        }
        if !passes_on(&route) {
            taken.extend(left.iter().map(|path| (path.clone(), when.clone())));
        }
        let at_path = Value::texts(left);
        route.set("path", at_path);
        kept.push(route);
    }
    kept
}

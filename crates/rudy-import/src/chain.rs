//! Steps that a request passes in order, as routes: settings for some of the requests, and handlers that respond to some.
//!
//! Caddy, Apache and `HAProxy` think in such chains. A route of Rudy has one handler and all its settings. So each handler becomes a route,
//! and for each setting that only some of its requests have, one more before it.

use crate::guard::{Guard, covers};
use crate::site::extend;
use crate::toml::{Table, Value};

/// The most conditional settings of a handler: each doubles the routes. Of further ones, those that close something are for all requests of
/// the handler, and a comment names the others.
const CONDITIONS_MAX: usize = 5;

/// Keys that close something, or limit it.
const CLOSING: [&str; 4] = ["access", "basic_auth", "forward_auth", "body_bytes"];

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
    if routes.len() > ROUTES_MAX {
        routes.truncate(ROUTES_MAX);
        let why = format!(
            "the site has more than {ROUTES_MAX} routes. The rest is not translated: write it with fewer conditions."
        );
        add(&[Step::closed(Guard::default(), &why)], &Guard::default(), Vec::new(), &mut routes);
    }
    prune(routes)
}

/// The most routes of a site. Behind them, everything is closed.
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
    let (split_by, others) = conditional.split_at(conditional.len().min(CONDITIONS_MAX));
    split(&Chain { table, settings, others }, guard, split_by, routes);
}

/// A handler with the settings before it.
struct Chain<'a> {
    table: &'a Table,
    settings: &'a [(&'a Guard, &'a Table)],
    /// Conditions of settings that get no routes of their own.
    others: &'a [&'a Guard],
}

impl Chain<'_> {
    /// The route for these requests.
    fn route(&self, guard: &Guard) -> Table {
        let mut route = guard.route();
        for (other, setting) in self.settings {
            if guard.implies(other) {
                apply(&mut route, setting);
            } else if self.others.contains(other) && !guard.excludes(other) {
                too_many(&mut route, setting);
            }
        }
        apply(&mut route, self.table);
        route
    }
}

/// A setting that is for some of the requests of a route that cannot be divided further.
fn too_many(route: &mut Table, setting: &Table) {
    for (key, value) in setting.keys() {
        if CLOSING.contains(&key.as_str()) && *value != Value::Bool(false) {
            route.comment(format!("`{key}` is for some of these requests in the source. Here it is for all of them: the source has too many conditions."));
            route.set(key, value.clone());
        } else {
            route.comment(format!(
                "Not translated: `{key}` for some of these requests. The source has too many conditions."
            ));
        }
    }
}

fn split(chain: &Chain<'_>, guard: &Guard, conditional: &[&Guard], routes: &mut Vec<Table>) {
    let Some((first, rest)) = conditional.split_first() else {
        routes.push(chain.route(guard));
        return;
    };
    if guard.implies(first) || guard.excludes(first) {
        return split(chain, guard, rest, routes);
    }
    // The path of the handler stays that of the route: prefixes are removed by it.
    let both = first.and(guard);
    let narrowed = if guard.path().is_empty() { guard.and(first) } else { both };
    split(chain, &narrowed, rest, routes);
    split(chain, guard, rest, routes);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Guard {
        Guard::paths([path.to_owned()])
    }

    fn table(key: &str, value: impl Into<Value>) -> Table {
        let mut table = Table::default();
        table.set(key, value);
        table
    }

    #[test]
    fn what_closes_some_requests_is_not_lost_among_many_conditions() {
        let mut steps: Vec<_> = (0..8)
            .map(|number| {
                Step::Setting(at(&format!("/{number}/*")), table("charset", number.to_string().as_str()))
            })
            .collect();
        steps.push(Step::Setting(at("/secret/*"), table("access", "closed")));
        steps.push(Step::Handler(Guard::default(), table("files", ".")));
        let routes = routes(&steps);
        let last = routes.last().unwrap();
        assert_eq!(last.get("path"), Some(&Value::texts(["/*".to_owned()])));
        assert_eq!(last.get("access"), Some(&"closed".into()));
        assert!(last.comments.iter().any(|comment| comment.starts_with("Not translated: `charset`")));
    }

    #[test]
    fn behind_too_many_routes_everything_is_closed() {
        let steps: Vec<_> =
            (0..3000).map(|number| Step::Handler(at(&format!("/{number}")), table("respond", 204))).collect();
        let routes = routes(&steps);
        assert_eq!(routes.len(), ROUTES_MAX + 1);
        assert_eq!(routes[ROUTES_MAX].get("respond"), Some(&Value::Integer(403)));
    }
}

//! A location as routes.

use super::locations::{Chosen, Kind, Match};
use super::scope::{Scope, named};
use super::{Context, access, authorizers, files, limits, messages, proxy, proxy_path, rewrites};
use crate::regexes;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// Directives that respond with programs or protocols that Rudy does not have.
const FOREIGN: [&str; 9] = [
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
    "content_by_lua_block",
    "content_by_lua_file",
    "js_content",
    "perl",
    "empty_gif",
    "proxy_wasm",
];

/// Where a location is, and what is translated from it.
pub(super) struct Place<'a, 's> {
    pub(super) scope: &'s Scope<'a>,
    pub(super) server: &'s Scope<'a>,
    pub(super) matched: Match,
    pub(super) kind: Kind,
}

/// Translates a location.
pub(super) fn routes(chosen: &Chosen<'_>, server: &Scope<'_>, context: &mut Context<'_>) -> Vec<Table> {
    let location = chosen.location;
    context.ledger.translated(location);
    if authorizers::is_authorizer(location, server) {
        mark(location, context);
        return Vec::new();
    }
    context.groups = match &chosen.kind {
        Kind::Regex { expression, .. } => regexes::groups(expression),
        _ => std::collections::BTreeSet::new(),
    };
    let place =
        Place { scope: &chosen.scope, server, matched: chosen.matched.clone(), kind: chosen.kind.clone() };
    let mut routes = all(&place, context);
    for route in &mut routes {
        route.comments.insert(0, format!("{}  {}", location.place, location.summary()));
    }
    routes
}

/// The routes for all paths that no location has.
pub(super) fn rest(server: &Scope<'_>, context: &mut Context<'_>) -> Vec<Table> {
    let kind = Kind::Prefix { path: "/".to_owned(), is_final: false };
    let place = Place { scope: server, server, matched: Match::path("/*"), kind };
    let routes = content(&place, context);
    finished(routes, &place, context)
}

/// Rewrites and conditions, then the content.
fn all(place: &Place<'_, '_>, context: &mut Context<'_>) -> Vec<Table> {
    let phase = rewrites::phase(place.scope, &place.matched, place.server, context);
    let mut routes = phase.routes;
    for folder in phase.folders {
        routes.extend(inside(&folder, place, context));
    }
    if !phase.is_complete {
        routes.extend(content(place, context));
    }
    finished(routes, place, context)
}

/// The content for paths that `rewrite ... break` has changed: they are in a folder of their own, which clients cannot request.
fn inside(folder: &str, place: &Place<'_, '_>, context: &mut Context<'_>) -> Vec<Table> {
    let inner = Place {
        scope: place.scope,
        server: place.server,
        matched: Match::path(format!("{folder}/*")),
        kind: Kind::Prefix { path: format!("{folder}/"), is_final: true },
    };
    let mut routes = content(&inner, context);
    for route in &mut routes {
        route.set("internal", true);
        proxy_path::strip(route);
    }
    routes
}

/// The routes of a named location, for the same requests as another one.
pub(super) fn named_location(
    name: &str,
    place: &Place<'_, '_>,
    context: &mut Context<'_>,
) -> Option<Vec<Table>> {
    let location = named(place.server.own(), "location").find(|location| location.arg(0) == name)?;
    context.ledger.translated(location);
    let scope = place.server.inner(location.children());
    let inner =
        Place { scope: &scope, server: place.server, matched: place.matched.clone(), kind: Kind::Named };
    let mut routes = all(&inner, context);
    for route in &mut routes {
        route.comments.insert(0, format!("{}  {}", location.place, location.summary()));
    }
    Some(routes)
}

fn content(place: &Place<'_, '_>, context: &mut Context<'_>) -> Vec<Table> {
    let own = |name: &str| place.scope.own().iter().find(|directive| directive.name == name);
    if let Some(pass) = own("proxy_pass").or_else(|| own("grpc_pass")) {
        let files = files::before_application(place, context);
        return files.into_iter().chain(proxy::routes(pass, place, context)).collect();
    }
    if let Some(pass) = own("fastcgi_pass") {
        return vec![super::fastcgi::route(pass, place, context)];
    }
    if let Some(status) = own("stub_status") {
        context.ledger.different(status, "`status` shows the counters as JSON, and `metrics` for Prometheus");
        let mut route = place.matched.route();
        route.set("status", Value::table([("allow", "anyone".into())]));
        return vec![route];
    }
    if let Some(foreign) = FOREIGN.iter().find_map(|name| own(name)) {
        return vec![unavailable(place, &format!("{} has no translation.", foreign.summary()))];
    }
    files::routes(place, context)
}

/// A route that responds with an error instead of what has no translation, so that no other route gets its requests.
pub(super) fn unavailable(place: &Place<'_, '_>, why: &str) -> Table {
    let mut route = place.matched.route();
    route.comment(why);
    route.set("respond", 503);
    route
}

/// Adds the settings of the location to its routes.
fn finished(mut routes: Vec<Table>, place: &Place<'_, '_>, context: &mut Context<'_>) -> Vec<Table> {
    for route in routes.iter_mut().filter(|route| !route.is_done) {
        messages::apply(route, place.scope, context);
        limits::apply(route, place.scope, context);
    }
    let mut routes = access::apply(routes, place, context);
    for route in &mut routes {
        route.is_done = true;
    }
    routes
}

/// Gives a location and all in it a verdict: it is a part of something else.
fn mark(directive: &Directive, context: &mut Context<'_>) {
    context.ledger.translated(directive);
    directive.children().iter().for_each(|inner| mark(inner, context));
}

//! The path that an upstream gets: that of the client, or with another beginning.

use super::locations::{Kind, Match};
use super::proxy::Url;
use super::route::Place;
use super::text::{Use, translate};
use super::{Context, messages};
use crate::regexes::is_plain;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// The routes with the path that the upstream gets. The last one has the proxy.
pub(super) fn path(
    url: &Url,
    pass: &Directive,
    place: &Place<'_, '_>,
    keys: &mut Vec<(String, Value)>,
    context: &mut Context<'_>,
) -> Vec<Table> {
    let mut routes = Vec::new();
    let mut matched = place.matched.clone();
    slash(place, &mut routes, context);
    let uri = url.uri.as_deref().filter(|uri| {
        let is_same = ["${request_uri}", "${uri}{query}", "${uri}"].contains(uri);
        !is_same && (!url.is_variable || *uri != "{query}")
    });
    match (uri, &place.kind) {
        (None, _) => {}
        (Some(uri), _) if url.is_variable => {
            if uri != "/" {
                return through_folder(uri, pass, place, keys, routes, context);
            }
            context
                .ledger
                .different(pass, "with a variable, nginx requests only /; here the path is passed on");
        }
        (Some(uri), Kind::Prefix { path, .. }) if path == uri => {}
        (Some(uri), Kind::Prefix { path, .. })
            if is_plain(path)
                && !uri.contains('?')
                && (path.ends_with('/') == uri.ends_with('/') || uri == "/") =>
        {
            replace_prefix(path, uri, pass, &mut matched, keys, context);
        }
        (Some(uri), Kind::Prefix { path, .. }) => {
            let rest = format!("{uri}${{1}}");
            let expression = format!("^{}(.*)$", crate::regexes::escaped(path));
            let narrowed = Place {
                scope: place.scope,
                server: place.server,
                matched: Match { path: format!("regex:{expression}"), within: None, ..matched },
                kind: place.kind.clone(),
            };
            return through_folder(&rest, pass, &narrowed, keys, routes, context);
        }
        (Some(uri), Kind::Exact(path)) if path == uri => {}
        (Some(uri), _) => return through_folder(uri, pass, place, keys, routes, context),
    }
    routes.push(matched.route());
    routes
}

/// nginx redirects the path of a folder without its slash, if the folder is an application.
fn slash(place: &Place<'_, '_>, routes: &mut Vec<Table>, context: &mut Context<'_>) {
    let Kind::Prefix { path, .. } = &place.kind else { return };
    let Some(folder) = path.strip_suffix('/').filter(|folder| !folder.is_empty() && is_plain(folder)) else {
        return;
    };
    if context.paths.contains(folder) || folder.starts_with("/_import/") {
        return;
    }
    let mut route = Match::path(folder).route();
    route.set(
        "redirect",
        Value::table([("to", format!("{path}{{query}}").into()), ("status", 301_u64.into())]),
    );
    messages::apply(&mut route, place.scope, context);
    route.is_done = true;
    routes.push(route);
}

fn replace_prefix(
    path: &str,
    uri: &str,
    pass: &Directive,
    matched: &mut Match,
    keys: &mut Vec<(String, Value)>,
    context: &mut Context<'_>,
) {
    if path != "/" {
        let folder = path.trim_end_matches('/');
        matched.path = format!("{folder}/*");
        if path.ends_with('/') && context.paths.contains(folder) {
            matched.except.push(folder.to_owned());
        }
        keys.push(("strip_prefix".to_owned(), true.into()));
        if !path.ends_with('/') {
            context.ledger.different(pass, format!("only paths below {path}/ are passed on, with one slash"));
        }
    }
    if uri != "/" {
        keys.push(("add_prefix".to_owned(), uri.trim_end_matches('/').into()));
    }
    keys.push(("rewrite_location".to_owned(), true.into()));
}

/// A path that is more than a prefix: the site rewrites it into a folder of its own, and the proxy removes the folder.
fn through_folder(
    uri: &str,
    pass: &Directive,
    place: &Place<'_, '_>,
    keys: &mut Vec<(String, Value)>,
    mut routes: Vec<Table>,
    context: &mut Context<'_>,
) -> Vec<Table> {
    let folder = context.folder();
    match translate(&uri.replace("{query}", "${is_args}${args}"), Use::Target, place.scope, context) {
        Ok(to) => {
            let to = to.strip_suffix("{query}").filter(|to| !to.contains('?')).unwrap_or(&to).to_owned();
            let mut matched = place.matched.clone();
            if matched.path.starts_with("regex:") {
                matched.except.push(super::rewrites::INTERNAL.to_owned());
            }
            let mut route = matched.route();
            route.set("rewrite", format!("{folder}{to}"));
            routes.push(route);
            let mut inner = Match::path(format!("{folder}/*")).route();
            inner.set("internal", true);
            keys.push(("strip_prefix".to_owned(), true.into()));
            routes.push(inner);
        }
        Err(why) => {
            context.ledger.open(pass, format!("{why}: write the route by hand"));
            routes.push(place.matched.route());
        }
    }
    routes
}

/// Removes the folder of a route from the path that its upstream gets.
pub(super) fn strip(route: &mut Table) {
    let keys = match route.remove("proxy") {
        Some(Value::Table(mut keys)) => {
            keys.retain(|(key, _)| key != "strip_prefix");
            keys.push(("strip_prefix".to_owned(), true.into()));
            keys
        }
        Some(upstreams) => {
            vec![("upstreams".to_owned(), upstreams), ("strip_prefix".to_owned(), true.into())]
        }
        None => return,
    };
    route.set("proxy", Value::Table(keys));
}

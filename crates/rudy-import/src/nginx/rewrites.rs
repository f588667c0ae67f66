//! `return`, `rewrite` and `if`, which nginx executes in order before it looks for the content.

use super::conditions;
use super::locations::Match;
use super::scope::Scope;
use super::text::{Part, Use, parts, substitute, translate};
use super::{Context, files, messages};
use crate::regexes::path_pattern;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// What a block has before its content.
#[derive(Debug, Default)]
pub(super) struct Phase {
    pub(super) routes: Vec<Table>,
    /// Folders for paths that are changed for the content of this block only.
    pub(super) folders: Vec<String>,
    /// Whether the block has no content: all requests have been responded to.
    pub(super) is_complete: bool,
}

/// Translates the directives of a block in their order.
pub(super) fn phase(
    scope: &Scope<'_>,
    matched: &Match,
    server: &Scope<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let mut phase = Phase::default();
    let is_server = std::ptr::eq(scope, server);
    for directive in scope.own() {
        match directive.name.as_str() {
            "return" => {
                phase.routes.push(respond(directive, matched, scope, context));
                phase.is_complete = true;
            }
            "rewrite" => rewrite(directive, matched, scope, is_server, &mut phase, context),
            "if" if !files::is_front_controller(directive) => {
                condition(directive, matched, scope, is_server, &mut phase, context);
            }
            _ => {}
        }
        if phase.is_complete {
            break;
        }
    }
    for route in phase.routes.iter_mut().filter(|route| !route.is_done) {
        messages::apply(route, scope, context);
        route.is_done = true;
    }
    phase
}

/// A `return` as a redirect or a fixed response.
fn respond(directive: &Directive, matched: &Match, scope: &Scope<'_>, context: &mut Context<'_>) -> Table {
    let (status, text) = match (directive.arg(0).parse::<u64>(), directive.args.get(1)) {
        (Ok(status), text) => (status, text.cloned()),
        (Err(_), _) => (302, Some(directive.arg(0).to_owned())),
    };
    context.ledger.translated(directive);
    let mut route = matched.route();
    match (status, text) {
        (301 | 302 | 303 | 307 | 308, Some(to)) => match target(&to, scope, context) {
            Ok(to) => route.set("redirect", Value::table([("to", to.into()), ("status", status.into())])),
            Err(why) => return unavailable(route, directive, &why, context),
        },
        (200..=599, None) => route.set("respond", status),
        (200..=599, Some(body)) => {
            let body = substitute(&body, scope);
            if parts(&body).iter().any(|part| matches!(part, Part::Variable(_))) {
                return unavailable(route, directive, "a fixed body has no placeholders", context);
            }
            let mut keys = vec![("status", status.into()), ("body", body.into())];
            if let Some(kind) = scope.find("default_type") {
                context.ledger.translated(kind);
                keys.push(("headers", Value::table([("Content-Type", kind.arg(0).into())])));
            }
            route.set("respond", Value::table(keys));
        }
        _ => return unavailable(route, directive, "Rudy responds with a status from 200 to 599", context),
    }
    route
}

/// A route that responds with an error, so that no other route gets its requests.
fn unavailable(mut route: Table, directive: &Directive, why: &str, context: &mut Context<'_>) -> Table {
    context.ledger.open(directive, format!("{why}: write the route by hand"));
    route.comment(format!("{}  {}: {why}", directive.place, directive.summary()));
    route.set("respond", 503);
    route
}

/// The target of a redirect. One to the same host is a path.
fn target(text: &str, scope: &Scope<'_>, context: &mut Context<'_>) -> Result<String, String> {
    let mut text = substitute(text, scope);
    for host in ["${host}", "${http_host}", "${server_name}"] {
        for port in [":${server_port}", ""] {
            let origin = format!("${{scheme}}://{host}{port}");
            if let Some(rest) = text.strip_prefix(&origin)
                && (rest.starts_with('/') || rest.starts_with("${request_uri}") || rest.starts_with("${uri}"))
            {
                text = rest.to_owned();
            }
        }
    }
    if let Some(rest) = text.strip_prefix("${scheme}://") {
        let is_tls = context.ports.iter().any(|(_, tls)| *tls);
        text = format!("{}://{rest}", if is_tls { "https" } else { "http" });
    }
    let to = translate(&text, Use::Target, scope, context)?;
    let host = to.split_once("://").map(|(_, rest)| {
        let end = ["/", "?", "{path}", "{query}"].iter().filter_map(|end| rest.find(end)).min();
        &rest[..end.unwrap_or(rest.len())]
    });
    match host {
        Some(host)
            if host
                .replace("{host}", "")
                .trim_end_matches(|c: char| c == ':' || c.is_ascii_digit())
                .ends_with('}') =>
        {
            Err("a placeholder would decide about the domain of the target".to_owned())
        }
        None if !to.starts_with('/') && !to.starts_with("{path}") => Err("the target is no URL".to_owned()),
        _ => Ok(to),
    }
}

/// A `rewrite` as a route with the expression.
fn rewrite(
    directive: &Directive,
    matched: &Match,
    scope: &Scope<'_>,
    is_server: bool,
    phase: &mut Phase,
    context: &mut Context<'_>,
) {
    context.ledger.translated(directive);
    let (expression, to) = leading_slash(directive.arg(0), directive.arg(1));
    let route = path_pattern(&expression, false).and_then(|pattern| {
        let (to, flag) = (to.as_str(), directive.arg(2));
        let matched = matched.and_regex(&pattern);
        let is_redirect = ["permanent", "redirect"].contains(&flag)
            || ["http://", "https://", "$scheme"].iter().any(|start| to.starts_with(start));
        if is_redirect {
            let status = if flag == "permanent" { 301_u64 } else { 302 };
            let to = with_query(&target(to.trim_end_matches('?'), scope, context)?, to);
            let mut route = matched.route();
            route.set("redirect", Value::table([("to", to.into()), ("status", status.into())]));
            return Ok(route);
        }
        let to = new_path(to, scope, context)?;
        let folder = (flag == "break" && !is_server).then(|| context.folder());
        let mut matched = matched;
        if folder.is_some() {
            matched.except.push(INTERNAL.to_owned());
        }
        let mut route = matched.route();
        route.set("rewrite", format!("{}{to}", folder.as_deref().unwrap_or_default()));
        phase.folders.extend(folder);
        Ok(route)
    });
    match route {
        Ok(mut route) => {
            route.comment(format!("{}  {}", directive.place, directive.summary()));
            phase.routes.push(route);
        }
        Err(why) => context.ledger.open(directive, format!("{why}: write the route by hand")),
    }
}

/// Moves the slash at the start of a first group, with which the new path begins, out of it.
fn leading_slash(expression: &str, to: &str) -> (String, String) {
    if to.starts_with("$1") {
        for (start, with) in [("^(/", "^/("), ("^(.*)", "^/(.*)"), ("^(.+)", "^/(.*)"), ("(.*)", "^/(.*)")] {
            if let Some(rest) =
                expression.strip_prefix(start).filter(|rest| !rest.starts_with(['?', '*', '+', '|']))
            {
                return (format!("{with}{rest}"), format!("/{to}"));
            }
        }
    }
    // The group of `^/app(.*)$` is the rest of the path: with its slash, or empty.
    match expression.split_once('(') {
        Some((start, rest)) if to.starts_with("$1") && rest.starts_with(".*)") && start.starts_with("^/") => {
            let start = start.trim_end_matches('/');
            (format!("{start}(/.*)?{}", &rest[3..]), to.to_owned())
        }
        _ => (expression.to_owned(), to.to_owned()),
    }
}

/// The new path of a rewrite. nginx adds the query of the request to that of the path.
fn new_path(to: &str, scope: &Scope<'_>, context: &mut Context<'_>) -> Result<String, String> {
    let path = translate(to.trim_end_matches('?'), Use::Target, scope, context)?;
    if !path.starts_with(['/', '{']) {
        return Err("the new path does not begin with a slash".to_owned());
    }
    let keeps = path.contains('?') && !to.ends_with('?') && !path.contains("{query}");
    Ok(if keeps { path + "{query}" } else { path })
}

/// Adds the query of the request to a target, unless the text ends with a question mark.
fn with_query(to: &str, text: &str) -> String {
    if text.ends_with('?') || to.contains("{query}") { to.to_owned() } else { format!("{to}{{query}}") }
}

/// An `if` as routes with conditions.
fn condition(
    directive: &Directive,
    matched: &Match,
    scope: &Scope<'_>,
    is_server: bool,
    phase: &mut Phase,
    context: &mut Context<'_>,
) {
    let inner = scope.inner(directive.children());
    let closes = directive.children().iter().any(conditions::is_rejection);
    let is_simple = |directive: &Directive| {
        ["return", "rewrite", "break", "add_header"].contains(&directive.name.as_str())
    };
    let has_end =
        directive.children().iter().any(|child| ["return", "rewrite"].contains(&child.name.as_str()));
    if conditions::is_script_check(directive) {
        context.ledger.translated(directive);
        context.ledger.all_translated(directive.children());
        return;
    }
    if let Some(file) = conditions::maintenance_file(directive, scope) {
        context.ledger.translated(directive);
        context.ledger.all_translated(directive.children());
        context.maintenance = Some(file);
        return;
    }
    let is_all_simple = directive.children().iter().all(is_simple);
    let condition = if is_all_simple && has_end {
        conditions::add(directive, matched)
    } else {
        Err("this block sets variables, or has content of its own".to_owned())
    };
    let not_allowed =
        directive.children().iter().any(|child| child.arg(0).starts_with('2')) && condition.is_ok();
    match condition {
        Ok(_) if not_allowed && conditions::is_about_methods(directive) => {
            context
                .ledger
                .open(directive, "write `cors` (docs/access.md#cors), which responds to preflight requests");
            directive
                .children()
                .iter()
                .for_each(|child| context.ledger.open(child, "it belongs to this `if`"));
        }
        Ok(matched) => {
            context.ledger.translated(directive);
            conditional(directive, &matched, &inner, is_server, phase, context);
        }
        Err(why) => {
            let advice = format!("{why}: write a route with `when`");
            if closes {
                context.ledger.unprotected(directive, advice);
            } else {
                context.ledger.open(directive, advice);
            }
            directive
                .children()
                .iter()
                .for_each(|child| context.ledger.open(child, "it belongs to this `if`"));
        }
    }
}

/// The routes of a block whose condition is translated.
fn conditional(
    directive: &Directive,
    matched: &Match,
    inner: &Scope<'_>,
    is_server: bool,
    phase: &mut Phase,
    context: &mut Context<'_>,
) {
    let mut own = Phase::default();
    for child in directive.children() {
        match child.name.as_str() {
            "return" => own.routes.push(respond(child, matched, inner, context)),
            "rewrite" => rewrite(child, matched, inner, is_server, &mut own, context),
            _ => {}
        }
    }
    for route in &mut own.routes {
        route.comment(format!("{}  {}", directive.place, directive.summary()));
        messages::apply(route, inner, context);
        route.is_done = true;
    }
    phase.routes.extend(own.routes);
    phase.folders.extend(own.folders);
}

/// The paths that only rewrites lead to.
pub(super) const INTERNAL: &str = "/_import/*";

impl Context<'_> {
    /// A folder of the site for internal rewrites.
    pub(super) fn folder(&mut self) -> String {
        self.internal += 1;
        format!("/_import/{}", self.internal)
    }
}

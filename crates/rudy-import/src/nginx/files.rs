//! Static files: `root`, `alias`, `index`, `autoindex` and `try_files`.

use super::Context;
use super::locations::Kind;
use super::route::{Place, named_location};
use super::scope::Scope;
use super::text::{Use, substitute, translate};
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// The routes of a location without an application.
pub(super) fn routes(place: &Place<'_, '_>, context: &mut Context<'_>) -> Vec<Table> {
    let Some((mut route, root, tried_below)) = folder(place, context) else {
        let mut route = place.matched.route();
        route.comment("It has no folder.");
        if let Some(tried) = place.scope.own().iter().find(|directive| directive.name == "try_files") {
            context.ledger.open(tried, "the folder is not in the imported files: write `files`");
        }
        route.set("respond", 404);
        return vec![route];
    };
    let mut keys = vec![("root".to_owned(), root.into())];
    index(&mut keys, place.scope, context);
    let tries = match tried_below {
        Some(file) => Tries { entries: vec![file], ..Tries::default() },
        None => tries(place, context),
    };
    if tries.entries.iter().any(|entry| entry != "{path}") {
        keys.push(("try_files".to_owned(), Value::texts(tries.entries.clone())));
    }
    let next = tries.next(place, context);
    if !next.is_empty() {
        keys.push(("next_route".to_owned(), true.into()));
    }
    let files = if keys.len() == 1 { keys.remove(0).1 } else { Value::Table(keys) };
    route.set("files", files);
    std::iter::once(route).chain(next).collect()
}

/// The files in front of an application: `try_files` in the same location as `proxy_pass`.
pub(super) fn before_application(place: &Place<'_, '_>, context: &mut Context<'_>) -> Option<Table> {
    let tried = place.scope.own().iter().find(|directive| directive.name == "try_files")?;
    let (mut route, root, _) = folder(place, context)?;
    context.ledger.translated(tried);
    let keys = [("root", root.into()), ("next_route", true.into())];
    route.set("files", Value::table(keys));
    Some(route)
}

/// The route, its folder, and the only file that is tried, if `alias` names one.
type Folder = (Table, String, Option<String>);

fn folder(place: &Place<'_, '_>, context: &mut Context<'_>) -> Option<Folder> {
    if let Some(alias) = place.scope.own().iter().find(|directive| directive.name == "alias") {
        context.ledger.translated(alias);
        let folder = self::alias(alias, place, context);
        if folder.is_none() {
            context.ledger.open(alias, "write the folder: `root` has no placeholders");
        }
        return folder;
    }
    let root = place.scope.find("root")?;
    context.ledger.translated(root);
    let text = substitute(root.arg(0), place.scope);
    if text.contains('$') {
        context.ledger.open(root, "write the folder: `root` has no placeholders");
        return None;
    }
    Some((place.matched.route(), text, None))
}

fn alias(alias: &Directive, place: &Place<'_, '_>, context: &mut Context<'_>) -> Option<Folder> {
    let text = substitute(alias.arg(0), place.scope);
    let has_variable = text.contains('$');
    match &place.kind {
        Kind::Prefix { path, .. } if !has_variable => {
            let mut matched = place.matched.clone();
            if path != "/" && crate::regexes::is_plain(path) {
                matched.path = format!("{}/*", path.trim_end_matches('/'));
                if path.ends_with('/') {
                    matched.except.push(path.trim_end_matches('/').to_owned());
                } else {
                    context
                        .ledger
                        .different(alias, format!("only paths below {path}/ are files of the folder"));
                }
            }
            let folder = text.trim_end_matches('/');
            Some((matched.route(), if folder.is_empty() { "/" } else { folder }.to_owned(), None))
        }
        Kind::Exact(_) if !has_variable => {
            let (root, file) = text.rsplit_once('/')?;
            let root = if root.is_empty() { "/" } else { root };
            Some((place.matched.route(), root.to_owned(), Some(file.to_owned())))
        }
        Kind::Regex { .. } => {
            let at = text.find("${").unwrap_or(text.len());
            let (root, file) = text.split_at(text[..at].rfind('/').filter(|end| *end > 0)?);
            let file = translate(file, Use::Target, place.scope, context).ok()?;
            Some((place.matched.route(), root.to_owned(), Some(file.trim_start_matches('/').to_owned())))
        }
        _ => None,
    }
}

fn index(keys: &mut Vec<(String, Value)>, scope: &Scope<'_>, context: &mut Context<'_>) {
    if let Some(index) = scope.find("index") {
        context.ledger.translated(index);
        let names: Vec<_> = index.args.iter().filter(|name| !name.contains('$')).cloned().collect();
        if names.iter().any(|name| name.starts_with('/')) {
            context
                .ledger
                .different(index, "an index that is a path of the site is left out: write `fallback`");
        }
        let names: Vec<_> = names.into_iter().filter(|name| !name.starts_with('/')).collect();
        if names != ["index.html"] && !names.is_empty() {
            keys.push(("index".to_owned(), Value::texts(names)));
        }
    }
    if let Some(autoindex) = scope.find("autoindex") {
        context.ledger.translated(autoindex);
        for option in ["autoindex_exact_size", "autoindex_localtime", "autoindex_format"] {
            if let Some(option) = scope.find(option) {
                context.ledger.different(option, "`browse` can be the file of a template");
            }
        }
        if autoindex.arg(0) == "on" {
            keys.push(("browse".to_owned(), true.into()));
        }
    }
}

/// The files that are tried.
#[derive(Debug, Default)]
struct Tries {
    entries: Vec<String>,
    /// The status, or the named location, if there is none of them.
    last: Option<String>,
}

fn tries(place: &Place<'_, '_>, context: &mut Context<'_>) -> Tries {
    let scope = place.scope;
    if let Some(target) = front_controller(scope, context) {
        return Tries { entries: vec!["{path}".to_owned(), target], last: None };
    }
    let Some(directive) = scope.own().iter().find(|directive| directive.name == "try_files") else {
        return Tries::default();
    };
    context.ledger.translated(directive);
    let mut tries = Tries::default();
    for (at, file) in directive.args.iter().enumerate() {
        let is_last = at + 1 == directive.args.len();
        if is_last && file.starts_with(['=', '@']) {
            tries.last = Some(file.clone());
        } else if file.starts_with('@') {
            context.ledger.different(directive, "only the last entry can be a named location, in nginx too");
        } else {
            match entry(file, scope, context) {
                Ok(entry) if !tries.entries.contains(&entry) => tries.entries.push(entry),
                Ok(_) => {}
                Err(why) => context.ledger.open(directive, why),
            }
        }
    }
    tries
}

/// An entry of `try_files`. The index of a folder needs none.
fn entry(file: &str, scope: &Scope<'_>, context: &mut Context<'_>) -> Result<String, String> {
    let text = substitute(file, scope);
    let path = text.strip_suffix('/').filter(|path| path.ends_with("${uri}")).unwrap_or(&text);
    if ["/index.html", "/index.php", "/index.htm"].iter().any(|index| path == format!("${{uri}}{index}")) {
        return Ok("{path}".to_owned());
    }
    let entry = translate(path, Use::Target, scope, context)?;
    // The query of the request is kept.
    let entry =
        entry.strip_suffix("{query}").filter(|entry| !entry.contains('?')).unwrap_or(&entry).to_owned();
    let is_target = entry.contains('?');
    Ok(if is_target { entry } else { entry.trim_start_matches('/').to_owned() })
}

impl Tries {
    /// The routes for requests without a file.
    fn next(&self, place: &Place<'_, '_>, context: &mut Context<'_>) -> Vec<Table> {
        let Some(last) = &self.last else { return Vec::new() };
        if let Some(status) = last.strip_prefix('=') {
            let Some(status) = status.parse::<u64>().ok().filter(|status| *status != 404) else {
                return Vec::new();
            };
            let mut route = place.matched.route();
            route.set("respond", status);
            return vec![route];
        }
        named_location(last, place, context).unwrap_or_default()
    }
}

/// Whether an `if` sends requests without a file to a script.
pub(super) fn is_front_controller(directive: &Directive) -> bool {
    let condition = directive.args.join(" ");
    let is_missing = ["!-e", "!-f"].iter().any(|test| condition == format!("({test} $request_filename)"));
    let is_simple = |child: &Directive| ["rewrite", "break"].contains(&child.name.as_str());
    is_missing && directive.children().iter().all(is_simple) && script(directive).is_some()
}

/// The script that an `if` rewrites all paths to.
fn script(directive: &Directive) -> Option<&str> {
    let rewrite = directive.children().iter().find(|child| child.name == "rewrite")?;
    let is_all =
        ["^", ".", "^.*$", "^(.*)$", "^/(.*)$", "^.*", "(.*)", "^(.*)", "/", "^/"].contains(&rewrite.arg(0));
    (is_all && rewrite.arg(1).starts_with('/')).then(|| rewrite.arg(1))
}

fn front_controller(scope: &Scope<'_>, context: &mut Context<'_>) -> Option<String> {
    let directive = scope.everywhere("if").filter(|directive| is_front_controller(directive)).last()?;
    context.ledger.translated(directive);
    context.ledger.all_translated(directive.children());
    let target = script(directive)?;
    if let Some((path, group)) = target.split_once("$1").filter(|_| target.contains('?')) {
        return Some(format!("{path}{{path}}{group}{{query}}"));
    }
    Some(target.trim_start_matches('/').to_owned())
}

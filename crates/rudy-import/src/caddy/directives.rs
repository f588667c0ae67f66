//! The directives of a site as steps of a chain.

use super::matchers::{self, Matched, Named};
use super::order::Order;
use super::proxy;
use super::text::{Use, size, translate};
use crate::chain::Step;
use crate::guard::Guard;
use crate::report::Ledger;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// What the translation of a site needs.
pub(super) struct Context<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) order: &'a Order,
    /// Files with users, which `rudy.toml` names.
    pub(super) users: &'a mut Vec<String>,
}

/// What earlier directives have changed about the request.
#[derive(Debug, Clone, Default)]
struct State {
    root: Option<String>,
    /// The beginning of the path that `handle_path` or `uri strip_prefix` removes.
    prefix: String,
    add_prefix: Option<String>,
    try_files: Vec<String>,
}

/// The steps of a site.
pub(super) fn steps(block: &[Directive], context: &mut Context<'_>) -> Vec<Step> {
    let named = Named::new();
    of_block(block, &named, &State::default(), true, context)
}

fn of_block<'a>(
    block: &'a [Directive],
    outer: &Named<'a>,
    state: &State,
    is_sorted: bool,
    context: &mut Context<'_>,
) -> Vec<Step> {
    let mut named = outer.clone();
    for directive in block.iter().filter(|directive| directive.name.starts_with('@')) {
        context.ledger.translated(directive);
        directive.children().iter().for_each(|condition| context.ledger.translated(condition));
        named.insert(directive.name.as_str(), directive);
    }
    let is_step = |directive: &&Directive| !directive.name.starts_with('@');
    let directives: Vec<&Directive> = if is_sorted {
        context.order.sorted(block, &named).into_iter().filter(is_step).collect()
    } else {
        block.iter().filter(is_step).collect()
    };
    let mut state = state.clone();
    let mut steps = Vec::new();
    for directive in directives {
        let from = steps.len();
        step(directive, &named, &mut state, &mut steps, context);
        let comment = format!("{}  {}", directive.place, directive.summary());
        for step in &mut steps[from..] {
            if let Step::Handler(_, table) = step {
                table.comments.insert(0, comment.clone());
            }
        }
    }
    steps
}

fn table(key: &str, value: impl Into<Value>) -> Table {
    let mut table = Table::default();
    table.set(key, value);
    table
}

fn step(
    directive: &Directive,
    named: &Named<'_>,
    state: &mut State,
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) {
    let (matched, args) = matchers::of(directive, named, &state.prefix);
    if let Some(why) = &matched.wider {
        unknown(directive, &matched.guard, why, steps, context);
        return;
    }
    let guard = matched.guard.clone();
    let advice = match directive.name.as_str() {
        "root" => root(&matched, args, state),
        "header" | "request_header" => fields(directive, guard, args, steps, context),
        "request_body" => request_body(directive, guard, steps, context),
        "redir" => redirect(guard, args, steps),
        "rewrite" => rewrite(&matched, args, state, steps),
        "uri" => uri(&matched, args, state),
        "try_files" => try_files(&matched, args, state),
        "basic_auth" | "basicauth" => basic_auth(directive, guard, args, steps, context),
        "forward_auth" => forward_auth(directive, guard, args, steps, context),
        "encode" => encode(directive, guard, args, steps, context),
        "log_skip" | "skip_log" => {
            steps.push(Step::Setting(guard, table("access_log", false)));
            Ok(())
        }
        "handle" | "handle_path" | "route" => blocks(directive, &matched, named, state, steps, context),
        "abort" => {
            closing(guard, table("respond", 444), steps);
            Ok(())
        }
        "error" => error(guard, args, steps),
        "respond" => respond(directive, guard, args, steps, context),
        "metrics" => {
            context.ledger.different(directive, "`metrics` of Rudy has other names (docs/metrics.md)");
            steps.push(Step::Handler(guard, table("metrics", Value::table([("allow", "anyone".into())]))));
            Ok(())
        }
        "reverse_proxy" => reverse_proxy(directive, guard, args, state, steps, context),
        "php_fastcgi" => php(directive, guard, args, state, steps, context),
        "file_server" => file_server(directive, guard, args, state, steps, context),
        "handle_errors" | "log" | "tls" | "bind" => return,
        "templates" | "push" | "map" | "vars" | "method" | "tracing" | "invoke" | "intercept"
        | "acme_server" => Err("Rudy has no equivalent: see docs/from-caddy.md".to_owned()),
        _ => {
            context.ledger.unprotected(
                directive,
                "it belongs to a module that is no part of Caddy: write by hand what it does",
            );
            return;
        }
    };
    match advice {
        Ok(()) => context.ledger.translated(directive),
        Err(advice) => {
            lost(directive, matched.guard, &advice, steps);
            context.ledger.open(directive, advice);
        }
    }
}

/// Handlers without a translation respond with an error, so that no other one gets their requests.
fn lost(directive: &Directive, guard: Guard, advice: &str, steps: &mut Vec<Step>) {
    match directive.name.as_str() {
        "basic_auth" | "basicauth" | "forward_auth" => {
            steps.push(Step::closed(guard, &format!("{}: {advice}", directive.name)));
        }
        "reverse_proxy" | "php_fastcgi" | "file_server" => {
            let mut table = table("respond", 503);
            table.comment(format!("{}: {advice}.", directive.summary()));
            steps.push(Step::Handler(guard, table));
        }
        _ => {}
    }
}

/// A directive with a matcher that Rudy does not have: what closes something does so for all that it could be.
fn unknown(
    directive: &Directive,
    guard: &Guard,
    why: &str,
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) {
    if closes(directive) {
        context.ledger.open(directive, format!("{why}, so all that it could be for is closed: write `when`"));
        steps.push(Step::closed(guard.clone(), why));
    } else if ["handle", "handle_path", "route"].contains(&directive.name.as_str())
        && directive.children().iter().any(closes)
    {
        context.ledger.open(directive, format!("{why}, so all that it could be for is closed: write `when`"));
        steps.push(Step::closed(guard.clone(), why));
        skip(directive, "its block is not translated", context);
    } else {
        context.ledger.unprotected(directive, format!("{why}: write its route with `when`"));
        skip(directive, "its block is not translated", context);
    }
}

fn skip(directive: &Directive, why: &str, context: &mut Context<'_>) {
    for inner in directive.children() {
        context.ledger.open(inner, why);
        skip(inner, why, context);
    }
}

/// Whether a directive rejects requests.
fn closes(directive: &Directive) -> bool {
    match directive.name.as_str() {
        "basic_auth" | "basicauth" | "forward_auth" | "abort" | "error" => true,
        "respond" => directive.args.iter().any(|arg| arg.len() == 3 && arg.starts_with('4')),
        "handle" | "handle_path" | "route" => directive.children().iter().any(closes),
        _ => false,
    }
}

/// Adds a handler that closes paths. Caddy compares paths without regard to case, so other spellings are closed, too.
fn closing(guard: Guard, table: Table, steps: &mut Vec<Step>) {
    spellings(&guard, steps);
    steps.push(Step::Handler(guard, table));
}

fn spellings(guard: &Guard, steps: &mut Vec<Step>) {
    let pattern = |path: &String| {
        let has_case = path.starts_with('/') && path.contains(|letter: char| letter.is_alphabetic());
        let (start, end) = match (path.strip_suffix("/**"), path.strip_suffix("*/*"), path.strip_suffix("/*"))
        {
            (Some(start), ..) => (start, "/"),
            (_, Some(start), _) => (start, ""),
            (_, _, Some(start)) => (start, "(/|$)"),
            _ => (path.as_str(), "$"),
        };
        (has_case && crate::regexes::is_plain(start))
            .then(|| format!("regex:(?i)^{}{end}", crate::regexes::escaped(start)))
    };
    let patterns: Vec<String> = guard.path().iter().filter_map(pattern).collect();
    if patterns.is_empty() {
        return;
    }
    // The spelling of the file itself is that of the directive.
    if let Some(not) = Guard::paths(guard.path().iter().cloned()).negated() {
        let other = not.and(&guard.with_path(patterns));
        steps.push(Step::closed(other, "other spellings of these paths, which are the same for Caddy"));
    }
}

type Outcome = Result<(), String>;

fn root(matched: &Matched, args: &[String], state: &mut State) -> Outcome {
    let folder = args.last().filter(|folder| !folder.contains('{'));
    let folder = folder.ok_or("write the folder: `root` has no placeholders")?;
    if !matched.guard.is_all() {
        return Err(format!("write `{folder}` as the folder of `files` in a route for its paths"));
    }
    state.root = Some(folder.clone());
    Ok(())
}

fn fields(
    directive: &Directive,
    guard: Guard,
    args: &[String],
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    let key = if directive.name == "header" { "response_headers" } else { "request_headers" };
    let mut pairs: Vec<(String, Value)> = Vec::new();
    if let Some((name, values)) = args.split_first() {
        pairs.push(proxy::field_change(name, values)?);
    }
    for field in directive.children() {
        if field.name == "defer" {
            context.ledger.translated(field);
            continue;
        }
        match proxy::field_change(&field.name, &field.args) {
            Ok(pair) => {
                context.ledger.translated(field);
                pairs.retain(|(name, _)| !name.eq_ignore_ascii_case(&pair.0));
                pairs.push(pair);
            }
            Err(why) => context.ledger.open(field, why),
        }
    }
    if !pairs.is_empty() {
        steps.push(Step::Setting(guard, table(key, Value::Table(pairs))));
    }
    Ok(())
}

fn request_body(
    directive: &Directive,
    guard: Guard,
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    for option in directive.children() {
        match size(option.arg(0)).filter(|_| option.name == "max_size") {
            Some(size) => {
                context.ledger.translated(option);
                steps.push(Step::Setting(guard.clone(), table("body_bytes", size)));
            }
            None => context.ledger.unprotected(option, "write `body_bytes` or `request_timeout`"),
        }
    }
    Ok(())
}

fn redirect(guard: Guard, args: &[String], steps: &mut Vec<Step>) -> Outcome {
    let to = args.first().ok_or("write its target")?;
    let status = match args.get(1).map(String::as_str) {
        None | Some("temporary" | "html") => 302_u64,
        Some("permanent") => 301,
        Some(text) => text
            .parse()
            .ok()
            .filter(|status| [301, 302, 303, 307, 308].contains(status))
            .ok_or("write its status")?,
    };
    let mut add = |guard: Guard, to: &str| {
        let to = translate(to, Use::Target)?;
        let value = Value::table([("to", to.into()), ("status", status.into())]);
        steps.push(Step::Handler(guard, table("redirect", value)));
        Ok(())
    };
    if let Some(rest) = to.strip_prefix("{scheme}://") {
        add(guard.and(&Guard::condition("scheme", "https")), &format!("https://{rest}"))?;
        return add(guard, &format!("http://{rest}"));
    }
    add(guard, to)
}

fn rewrite(matched: &Matched, args: &[String], state: &mut State, steps: &mut Vec<Step>) -> Outcome {
    let to = args.first().ok_or("write its target")?;
    let added = to.strip_suffix("{uri}").or_else(|| to.strip_suffix("{path}"));
    if let Some(prefix) = added.filter(|prefix| !prefix.contains('{')) {
        if !matched.guard.is_all() {
            return Err("write `add_prefix` into the `proxy` of its paths".to_owned());
        }
        state.add_prefix = Some(prefix.trim_end_matches('/').to_owned()).filter(|prefix| !prefix.is_empty());
        return Ok(());
    }
    let to = translate(to, Use::Target)?;
    let path = to.split('?').next().unwrap_or_default();
    if matched.guard.is_all() {
        // Files then have only this one; other handlers would need a route of their own.
        if path.contains('{') || !path.starts_with('/') || to.contains('?') {
            return Err("write the route for the new path, and `rewrite` before it".to_owned());
        }
        state.try_files = vec![path.trim_start_matches('/').to_owned()];
        return Ok(());
    }
    let is_same =
        Guard::paths([path.to_owned()]).implies(&Guard::paths(matched.guard.path().iter().cloned()));
    let is_known = !matched.guard.path().is_empty() && !matched.guard.path()[0].starts_with("regex:");
    if !path.starts_with('/') || is_same || !is_known && path.contains('{') {
        return Err("the new path could match again: write the route for it".to_owned());
    }
    steps.push(Step::Handler(matched.guard.clone(), table("rewrite", to)));
    Ok(())
}

fn uri(matched: &Matched, args: &[String], state: &mut State) -> Outcome {
    match args {
        [operation, prefix] if operation == "strip_prefix" && prefix.starts_with('/') => {
            let prefix = prefix.trim_end_matches('/');
            let within = Guard::paths([format!("{prefix}/*")]);
            let is_within = matched.guard.is_all() || matched.guard.implies(&within);
            if !is_within || !crate::regexes::is_plain(prefix) {
                return Err("write `strip_prefix = true` into the `proxy` of its paths".to_owned());
            }
            state.prefix.push_str(prefix);
            Ok(())
        }
        _ => Err("write `rewrite`, or let the application use the path of the client".to_owned()),
    }
}

fn try_files(matched: &Matched, args: &[String], state: &mut State) -> Outcome {
    if !matched.guard.is_all() {
        return Err("write `try_files` into the `files` of its paths".to_owned());
    }
    let mut entries = Vec::new();
    for arg in args {
        let entry = translate(arg, Use::Target)?;
        let entry = entry.trim_end_matches('/');
        if arg.starts_with('=') {
            return Err("write a route behind the files, with `respond`".to_owned());
        }
        let is_target = entry.contains('?');
        let entry = if is_target { entry } else { entry.trim_start_matches('/') };
        if !entry.is_empty() && !entries.iter().any(|known| known == entry) {
            entries.push(entry.to_owned());
        }
    }
    state.try_files = entries;
    Ok(())
}

fn basic_auth(
    directive: &Directive,
    guard: Guard,
    args: &[String],
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    if args.first().is_some_and(|algorithm| algorithm != "bcrypt") {
        return Err("the passwords need hashes of `rudy hash-password`".to_owned());
    }
    let realm = args.get(1).filter(|realm| realm.is_ascii() && !realm.contains('{'));
    let mut lines = String::new();
    for user in directive.children() {
        let hash = user.arg(0);
        let is_bcrypt =
            ["$2a$", "$2b$", "$2y$"].iter().any(|start| hash.starts_with(start)) && hash.len() == 60;
        if !is_bcrypt || user.name.contains(':') {
            context
                .ledger
                .open(user, "its hash is no bcrypt: run `rudy hash-password`, and add it to the file");
            continue;
        }
        context.ledger.translated(user);
        lines.push_str(&format!("{}:{hash}\n", user.name));
    }
    if lines.is_empty() {
        return Err("no user has a hash that Rudy can read: write `basic_auth`".to_owned());
    }
    let at = context.users.iter().position(|known| *known == lines).unwrap_or_else(|| {
        context.users.push(lines);
        context.users.len() - 1
    });
    let mut keys = vec![("file", super::users_file(at).into())];
    keys.extend(realm.map(|realm| ("realm", realm.as_str().into())));
    spellings(&guard, steps);
    steps.push(Step::Setting(guard, table("basic_auth", Value::table(keys))));
    Ok(())
}

fn forward_auth(
    directive: &Directive,
    guard: Guard,
    args: &[String],
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    let value = proxy::forward_auth(directive, args, context.ledger)?;
    spellings(&guard, steps);
    steps.push(Step::Setting(guard, table("forward_auth", value)));
    Ok(())
}

fn encode(
    directive: &Directive,
    guard: Guard,
    args: &[String],
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    let mut codings: Vec<String> = args.to_vec();
    for option in directive.children() {
        if ["gzip", "zstd", "br"].contains(&option.name.as_str()) {
            context.ledger.translated(option);
            codings.push(option.name.clone());
        } else {
            context.ledger.different(option, "Rudy has its own list of media types (docs/compression.md)");
        }
    }
    codings.retain(|coding| ["gzip", "zstd", "br"].contains(&coding.as_str()));
    codings.dedup();
    let value = match codings.is_empty() {
        true => true.into(),
        false => Value::table([("codings", Value::List(codings.into_iter().map(Value::Text).collect()))]),
    };
    steps.push(Step::Setting(guard, table("compression", value)));
    Ok(())
}

fn blocks(
    directive: &Directive,
    matched: &Matched,
    named: &Named<'_>,
    state: &State,
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    let mut inner = state.clone();
    let mut guard = matched.guard.clone();
    if directive.name == "handle_path" {
        let path = directive.arg(0).strip_suffix("/*").unwrap_or_default();
        if path.is_empty() && directive.arg(0) != "/*" || !path.is_empty() && !crate::regexes::is_plain(path)
        {
            skip(directive, "its block is not translated", context);
            return Err("write its route with `strip_prefix`".to_owned());
        }
        inner.prefix.push_str(path);
        guard = Guard::paths([pattern_of(&inner.prefix)]);
    }
    let block = of_block(directive.children(), named, &inner, directive.name != "route", context);
    if directive.name == "route" && guard.is_all() {
        steps.extend(block);
        return Ok(());
    }
    let mut all = Vec::new();
    if directive.children().iter().any(closes) {
        spellings(&guard, &mut all);
    }
    steps.extend(all);
    // `route` does not exclude other blocks, but passes on what it does not respond to, as all blocks do here.
    match steps.last_mut() {
        Some(Step::Blocks(blocks)) if directive.name != "route" => blocks.push((guard, block)),
        _ => steps.push(Step::Blocks(vec![(guard, block)])),
    }
    Ok(())
}

fn pattern_of(prefix: &str) -> String {
    format!("{prefix}/*")
}

fn error(guard: Guard, args: &[String], steps: &mut Vec<Step>) -> Outcome {
    let status = args.iter().find_map(|arg| arg.parse::<u64>().ok()).unwrap_or(500);
    let status = if (400..=599).contains(&status) { status } else { 500 };
    closing(guard, table("respond", status), steps);
    Ok(())
}

fn respond(
    directive: &Directive,
    guard: Guard,
    args: &[String],
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    let is_status = |arg: &str| arg.len() == 3 && arg.parse::<u64>().is_ok();
    let (mut body, mut status) = (None, 200_u64);
    match args {
        [] => {}
        [one] if is_status(one) => status = one.parse().unwrap_or(200),
        [text] => body = Some(text.clone()),
        [text, code, ..] => {
            body = Some(text.clone());
            status = code.parse().ok().filter(|_| is_status(code)).ok_or("write its status")?;
        }
    }
    for option in directive.children() {
        context.ledger.translated(option);
        if option.name == "body" {
            body = Some(option.arg(0).to_owned());
        }
    }
    if !(200..=599).contains(&status) {
        return Err("write its status".to_owned());
    }
    let body = body.filter(|body| !body.is_empty());
    if body
        .as_ref()
        .is_some_and(|body| body.contains('{') && translate(body, Use::Field).as_ref() != Ok(body))
    {
        if status >= 400 {
            context
                .ledger
                .different(directive, "its text has placeholders, which Rudy does not replace there");
        } else {
            return Err("its text has placeholders: let an application do it".to_owned());
        }
    }
    let value = match body {
        None => status.into(),
        Some(body) if status == 200 => Value::table([("body", body.into())]),
        Some(body) => Value::table([("status", status.into()), ("body", body.into())]),
    };
    if status == 200 {
        context.ledger.different(directive, "methods other than GET and HEAD get 405");
    }
    if status >= 400 {
        closing(guard, table("respond", value), steps)
    } else {
        steps.push(Step::Handler(guard, table("respond", value)))
    }
    Ok(())
}

/// The guard of a handler that removes the prefix: its path has to be the folder.
fn stripped(guard: Guard, state: &State) -> Guard {
    if state.prefix.is_empty() || !guard.path().is_empty() {
        return guard;
    }
    Guard::paths([pattern_of(&state.prefix)])
}

fn reverse_proxy(
    directive: &Directive,
    guard: Guard,
    args: &[String],
    state: &State,
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    if !state.try_files.is_empty() {
        return Err("write the files and the rewritten path as routes before it".to_owned());
    }
    let strip = !state.prefix.is_empty();
    let table = proxy::reverse_proxy(directive, args, strip, state.add_prefix.as_deref(), context.ledger)?;
    steps.push(Step::Handler(stripped(guard, state), table));
    Ok(())
}

fn php(
    directive: &Directive,
    guard: Guard,
    args: &[String],
    state: &State,
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    if !state.prefix.is_empty() {
        return Err("write `php` with the path of its scripts".to_owned());
    }
    let table = proxy::php(directive, args, state.root.as_deref(), context.ledger)?;
    steps.push(Step::Handler(guard, table));
    Ok(())
}

fn file_server(
    directive: &Directive,
    guard: Guard,
    args: &[String],
    state: &State,
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) -> Outcome {
    let mut root = state.root.clone();
    let mut keys: Vec<(String, Value)> = Vec::new();
    let mut passes_on = false;
    if args.first().is_some_and(|arg| arg == "browse") {
        keys.push(("browse".to_owned(), true.into()));
    }
    for option in directive.children() {
        match option.name.as_str() {
            "root" if !option.arg(0).contains('{') => root = Some(option.arg(0).to_owned()),
            "index" => keys.push(("index".to_owned(), Value::texts(option.args.iter().cloned()))),
            "browse" if option.args.is_empty() => keys.push(("browse".to_owned(), true.into())),
            "pass_thru" => passes_on = true,
            "hide" | "precompressed" | "disable_canonical_uris" | "status" | "etag_file_extensions" => {
                let hides = option.name == "hide" && option.args.iter().any(|name| !name.starts_with('.'));
                if hides {
                    return Err("write a route with `respond = 404` for the files of `hide`".to_owned());
                }
                context
                    .ledger
                    .different(option, "Rudy hides names with a dot, and looks for compressed copies");
                continue;
            }
            _ => {
                context.ledger.open(option, "write it into `files` by hand");
                continue;
            }
        }
        context.ledger.translated(option);
    }
    let root = root.ok_or("write `files` with a folder: Caddy serves the one that it was started in")?;
    keys.insert(0, ("root".to_owned(), root.into()));
    if state.try_files.iter().any(|entry| entry != "{path}") {
        keys.push(("try_files".to_owned(), Value::texts(state.try_files.iter().cloned())));
    }
    if passes_on {
        keys.push(("next_route".to_owned(), true.into()));
    }
    let value = if keys.len() == 1 { keys.remove(0).1 } else { Value::Table(keys) };
    steps.push(Step::Handler(stripped(guard, state), table("files", value)));
    Ok(())
}

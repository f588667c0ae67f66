//! The directives of a site as steps of a chain.

use super::content::{error, file_server, php, respond, reverse_proxy};
use super::logins::{basic_auth, forward_auth};
use super::matchers::{self, Matched, Named};
use super::order::Order;
use super::proxy;
use super::rewrites::{redirect, rewrite, uri};
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
pub(super) struct State {
    pub(super) root: Option<String>,
    /// The beginning of the path that `handle_path` or `uri strip_prefix` removes.
    pub(super) prefix: String,
    pub(super) add_prefix: Option<String>,
    pub(super) try_files: Vec<String>,
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

pub(super) fn table(key: &str, value: impl Into<Value>) -> Table {
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
        "request_body" => {
            request_body(directive, &guard, steps, context);
            Ok(())
        }
        "redir" => redirect(guard, args, steps),
        "rewrite" => rewrite(&matched, args, state, steps),
        "uri" => uri(&matched, args, state),
        "try_files" => try_files(&matched, args, state),
        "basic_auth" | "basicauth" => basic_auth(directive, guard, args, steps, context),
        "forward_auth" => forward_auth(directive, guard, args, steps, context),
        "encode" => {
            encode(directive, &guard, args, steps, context);
            Ok(())
        }
        "log_skip" | "skip_log" => {
            steps.push(Step::Setting(guard, table("access_log", false)));
            Ok(())
        }
        "handle" | "handle_path" | "route" => blocks(directive, &matched, named, state, steps, context),
        "abort" => {
            closing(guard, table("respond", 444), steps);
            Ok(())
        }
        "error" => {
            error(guard, args, steps);
            Ok(())
        }
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
pub(super) fn closing(guard: Guard, table: Table, steps: &mut Vec<Step>) {
    spellings(&guard, steps);
    steps.push(Step::Handler(guard, table));
}

pub(super) fn spellings(guard: &Guard, steps: &mut Vec<Step>) {
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

pub(super) type Outcome = Result<(), String>;

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

fn request_body(directive: &Directive, guard: &Guard, steps: &mut Vec<Step>, context: &mut Context<'_>) {
    for option in directive.children() {
        match size(option.arg(0)).filter(|_| option.name == "max_size") {
            Some(size) => {
                context.ledger.translated(option);
                steps.push(Step::Setting(guard.clone(), table("body_bytes", size)));
            }
            None => context.ledger.unprotected(option, "write `body_bytes` or `request_timeout`"),
        }
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

fn encode(
    directive: &Directive,
    guard: &Guard,
    args: &[String],
    steps: &mut Vec<Step>,
    context: &mut Context<'_>,
) {
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
    let value = if codings.is_empty() {
        true.into()
    } else {
        Value::table([("codings", Value::List(codings.into_iter().map(Value::Text).collect()))])
    };
    steps.push(Step::Setting(guard.clone(), table("compression", value)));
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
        guard = Guard::paths([format!("{}/*", inner.prefix)]);
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

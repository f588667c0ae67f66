//! Directives that respond: `respond`, `error`, `reverse_proxy`, `php_fastcgi` and `file_server`.

use super::directives::{Context, Outcome, State, closing, table};
use super::proxy;
use super::text::{Use, translate};
use crate::chain::Step;
use crate::guard::Guard;
use crate::syntax::Directive;
use crate::toml::Value;

pub(super) fn error(guard: Guard, args: &[String], steps: &mut Vec<Step>) {
    let status = args.iter().find_map(|arg| arg.parse::<u64>().ok()).unwrap_or(500);
    let status = if (400..=599).contains(&status) { status } else { 500 };
    closing(guard, table("respond", status), steps);
}

pub(super) fn respond(
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
        closing(guard, table("respond", value), steps);
    } else {
        steps.push(Step::Handler(guard, table("respond", value)));
    }
    Ok(())
}

/// The guard of a handler that removes the prefix: its path has to be the folder.
pub(super) fn stripped(guard: Guard, state: &State) -> Guard {
    if state.prefix.is_empty() || !guard.path().is_empty() {
        return guard;
    }
    Guard::paths([format!("{}/*", state.prefix)])
}

pub(super) fn reverse_proxy(
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

pub(super) fn php(
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

pub(super) fn file_server(
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

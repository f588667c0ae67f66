//! Directives that change the path: `redir`, `rewrite` and `uri`.

use super::directives::{Outcome, State, table};
use super::matchers::Matched;
use super::text::{Use, translate};
use crate::chain::Step;
use crate::guard::Guard;
use crate::toml::Value;

pub(super) fn redirect(guard: Guard, args: &[String], steps: &mut Vec<Step>) -> Outcome {
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

pub(super) fn rewrite(
    matched: &Matched,
    args: &[String],
    state: &mut State,
    steps: &mut Vec<Step>,
) -> Outcome {
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

pub(super) fn uri(matched: &Matched, args: &[String], state: &mut State) -> Outcome {
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

//! `basic_auth` and `forward_auth`.

use std::fmt::Write as _;

use super::directives::{Context, Outcome, spellings, table};
use super::proxy;
use crate::chain::Step;
use crate::guard::Guard;
use crate::syntax::Directive;
use crate::toml::Value;

pub(super) fn basic_auth(
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
        // Writing to a string cannot fail.
        _ = writeln!(lines, "{}:{hash}", user.name);
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

pub(super) fn forward_auth(
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

//! `Redirect` and `RedirectMatch`.

use crate::chain::Step;
use crate::guard::Guard;
use crate::regexes::{closed, path_pattern};
use crate::report::Ledger;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// The redirects of a block.
pub(super) fn steps(block: &[Directive], outer: &Guard, ledger: &mut Ledger) -> Vec<Step> {
    let mut steps = Vec::new();
    for directive in block {
        let outcome = match directive.name.to_ascii_lowercase().as_str() {
            "redirect" | "redirectpermanent" | "redirecttemp" => simple(directive, outer, &mut steps),
            "redirectmatch" => by_regex(directive, outer, &mut steps, ledger),
            _ => continue,
        };
        match outcome {
            Ok(()) => ledger.translated(directive),
            Err((true, why)) => ledger.unprotected(directive, why),
            Err((false, why)) => ledger.open(directive, why),
        }
    }
    steps
}

type Outcome = Result<(), (bool, String)>;

/// The status and the arguments after it.
fn status(directive: &Directive) -> (u64, &[String]) {
    let default = if directive.name.eq_ignore_ascii_case("RedirectPermanent") { 301 } else { 302 };
    let Some((first, rest)) = directive.args.split_first() else { return (default, &[]) };
    match first.to_ascii_lowercase().as_str() {
        "permanent" => (301, rest),
        "temp" => (302, rest),
        "seeother" => (303, rest),
        "gone" => (410, rest),
        number => match number.parse::<u64>() {
            Ok(status) if (300..=599).contains(&status) => (status, rest),
            _ => (default, &directive.args),
        },
    }
}

fn handler(directive: &Directive, guard: Guard, key: &str, value: Value, steps: &mut Vec<Step>) {
    let mut table = Table::default();
    table.comment(format!("{}  {}", directive.place, directive.summary()));
    table.set(key, value);
    steps.push(Step::Handler(guard, table));
}

fn target(to: String, status: u64) -> Value {
    Value::table([("to", to.into()), ("status", status.into())])
}

fn simple(directive: &Directive, outer: &Guard, steps: &mut Vec<Step>) -> Outcome {
    let (status, args) = status(directive);
    let (from, to) = match args {
        [from, to] => (from.as_str(), to.as_str()),
        [from] if status >= 400 => (from.as_str(), ""),
        // In a section, the path is that of the section.
        [to] if !outer.is_all() => {
            handler(directive, outer.clone(), "redirect", target(format!("{to}{{query}}"), status), steps);
            return Ok(());
        }
        _ => return Err((false, "write the redirect".to_owned())),
    };
    let guard = outer.and(&Guard::paths(super::content::folder_patterns(from)));
    if status >= 400 {
        handler(directive, guard, "respond", status.into(), steps);
        return Ok(());
    }
    if to.contains(['%', '$', '{']) {
        return Err((false, "write the redirect: its target has a variable".to_owned()));
    }
    if from == "/" {
        let to = format!("{}{{path}}{{query}}", to.trim_end_matches('/'));
        handler(directive, guard, "redirect", target(to, status), steps);
        return Ok(());
    }
    if !crate::regexes::is_plain(from) {
        return Err((false, "write the redirect: its path is not plain".to_owned()));
    }
    let exact = outer.and(&Guard::paths([from.to_owned()]));
    handler(directive, exact, "redirect", target(format!("{to}{{query}}"), status), steps);
    let folder = from.trim_end_matches('/');
    let below = outer.and(&Guard::paths([format!("{folder}/*")]));
    let to = format!("{}/{{rest}}{{query}}", to.trim_end_matches('/'));
    handler(directive, below, "redirect", target(to, status), steps);
    Ok(())
}

fn by_regex(directive: &Directive, outer: &Guard, steps: &mut Vec<Step>, ledger: &mut Ledger) -> Outcome {
    let (status, args) = status(directive);
    let closes = status >= 400;
    let expression = args.first().map(String::as_str).unwrap_or_default();
    if closes {
        let (guard, is_wider) =
            closed(expression, false).map_err(|why| (true, format!("{why}: write its route")))?;
        handler(directive, outer.and(&guard), "respond", status.into(), steps);
        if is_wider {
            ledger.different(directive, "more paths are closed: Rudy has no look-around");
        }
        return Ok(());
    }
    let pattern =
        path_pattern(expression, false).map_err(|why| (false, format!("{why}: write its route")))?;
    let guard = outer.and(&Guard::paths([pattern]));
    let mut to = args.get(1).cloned().unwrap_or_default();
    for group in 0..10_u8 {
        to = to.replace(&format!("${group}"), &format!("{{{group}}}"));
    }
    if to.is_empty() || to.contains(['$', '%']) {
        return Err((false, "write the redirect".to_owned()));
    }
    handler(directive, guard, "redirect", target(format!("{to}{{query}}"), status), steps);
    Ok(())
}

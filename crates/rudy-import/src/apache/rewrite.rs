//! `mod_rewrite`: rules with conditions.

use super::conditions::{Conditions, conditions};
use super::content::Content;
use crate::chain::Step;
use crate::guard::Guard;
use crate::regexes::{closed, path_pattern};
use crate::report::Ledger;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// Patterns for all paths.
const ALL: [&str; 17] = [
    "^",
    ".",
    ".*",
    "^.*$",
    "(.*)",
    "^(.*)$",
    "^(.*)",
    "^.*",
    ".?",
    "^.+$",
    "(.+)",
    "^(.+)$",
    "^/?(.*)",
    "^/?(.*)$",
    "^/(.*)$",
    ".+",
    "^([\\s\\S]*)$",
];

/// The rules of a block as steps. `base` is the path of the folder that they belong to, with a slash at its end.
pub(super) fn steps(
    block: &[Directive],
    base: &str,
    is_folder: bool,
    hosts: &[String],
    content: &mut Content,
    ledger: &mut Ledger,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut preceding: Vec<&Directive> = Vec::new();
    let mut base = base.to_owned();
    for directive in block {
        match directive.name.to_ascii_lowercase().as_str() {
            "rewriteengine" => {
                ledger.translated(directive);
                if directive.arg(0).eq_ignore_ascii_case("off") {
                    return Vec::new();
                }
            }
            "rewritebase" => {
                ledger.translated(directive);
                base = format!("{}/", directive.arg(0).trim_end_matches('/'));
            }
            "rewritecond" => preceding.push(directive),
            "rewriterule" => {
                let rule = Rule::of(directive, &base, is_folder);
                let met = conditions(&preceding);
                let from = steps.len();
                let outcome = rule.steps(&met, hosts, content, &mut steps);
                let comment = format!("{}  {}", directive.place, directive.summary());
                for step in &mut steps[from..] {
                    if let Step::Handler(_, table) = step {
                        table.comments.insert(0, comment.clone());
                    }
                }
                report(directive, &preceding, &outcome, ledger);
                preceding.clear();
            }
            _ => {}
        }
    }
    steps
}

/// What has become of a rule.
enum Outcome {
    Translated,
    Different(&'static str),
    Open(String),
    Unprotected(String),
}

fn report(rule: &Directive, conditions: &[&Directive], outcome: &Outcome, ledger: &mut Ledger) {
    for directive in conditions.iter().copied().chain([rule]) {
        match outcome {
            Outcome::Translated => ledger.translated(directive),
            Outcome::Different(reason) => ledger.different(directive, *reason),
            Outcome::Open(advice) => ledger.open(directive, advice.clone()),
            Outcome::Unprotected(advice) => ledger.unprotected(directive, advice.clone()),
        }
    }
}

/// A rule.
struct Rule<'a> {
    expression: String,
    is_all: bool,
    is_negated: bool,
    target: &'a str,
    flags: Vec<String>,
    base: &'a str,
}

impl<'a> Rule<'a> {
    fn of(directive: &'a Directive, base: &'a str, is_folder: bool) -> Self {
        let pattern = directive.arg(0);
        let (is_negated, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |rest| (true, rest));
        let flags = directive.arg(2).trim_matches(['[', ']']);
        let flags: Vec<String> =
            flags.split(',').map(|flag| flag.trim().to_owned()).filter(|flag| !flag.is_empty()).collect();
        // In a folder, rules get the path without the folder.
        let expression = match pattern.strip_prefix('^') {
            Some(rest) if is_folder => format!("^{}{rest}", crate::regexes::escaped(base)),
            _ => pattern.to_owned(),
        };
        Self { expression, is_all: ALL.contains(&pattern), is_negated, target: directive.arg(1), flags, base }
    }

    fn flag(&self, names: &[&str]) -> Option<&str> {
        self.flags.iter().find_map(|flag| {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            names.iter().any(|known| known.eq_ignore_ascii_case(name)).then_some(value)
        })
    }

    fn steps(
        &self,
        met: &Conditions,
        hosts: &[String],
        content: &mut Content,
        steps: &mut Vec<Step>,
    ) -> Outcome {
        let status = self.flag(&["R", "redirect"]).map(|value| match value {
            "" | "temp" => 302,
            "permanent" => 301,
            "seeother" => 303,
            number => number.parse::<u64>().unwrap_or(302),
        });
        let closing = match status {
            _ if self.flag(&["F", "forbidden"]).is_some() => Some(403),
            _ if self.flag(&["G", "gone"]).is_some() => Some(410),
            Some(status) if status >= 400 => Some(status),
            _ => None,
        };
        if let Some(status) = closing {
            return self.close(status, met, steps);
        }
        if self.target == "-" {
            return self.pass(met, content);
        }
        if let Some(outcome) = self.front_controller(met, status, content) {
            return outcome;
        }
        if let Some(why) = &met.unknown {
            return Outcome::Unprotected(format!("{why}: write the route with `when`"));
        }
        let is_slash = status.is_some() && ["%1", "/$1", "$1"].contains(&self.target);
        if met.missing && is_slash {
            return Outcome::Different(
                "Rudy has no redirect for paths with a slash at the end: the application gets them",
            );
        }
        if met.missing || met.existing {
            return Outcome::Open("write `try_files` or a route behind `files` with `next_route`".to_owned());
        }
        let guard = match self.guard() {
            Ok(guard) => guard.and(&met.guard),
            Err(why) => return Outcome::Open(format!("{why}: write its route")),
        };
        if self.flag(&["P", "proxy"]).is_some() {
            return Outcome::Open("write a route with `proxy`".to_owned());
        }
        match status {
            Some(status) => self.redirect(guard, status.clamp(301, 308), met, hosts, steps),
            None => self.rewrite(guard, steps),
        }
    }

    fn guard(&self) -> Result<Guard, String> {
        if self.is_all && !self.is_negated {
            return Ok(Guard::default());
        }
        let guard = Guard::paths([path_pattern(&self.expression, self.ignores_case())?]);
        if self.is_negated { guard.negated().ok_or_else(|| "it is negated".to_owned()) } else { Ok(guard) }
    }

    fn ignores_case(&self) -> bool {
        self.flag(&["NC", "nocase"]).is_some()
    }

    fn close(&self, status: u64, met: &Conditions, steps: &mut Vec<Step>) -> Outcome {
        let exact = self.guard().map(|guard| (guard, false));
        let widened = || {
            if self.is_negated {
                Err("it is negated".to_owned())
            } else {
                closed(&self.expression, self.ignores_case())
            }
        };
        let (guard, is_wider) = match exact.or_else(|_| widened()) {
            Ok(found) => found,
            Err(why) => return Outcome::Unprotected(format!("{why}: write its route with `respond = 403`")),
        };
        let is_unknown = met.unknown.is_some();
        if is_unknown && guard.is_all() && met.guard.is_all() {
            let why = met.unknown.clone().unwrap_or_default();
            return Outcome::Unprotected(format!(
                "{why}: write a route with `when` and `respond = {status}`"
            ));
        }
        let mut table = Table::default();
        table.set("respond", status);
        let outcome = if is_unknown || met.missing || met.existing {
            table.comment("Closed: a condition of the rule has no translation, so all of its paths are.");
            Outcome::Different("a condition has no translation, so more requests are rejected")
        } else if is_wider {
            Outcome::Different("more paths are closed: Rudy has no look-around")
        } else {
            Outcome::Translated
        };
        steps.push(Step::Handler(guard.and(&met.guard), table));
        outcome
    }

    /// `-`: the path stays, and the rules behind are not used.
    fn pass(&self, met: &Conditions, content: &mut Content) -> Outcome {
        if self.flag(&["E", "env"]).is_some() {
            let is_login = self
                .flag(&["E", "env"])
                .is_some_and(|value| value.to_ascii_uppercase().starts_with("HTTP_AUTHORIZATION"));
            return if is_login || met.needless {
                Outcome::Different("applications get the field Authorization without it")
            } else {
                Outcome::Open("there are no variables: write what uses it by hand".to_owned())
            };
        }
        if met.existing {
            content.files_first = true;
            return Outcome::Translated;
        }
        if self.expression.contains("index\\.php") || self.flag(&["L", "END", "last"]).is_none() {
            return Outcome::Different("the route of the script needs no rule");
        }
        Outcome::Open("the rules behind it are used for these paths, too: write a route for them".to_owned())
    }

    /// All paths without a file lead to one script, or to one folder.
    fn front_controller(
        &self,
        met: &Conditions,
        status: Option<u64>,
        content: &mut Content,
    ) -> Option<Outcome> {
        if status.is_some() || !self.is_all || self.is_negated {
            return None;
        }
        let target = self.target.trim_start_matches('/');
        if let Some(folder) = target.strip_suffix("/$1").or_else(|| target.strip_suffix('/'))
            && !folder.contains(['$', '%', '?', ':'])
        {
            content.subfolder = Some(folder.to_owned());
            return Some(Outcome::Translated);
        }
        if !met.missing && !content.files_first {
            return None;
        }
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let path = path.strip_suffix("/$1").unwrap_or(path);
        if path.contains(['$', '%', ':']) || path.is_empty() {
            return None;
        }
        let path = format!("{}{path}", self.base.trim_start_matches('/'));
        let query = query.map(|query| {
            let adds = self.flag(&["QSA", "qsappend"]).is_some();
            format!(
                "?{}{}",
                query.replace("$1", "{path}").replace("%{REQUEST_URI}", "{path}"),
                if adds { "{query}" } else { "" }
            )
        });
        if query.as_ref().is_some_and(|query| query.contains('%') || query.contains('$')) {
            return None;
        }
        content.front = Some(format!("{path}{}", query.unwrap_or_default()));
        Some(match &met.unknown {
            None => Outcome::Translated,
            Some(_) => Outcome::Different(
                "paths without a file lead to the script, whatever their other conditions are",
            ),
        })
    }

    fn redirect(
        &self,
        guard: Guard,
        status: u64,
        met: &Conditions,
        hosts: &[String],
        steps: &mut Vec<Step>,
    ) -> Outcome {
        let mut add = |guard: Guard, to: String| {
            let table_of = Value::table([("to", to.into()), ("status", status.into())]);
            let mut table = Table::default();
            table.set("redirect", table_of);
            steps.push(Step::Handler(guard, table));
        };
        let Some(expression) = met
            .host
            .as_deref()
            .filter(|_| self.target.contains("%1") || self.target.contains("%{HTTP_HOST}"))
        else {
            return match self.target_text(self.target, None) {
                Ok(to) => {
                    add(guard, to);
                    Outcome::Translated
                }
                Err(why) => Outcome::Open(why),
            };
        };
        // The groups of the host are written for each name of the site.
        let Ok(regex) = regex::Regex::new(&format!("(?i){expression}")) else {
            return Outcome::Open("write the redirect: its condition has look-around".to_owned());
        };
        let mut found = false;
        for host in hosts.iter().filter(|host| !host.contains(['*', ':'])) {
            let Some(groups) = regex.captures(host) else { continue };
            let first = groups.get(1).map_or("", |group| group.as_str());
            let target = self.target.replace("%1", first).replace("%{HTTP_HOST}", host);
            if let Ok(to) = self.target_text(&target, Some(host)) {
                add(Guard::header("Host", host.as_str()).and(&guard), to);
                found = true;
            }
        }
        if found {
            Outcome::Translated
        } else {
            Outcome::Open(
                "write a site for the other host with a redirect, as in docs/move-from-apache.md".to_owned(),
            )
        }
    }

    fn target_text(&self, target: &str, host: Option<&str>) -> Result<String, String> {
        let (target, query) = match target.strip_suffix('?') {
            Some(target) => (target, ""),
            None => (target, "{query}"),
        };
        let mut text = target
            .replace("%{HTTP_HOST}", host.unwrap_or("{host}"))
            .replace("%{SERVER_NAME}", "{host}")
            .replace("%{REQUEST_URI}", "{path}")
            .replace("?%{QUERY_STRING}", "");
        let is_below = target.contains("://") || target.starts_with(['/', '%']);
        for group in 0..10_u8 {
            let from = format!("${group}");
            if self.is_all && group == 1 {
                // A pattern for all paths has them without the slash.
                let slash = if text.contains("/$1") { "/$1" } else { "$1" };
                text = text.replace(slash, "{path}");
            } else {
                text = text.replace(&from, &format!("{{{group}}}"));
            }
        }
        if text.contains(['%', '$']) {
            return Err("write the target: Rudy has no placeholder for a variable in it".to_owned());
        }
        if !is_below {
            text = format!("{}{text}", self.base);
        }
        let has_query = text.contains('?') && self.flag(&["QSA", "qsappend"]).is_none();
        Ok(if has_query { text } else { format!("{text}{query}") })
    }

    fn rewrite(&self, guard: Guard, steps: &mut Vec<Step>) -> Outcome {
        let to = match self.target_text(self.target, None) {
            Ok(to) => to,
            Err(why) => return Outcome::Open(why),
        };
        if !to.starts_with('/') {
            return Outcome::Open("write a route with `proxy`: the target is another server".to_owned());
        }
        let to = to.strip_suffix("{query}").filter(|to| !to.contains('?')).unwrap_or(&to).to_owned();
        let path = to.split('?').next().unwrap_or_default().replace("{path}", "/x");
        let sample: String =
            path.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest)).collect();
        let expression = if self.flag(&["NC"]).is_some() {
            format!("(?i){}", self.expression)
        } else {
            self.expression.clone()
        };
        let matches_again = regex::Regex::new(&expression).is_ok_and(|regex| regex.is_match(&sample));
        if matches_again || self.is_all || self.is_negated {
            return Outcome::Open("the new path could match again: write the route for it".to_owned());
        }
        let mut table = Table::default();
        table.set("rewrite", to);
        steps.push(Step::Handler(guard, table));
        Outcome::Translated
    }
}

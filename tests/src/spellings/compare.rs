//! Compares servers: where the first one differs from the others, and why.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::generate::Spelling;
use super::rules::{RULES, Rule};
use super::send::ResponseSummary;

/// The responses of several servers to the same spellings. The first server is compared with the others.
pub struct Comparison<'a> {
    /// The spellings.
    pub spellings: &'a [Spelling],
    /// The names of the servers, and their responses to each spelling.
    pub servers: Vec<(&'a str, Vec<ResponseSummary>)>,
}

/// A spelling to which the first server responds differently from another one.
#[derive(Debug)]
pub struct Difference<'a> {
    /// The spelling.
    pub spelling: &'a Spelling,
    /// The response of each server.
    pub seen: Vec<&'a ResponseSummary>,
    /// The rule that explains the difference.
    pub rule: Option<&'static Rule>,
}

impl<'a> Comparison<'a> {
    /// Returns all spellings to which the first server responds differently from at least one other.
    pub fn differences(&'a self) -> Vec<Difference<'a>> {
        let of_one = |(index, spelling): (usize, &'a Spelling)| {
            let seen: Vec<&ResponseSummary> = self.servers.iter().map(|(_, seen)| &seen[index]).collect();
            let differs = seen[1..].iter().any(|other| differ(seen[0], other));
            let rule = RULES.iter().find(|rule| rule.explains(spelling, seen[0]));
            differs.then_some(Difference { spelling, seen, rule })
        };
        self.spellings.iter().enumerate().filter_map(of_one).collect()
    }

    /// Describes groups of equal differences: the responses, their number, the tags, and an example.
    pub fn describe(&self, differences: &[&Difference]) -> String {
        let mut groups: BTreeMap<(Vec<&str>, String), Vec<&Difference>> = BTreeMap::new();
        for difference in differences {
            let outcome = self.outcome(difference);
            groups.entry((difference.spelling.tags.clone(), outcome)).or_default().push(difference);
        }
        let mut text = String::new();
        for ((tags, outcome), differences) in groups {
            let example = example(differences[0].spelling);
            let _ = writeln!(text, "{} ({})\n  {outcome}\n  {example}", tags.join(" "), differences.len());
        }
        text
    }

    /// Returns the rules that explain none of these differences, and so are wrong or outdated.
    pub fn unused_rules(differences: &[Difference]) -> Vec<&'static Rule> {
        let is_used = |rule: &&Rule| {
            differences.iter().any(|difference| difference.rule.is_some_and(|by| std::ptr::eq(by, *rule)))
        };
        RULES.iter().filter(|rule| !is_used(rule)).collect()
    }

    /// Describes each rule that explains differences, with their number and an example.
    pub fn describe_rules(&self, differences: &[Difference]) -> String {
        let mut text = String::new();
        for rule in RULES.iter() {
            let of_rule = |difference: &&Difference| difference.rule.is_some_and(|by| std::ptr::eq(by, rule));
            let explained: Vec<&Difference> = differences.iter().filter(of_rule).collect();
            if let Some(first) = explained.first() {
                let _ = writeln!(text, "{} of {}: {}", explained.len(), rule.tags.join(" "), rule.reason);
                let _ = writeln!(text, "  {}\n  {}", self.outcome(first), example(first.spelling));
            }
        }
        text
    }

    fn outcome(&self, difference: &Difference) -> String {
        let names = self.servers.iter().map(|(name, _)| name);
        let each = names.zip(&difference.seen).map(|(name, seen)| format!("{name}: {}", seen.text()));
        each.collect::<Vec<_>>().join(" | ")
    }
}

/// Returns the beginning of a spelling.
fn example(spelling: &Spelling) -> String {
    spelling.bytes.escape_ascii().to_string().chars().take(300).collect()
}

impl Difference<'_> {
    /// Whether all other servers respond differently from the first.
    pub fn is_from_all(&self) -> bool {
        self.seen[1..].iter().all(|other| differ(self.seen[0], other))
    }
}

impl ResponseSummary {
    fn is_success(&self) -> bool {
        self.first.starts_with('2') || self.first.starts_with("bare")
    }
}

/// Whether two servers differ. After an error, servers may keep the connection or not; after a success, both must parse the same
/// next request.
fn differ(one: &ResponseSummary, other: &ResponseSummary) -> bool {
    one.first != other.first || (one.is_success() && one.then != other.then)
}

//! Servers beside each other: where the first one differs from the others, and why.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::ask::Seen;
use super::generate::Spelling;
use super::rules::{RULES, Rule};

/// What several servers made of the same spellings. The first server is the one in question.
pub struct Comparison<'a> {
    /// What was sent.
    pub spellings: &'a [Spelling],
    /// The servers' names, and what each made of each spelling.
    pub servers: Vec<(&'a str, Vec<Seen>)>,
}

/// A spelling of which the first server makes something else than another one.
#[derive(Debug)]
pub struct Difference<'a> {
    /// What was sent.
    pub spelling: &'a Spelling,
    /// What each server made of it.
    pub seen: Vec<&'a Seen>,
    /// What explains it.
    pub rule: Option<&'static Rule>,
}

impl<'a> Comparison<'a> {
    /// Every spelling of which the first server makes something else than at least one other.
    #[must_use]
    pub fn differences(&'a self) -> Vec<Difference<'a>> {
        let of_one = |(index, spelling): (usize, &'a Spelling)| {
            let seen: Vec<&Seen> = self.servers.iter().map(|(_, seen)| &seen[index]).collect();
            let differs = seen[1..].iter().any(|other| differ(seen[0], other));
            let rule = RULES.iter().find(|rule| rule.explains(spelling, seen[0]));
            differs.then_some(Difference { spelling, seen, rule })
        };
        self.spellings.iter().enumerate().filter_map(of_one).collect()
    }

    /// Differences as text, those alike together: what the servers did, how often, by which tags, and an example.
    #[must_use]
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

    /// The rules that explain none of these differences: what they say is not so, or not so any more.
    #[must_use]
    pub fn unused_rules(differences: &[Difference]) -> Vec<&'static Rule> {
        let is_used = |rule: &&Rule| {
            differences.iter().any(|difference| difference.rule.is_some_and(|by| std::ptr::eq(by, *rule)))
        };
        RULES.iter().filter(|rule| !is_used(rule)).collect()
    }

    /// Every rule that explains something, with how many differences, and an example.
    #[must_use]
    pub fn describe_rules(&self, differences: &[Difference]) -> String {
        let mut text = String::new();
        for rule in RULES {
            let of_rule = |difference: &&Difference| difference.rule.is_some_and(|by| std::ptr::eq(by, rule));
            let explained: Vec<&Difference> = differences.iter().filter(of_rule).collect();
            if let Some(first) = explained.first() {
                let _ = writeln!(text, "{} of {}: {}", explained.len(), rule.tags.join(" "), rule.because);
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

/// The beginning of what was sent.
fn example(spelling: &Spelling) -> String {
    spelling.bytes.escape_ascii().to_string().chars().take(300).collect()
}

impl Difference<'_> {
    /// Whether all of the others make something else of it than the first server.
    #[must_use]
    pub fn is_from_all(&self) -> bool {
        self.seen[1..].iter().all(|other| differ(self.seen[0], other))
    }
}

impl Seen {
    fn is_success(&self) -> bool {
        self.first.starts_with('2') || self.first.starts_with("bare")
    }
}

/// Whether a connection goes on after an error is up to each server; after a success both have to see the same next request.
fn differ(one: &Seen, other: &Seen) -> bool {
    one.first != other.first || (one.is_success() && one.then != other.then)
}

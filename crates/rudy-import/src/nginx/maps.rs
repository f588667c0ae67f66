//! `map` blocks.

use super::Context;
use super::scope::Scope;
use super::text::{Use, translate};
use crate::regexes::wildcards;
use crate::toml::{Table, Value};

impl Context<'_> {
    /// Whether a variable is the scheme that a proxy in front reports.
    pub(super) fn is_forwarded_scheme(&self, value: &str) -> bool {
        let name = value.trim_start_matches('$').trim_matches(['{', '}']);
        self.maps.get(name).is_some_and(|map| map.arg(0) == "$http_x_forwarded_proto")
    }

    /// The placeholder for a variable of a `map`, whose table is added to the configuration.
    pub(super) fn map(&mut self, variable: &str) -> Option<String> {
        let name: String =
            variable.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
        if self.used_maps.contains_key(&name) {
            return Some(format!("{{map.{name}}}"));
        }
        let block = self.maps.get(variable).copied()?;
        let scope = Scope::default();
        // A map cannot depend on itself.
        self.maps.remove(variable);
        let from = translate(block.arg(0), Use::Field, &scope, self).ok()?;
        let mut values = Vec::new();
        let mut default = None;
        for line in block.children() {
            let text = translate(line.arg(0), Use::Field, &scope, self).ok()?;
            match line.name.as_str() {
                "default" => default = Some(text),
                "hostnames" | "volatile" => {}
                key => values.extend(patterns(key)?.into_iter().map(|key| (key, Value::from(text.as_str())))),
            }
        }
        let mut table = Table::default();
        table.comment(format!("{}  map {} {}", block.place, block.arg(0), block.arg(1)));
        table.set("from", from);
        table.set("values", Value::Table(values));
        if let Some(default) = default {
            table.set("default", default);
        }
        self.ledger.translated(block);
        self.used_maps.insert(name.clone(), table);
        Some(format!("{{map.{name}}}"))
    }
}

/// The values that a key of a map means.
fn patterns(key: &str) -> Option<Vec<String>> {
    let key = key.strip_prefix('\\').unwrap_or(key);
    match key.strip_prefix("~*").or_else(|| key.strip_prefix('~')) {
        Some(expression) => wildcards(expression),
        None if key.contains('*') => None,
        None => Some(vec![key.to_owned()]),
    }
}

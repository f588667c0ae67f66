//! Which requests a setting or a handler of another server is for, as the path and the conditions of a route.

use crate::toml::{Table, Value};

/// Conditions, all of which a request must meet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Guard {
    /// Lists of patterns, of each of which one must match.
    paths: Vec<Vec<String>>,
    /// Conditions with their names in `when`.
    is: Vec<(String, Value)>,
    /// Tables of conditions that the request must not meet together.
    not: Vec<Vec<(String, Value)>>,
}

impl Guard {
    /// The paths that match one of these patterns.
    pub(crate) fn paths(patterns: impl IntoIterator<Item = String>) -> Self {
        let patterns: Vec<String> = patterns.into_iter().collect();
        let is_all = patterns.iter().any(|pattern| pattern == "/*");
        Self { paths: if is_all { Vec::new() } else { vec![patterns] }, ..Self::default() }
    }

    /// A condition of `when`.
    pub(crate) fn condition(name: &str, value: impl Into<Value>) -> Self {
        Self { is: vec![(name.to_owned(), value.into())], ..Self::default() }
    }

    /// A condition on a header field.
    pub(crate) fn header(name: &str, value: impl Into<Value>) -> Self {
        Self::condition("headers", Value::table([(name, value.into())]))
    }

    /// Whether it is for all requests.
    pub(crate) fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// The requests that meet both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        // The last list is the innermost one, and becomes the path of the route.
        both.paths.extend(other.paths.iter().filter(|list| !self.paths.contains(list)).cloned());
        both.is.extend(other.is.iter().filter(|pair| !self.is.contains(pair)).cloned());
        both.not.extend(other.not.iter().filter(|table| !self.not.contains(table)).cloned());
        both
    }

    /// The requests that do not meet it. `None` if Rudy cannot say so: its conditions have a `not` themselves.
    pub(crate) fn negated(&self) -> Option<Self> {
        if !self.not.is_empty() {
            let [table] = &self.not[..] else { return None };
            let is_alone = self.paths.is_empty() && self.is.is_empty();
            return is_alone.then(|| Self::of_table(table));
        }
        if self.paths.len() > 1 {
            return None;
        }
        let mut table = self.is.clone();
        if let Some(list) = self.paths.first() {
            table.insert(0, ("path".to_owned(), Value::texts(list.clone())));
        }
        Some(Self { not: vec![table], ..Self::default() })
    }

    fn of_table(table: &[(String, Value)]) -> Self {
        let mut guard = Self::default();
        for (name, value) in table {
            match (name.as_str(), value) {
                ("path", Value::Text(pattern)) => guard.paths.push(vec![pattern.clone()]),
                ("path", Value::List(patterns)) => {
                    let texts = patterns.iter().filter_map(|value| match value {
                        Value::Text(text) => Some(text.clone()),
                        _ => None,
                    });
                    guard.paths.push(texts.collect());
                }
                _ => guard.is.push((name.clone(), value.clone())),
            }
        }
        guard
    }

    /// Whether every request that meets `self` meets `other`, as far as it is obvious.
    pub(crate) fn implies(&self, other: &Self) -> bool {
        let has_path = |list: &Vec<String>| {
            let is_within =
                |own: &Vec<String>| own.iter().all(|path| list.iter().any(|all| covers(all, path)));
            self.paths.iter().any(is_within)
        };
        other.paths.iter().all(has_path)
            && other.is.iter().all(|pair| self.is.contains(pair))
            && other.not.iter().all(|table| self.not.contains(table))
    }

    /// Whether no request meets both, as far as it is obvious.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        let apart = |one: &Vec<String>, two: &Vec<String>| {
            one.iter().all(|one| two.iter().all(|two| is_apart(one, two)))
        };
        let negates = |one: &Self, two: &Self| one.negated().is_some_and(|not| two.implies(&not));
        self.paths.iter().any(|one| other.paths.iter().any(|two| apart(one, two)))
            || negates(self, other)
            || negates(other, self)
    }

    /// The innermost patterns of the path.
    pub(crate) fn path(&self) -> &[String] {
        self.paths.last().map_or(&[], Vec::as_slice)
    }

    /// The same with other patterns of the path instead of the innermost ones.
    pub(crate) fn with_path(&self, patterns: Vec<String>) -> Self {
        let mut guard = self.clone();
        guard.paths.pop();
        guard.paths.push(patterns);
        guard
    }

    /// A route for these requests.
    pub(crate) fn route(&self) -> Table {
        let mut route = Table::default();
        let (mut when, mut not) = (Vec::<(String, Value)>::new(), Vec::new());
        let mut lists = self.paths.clone();
        // A list that another one is within adds nothing.
        if let Some(last) = lists.pop() {
            let adds = |list: &Vec<String>| !last.iter().all(|path| list.iter().any(|all| covers(all, path)));
            lists.retain(adds);
            route.set("path", Value::texts(last));
        } else {
            route.set("path", "/*");
        }
        let paths = lists.into_iter().map(|list| ("path".to_owned(), Value::texts(list)));
        for (name, value) in paths.chain(self.is.iter().cloned()) {
            add(&mut when, &mut not, name, value);
        }
        not.extend(self.not.iter().map(|table| Value::Table(table.clone())));
        if !not.is_empty() {
            when.push(("not".to_owned(), Value::one_or_many(not)));
        }
        if !when.is_empty() {
            route.set("when", Value::Table(when));
        }
        route
    }
}

/// Adds a condition. A second one of the same kind is what the request must not fail to meet.
fn add(when: &mut Vec<(String, Value)>, not: &mut Vec<Value>, name: String, value: Value) {
    match (when.iter_mut().find(|(known, _)| *known == name), value) {
        (None, value) => when.push((name, value)),
        (Some((_, Value::Table(old))), Value::Table(new))
            if !new.iter().any(|(key, _)| old.iter().any(|(known, _)| known.eq_ignore_ascii_case(key))) =>
        {
            old.extend(new);
        }
        (Some(_), value) => {
            not.push(Value::table([("not", Value::table([(name, value)]))]));
        }
    }
}

/// Whether a pattern matches all that another one matches.
pub(crate) fn covers(all: &str, part: &str) -> bool {
    if all == "/*" || all == part {
        return true;
    }
    let Some((folder, has_itself)) = folder(all) else { return false };
    let is_below = fixed(part).strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let is_same = has_itself && (part == folder || part.strip_suffix("/*") == Some(folder));
    is_below || is_same
}

/// The folder of a pattern such as `/docs/*` or `/docs/**`, and whether the folder itself matches.
fn folder(pattern: &str) -> Option<(&str, bool)> {
    let (folder, has_itself) = match (pattern.strip_suffix("/*"), pattern.strip_suffix("/**")) {
        (Some(folder), _) => (folder, true),
        (_, Some(folder)) => (folder, false),
        _ => return None,
    };
    is_plain(folder).then_some((folder, has_itself))
}

fn is_plain(pattern: &str) -> bool {
    pattern.starts_with('/') && !pattern.contains(['*', '?', '[', '{'])
}

/// The text at the start of a pattern that all its paths have.
fn fixed(pattern: &str) -> &str {
    if !pattern.starts_with('/') {
        return "";
    }
    match pattern.find(['*', '?', '[', '{']) {
        None => pattern,
        Some(end) if &pattern[end..] == "*" => pattern[..end].trim_end_matches('/'),
        Some(end) => &pattern[..end],
    }
}

/// Whether no path matches both patterns.
fn is_apart(one: &str, two: &str) -> bool {
    let is_simple = |pattern: &str| is_plain(pattern) || folder(pattern).is_some();
    is_simple(one) && is_simple(two) && one != two && !covers(one, two) && !covers(two, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_others() {
        for (all, part, expected) in [
            ("/*", "*.php", true),
            ("/a/*", "/a", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/*", true),
            ("/a/*", "/ab", false),
            ("/a/*", "/ab/*", false),
            ("/a/*", "/a*", false),
            ("/a/*", "*.php", false),
            ("/a", "/a/*", false),
            ("/a/**", "/a", false),
            ("/a/**", "/a/b", true),
            ("/a/*", "/a/**", true),
        ] {
            assert_eq!(covers(all, part), expected, "{all} {part}");
        }
    }

    #[test]
    fn a_second_condition_of_a_kind_is_a_double_negation() {
        let both = Guard::condition("methods", "GET").and(&Guard::condition("methods", "HEAD"));
        let mut text = String::new();
        both.route().write("", "", &mut text);
        assert_eq!(
            text,
            "path = \"/*\"\nwhen = { methods = \"GET\", not = { not = { methods = \"HEAD\" } } }\n"
        );
    }
}

//! What the tables of a program can say about mistakes in them.

use crate::diagnostics::Problem;
use crate::location::Location;
use crate::nearest::nearest;

/// Advice of the program whose tables are read. `()` gives none.
pub trait Hints: Sync {
    /// What to write in place of a key that its table does not have. Without advice, the message names the most similar key, or all.
    fn unknown(&self, location: &Location, key: &str) -> Option<String> {
        let _ = (location, key);
        None
    }

    /// Says in `problem` what the table at `location` needs as its `key`.
    fn missing(&self, location: &Location, key: &str, problem: Problem) -> Problem {
        let _ = location;
        problem.label(format!("needs `{key}`"))
    }

    /// An example for the key at `location`, whose value has another type than `expected`.
    fn example(&self, location: &Location, expected: &str) -> Option<String> {
        let _ = (location, expected);
        None
    }

    /// What a file that is not TOML is instead, and what to do, in a sentence. Without advice, the syntax errors are reported.
    fn other_format(&self, text: &str) -> Option<String> {
        let _ = text;
        None
    }

    /// The names of a table that needs one of several keys, and of what they are.
    fn choice(&self) -> (&'static str, &'static str) {
        ("table", "kind")
    }
}

impl Hints for () {}

/// Reports an unknown key.
pub(crate) fn unknown(hints: &dyn Hints, location: &Location, key: &str, known: &[&'static str]) -> Problem {
    let problem = Problem::key(location, format!("unknown key `{key}`"));
    if let Some(advice) = hints.unknown(location, key) {
        return problem.label(advice);
    }
    let known: Vec<_> = known.iter().copied().filter(|key| !key.starts_with('$')).collect();
    if let Some(near) = nearest(key, known.iter().copied()) {
        return problem.label(format!("did you mean `{near}`?"));
    }
    let names: Vec<_> = known.iter().map(|key| format!("`{key}`")).collect();
    problem.label("not allowed here").help(format!("the keys of this table are {}", names.join(", ")))
}

/// Reports a missing key of the table at `location`.
pub fn missing(hints: &dyn Hints, location: &Location, key: &str) -> Problem {
    let problem = Problem::value(&location.key(key), format!("the key `{key}` is missing"));
    hints.missing(location, key, problem)
}

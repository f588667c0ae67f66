//! The syntax of `HAProxy`: a directive per line, in sections. No library in Rust reads it.

use std::sync::Arc;

use crate::syntax::{Directive, Place, SyntaxError};

/// The words that begin a section.
const SECTIONS: [&str; 14] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "peers",
    "resolvers",
    "mailers",
    "program",
    "cache",
    "http-errors",
    "ring",
    "log-forward",
];

/// Reads the sections of a file, each with its directives.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut sections: Vec<Directive> = Vec::new();
    for (at, line) in text.trim_start_matches('\u{FEFF}').lines().enumerate() {
        let place = Place { file: Arc::clone(file), line: at + 1 };
        let error = |problem: &str| SyntaxError { place: place.clone(), problem: problem.to_owned() };
        let mut words = words(line).ok_or_else(|| error("a text in quotes has no end"))?;
        if words.is_empty() {
            continue;
        }
        let name = words.remove(0);
        // Conditions of the file itself are for another version, or for the environment.
        if name.starts_with('.') {
            return Err(error("conditions of the file are not read: expected a file without `.if`"));
        }
        let is_section = SECTIONS.contains(&name.as_str());
        let block = is_section.then(Vec::new);
        let directive = Directive { name, args: words, block, place: place.clone() };
        match sections.last_mut().and_then(|section| section.block.as_mut()) {
            _ if is_section => sections.push(directive),
            Some(block) => block.push(directive),
            None => return Err(error("expected a section, such as `frontend`, before this line")),
        }
    }
    Ok(sections)
}

/// The words of a line, up to a comment; `None` if a quote has no end.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut letters = line.chars().peekable();
    let mut current: Option<String> = None;
    while let Some(letter) = letters.next() {
        match letter {
            '#' => break,
            '\\' => current.get_or_insert_default().extend(letters.next().map(|next| match next {
                // An escape that is no letter of HAProxy's own belongs to a regular expression.
                ' ' | '#' | '"' | '\'' | '\\' => next.to_string(),
                _ => format!("\\{next}"),
            })),
            '"' | '\'' => {
                let word = current.get_or_insert_default();
                loop {
                    match letters.next()? {
                        next if next == letter => break,
                        '\\' if letter == '"' => word.extend(letters.next()),
                        next => word.push(next),
                    }
                }
            }
            _ if letter.is_whitespace() => words.extend(current.take()),
            _ => current.get_or_insert_default().push(letter),
        }
    }
    words.extend(current);
    Some(words)
}

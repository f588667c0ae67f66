//! The syntax of nginx: directives with arguments, and blocks of them. Strict, as nginx is: what nginx rejects is an error.
//!
//! The libraries for it are no help here: `nginx-config` knows only some directives and is no longer maintained, and
//! `nginx-lint-parser` repairs errors instead of reporting them.

mod lexer;
mod parser;

use std::fmt;
use std::sync::Arc;

pub(crate) use self::parser::parse;

/// The deepest nesting of blocks, so that a file cannot exhaust the stack.
pub(crate) const DEPTH_MAX: usize = 50;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The name of the file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A file that is no configuration of its server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct SyntaxError {
    /// Where it is.
    pub place: Place,
    /// What is wrong, and what was expected.
    pub problem: String,
}

/// A directive, with its block if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directive {
    /// The name.
    pub(crate) name: String,
    /// The arguments, without quotes and escapes.
    pub(crate) args: Vec<String>,
    /// The directives between braces.
    pub(crate) block: Option<Vec<Directive>>,
    /// Where its name is.
    pub(crate) place: Place,
}

impl Directive {
    /// An argument, or an empty text.
    pub(crate) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The directives of the block.
    pub(crate) fn children(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// As it is shown in comments and reports: the name and the arguments, on one line and not too long.
    pub(crate) fn summary(&self) -> String {
        const LENGTH_MAX: usize = 100;
        let words = std::iter::once(&self.name).chain(&self.args);
        let text = words
            .map(|word| word.replace(char::is_control, " ").replace(crate::toml::VARIABLE, "${"))
            .collect::<Vec<_>>()
            .join(" ");
        match text.char_indices().nth(LENGTH_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}

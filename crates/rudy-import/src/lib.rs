//! Translates configurations of nginx into `rudy.toml`. Text in, text out: the caller reads the files that are included.
//!
//! Each directive gets a verdict: translated, different by design, or not translated. What closes something stays closed if it cannot be
//! translated.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod files;
mod nginx;
mod report;
mod syntax;
mod toml;

pub use report::{Entry, Report};
pub use syntax::{Place, SyntaxError};

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name, for messages.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// Returns the files that an `include` names: a path, or a pattern with `*`. None if there are none.
pub type ReadFiles<'a> = &'a mut dyn FnMut(&str) -> Vec<File>;

/// A translated configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The text of `rudy.toml`.
    pub toml: String,
    /// What has become of the directives.
    pub report: Report,
}

/// Translates a configuration of nginx: its main file, a part of it such as a file with servers, or the output of `nginx -T`.
///
/// # Errors
///
/// The text is no configuration of nginx.
pub fn nginx(main: &File, read: ReadFiles<'_>) -> Result<Import, SyntaxError> {
    let mut ledger = report::Ledger::default();
    let directives = files::read_all(main, read, &mut ledger)?;
    let toml = nginx::translate(&directives, &mut ledger);
    Ok(Import { toml, report: ledger.into_report() })
}

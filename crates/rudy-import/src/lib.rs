//! Translates configurations of nginx, Caddy, Apache and `HAProxy` into `rudy.toml`. Text in, text out: the caller reads the files that are included.
//!
//! Each directive gets a verdict: translated, different by design, or not translated. What closes something stays closed if it cannot be
//! translated.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod apache;
mod caddy;
mod chain;
mod files;
mod guard;
mod haproxy;
mod hoist;
mod nginx;
mod regexes;
mod report;
mod site;
mod source;
mod syntax;
mod toml;

pub use report::{Entry, Report};
pub use source::Source;
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
    /// Files that it names, such as users with the hashes of their passwords.
    pub files: Vec<File>,
    /// What has become of the directives.
    pub report: Report,
}

/// Translates a configuration of a server.
///
/// # Errors
///
/// The text is no configuration of this server.
pub fn import(source: Source, main: &File, read: ReadFiles<'_>) -> Result<Import, SyntaxError> {
    match source {
        Source::Nginx => nginx(main, read),
        Source::Caddy => caddy(main, read),
        Source::Apache => apache(main, read),
        Source::Haproxy => haproxy(main),
    }
}

/// Translates a Caddyfile.
///
/// # Errors
///
/// The text is no Caddyfile.
pub fn caddy(main: &File, read: ReadFiles<'_>) -> Result<Import, SyntaxError> {
    let mut ledger = report::Ledger::default();
    let blocks = caddy::read(main, read, &mut ledger)?;
    let (toml, files) = caddy::translate(&blocks, &mut ledger);
    Ok(Import { toml, files, report: ledger.into_report() })
}

/// Translates a configuration of Apache: its main file, a part of it with virtual hosts, or a `.htaccess`.
///
/// # Errors
///
/// The text is no configuration of Apache.
pub fn apache(main: &File, read: ReadFiles<'_>) -> Result<Import, SyntaxError> {
    let mut ledger = report::Ledger::default();
    let directives = apache::read(main, read, &mut ledger)?;
    let (folder, name) = main.name.rsplit_once('/').unwrap_or(("", &main.name));
    let folder = name.contains("htaccess").then_some(folder);
    let toml = apache::translate(&directives, folder, &mut ledger);
    Ok(Import { toml, files: Vec::new(), report: ledger.into_report() })
}

/// Translates a configuration of `HAProxy`.
///
/// # Errors
///
/// The text is no configuration of `HAProxy`.
pub fn haproxy(main: &File) -> Result<Import, SyntaxError> {
    let mut ledger = report::Ledger::default();
    let sections = haproxy::read(main)?;
    let toml = haproxy::translate(&sections, &mut ledger);
    Ok(Import { toml, files: Vec::new(), report: ledger.into_report() })
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
    Ok(Import { toml, files: Vec::new(), report: ledger.into_report() })
}

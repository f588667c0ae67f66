//! The gateway with apps of other FastCGI implementations. All apps implement the same requests ([`apps`]),
//! and pass the same checks ([`checks`]).

pub(crate) mod apps;
mod checks;
mod git;
mod go;
mod guide;
mod php;

use self::apps::{App, Program};

#[test]
fn php_fpm_passes_all_checks() {
    let Some(app) = App::start(Program::PhpFpm { children: 4 }) else { return };
    app.passes_all_checks();
}

#[test]
fn php_cgi_passes_all_checks() {
    let Some(app) = App::start(Program::PhpCgi) else { return };
    app.passes_all_checks();
}

#[test]
fn go_passes_all_checks() {
    let Some(app) = App::start(Program::Go) else { return };
    app.passes_all_checks();
}

#[test]
fn perl_passes_all_checks() {
    let Some(app) = App::start(Program::Perl) else { return };
    app.passes_all_checks();
}

#[test]
fn python_passes_all_checks() {
    let Some(app) = App::start(Program::Python) else { return };
    app.passes_all_checks();
}

#[test]
fn a_cgi_program_behind_fcgiwrap_passes_all_checks() {
    let Some(app) = App::start(Program::Fcgiwrap) else { return };
    app.passes_all_checks();
}

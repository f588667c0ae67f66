//! The gateway with apps of other FastCGI implementations. All apps implement the same requests ([`apps`]),
//! and pass the same checks ([`checks`]).

pub(crate) mod apps;
mod checks;
mod git;
mod go;
mod guide;
mod php;
mod uwsgi;

use self::apps::{App, Program};

fn passes_all_checks(program: Program) {
    let Some(app) = App::start(program) else { return };
    app.passes_all_checks();
}

#[test]
fn php_fpm_passes_all_checks() {
    passes_all_checks(Program::PhpFpm { children: 4 });
}

#[test]
fn php_cgi_passes_all_checks() {
    passes_all_checks(Program::PhpCgi);
}

#[test]
fn go_passes_all_checks() {
    passes_all_checks(Program::Go);
}

#[test]
fn perl_passes_all_checks() {
    passes_all_checks(Program::Perl);
}

#[test]
fn python_passes_all_checks() {
    passes_all_checks(Program::Python);
}

#[test]
fn a_cgi_program_behind_fcgiwrap_passes_all_checks() {
    passes_all_checks(Program::Fcgiwrap);
}

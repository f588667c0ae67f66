//! The gateway in front of apps that did not learn FastCGI from us. Each does the same ([`apps`]), and is put to the same
//! questions ([`questions`]).

pub(crate) mod apps;
mod git;
mod go;
mod guide;
mod php;
mod questions;

use self::apps::{App, Program};

#[test]
fn php_fpm_is_passed_everything_and_passes_everything_back() {
    let Some(app) = App::start(Program::PhpFpm { children: 4 }) else { return };
    app.answers_every_question();
}

#[test]
fn php_cgi_is_passed_everything_and_passes_everything_back() {
    let Some(app) = App::start(Program::PhpCgi) else { return };
    app.answers_every_question();
}

#[test]
fn go_is_passed_everything_and_passes_everything_back() {
    let Some(app) = App::start(Program::Go) else { return };
    app.answers_every_question();
}

#[test]
fn perl_is_passed_everything_and_passes_everything_back() {
    let Some(app) = App::start(Program::Perl) else { return };
    app.answers_every_question();
}

#[test]
fn python_is_passed_everything_and_passes_everything_back() {
    let Some(app) = App::start(Program::Python) else { return };
    app.answers_every_question();
}

#[test]
fn a_cgi_program_behind_fcgiwrap_is_passed_everything_and_passes_everything_back() {
    let Some(app) = App::start(Program::Fcgiwrap) else { return };
    app.answers_every_question();
}

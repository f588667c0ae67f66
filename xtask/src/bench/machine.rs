//! What was measured on, and with what: figures without it mean nothing.

use std::fs;
use std::process::Command;
use std::thread;

use super::server::Kind;
use crate::{Outcome, command, workspace};

pub(crate) const WRK: &str = "wrk";

/// Lines of a name and what it is.
pub(super) fn describe(kinds: [Kind; 2]) -> Outcome<Vec<(&'static str, String)>> {
    let mut lines = describe_machine();
    if kinds.contains(&Kind::Rudy) {
        let version = said(Command::new(Kind::Rudy.program()).arg("--version"))?;
        lines.push(("rudy", format!("{version}, started as `{}`", Kind::Rudy.started_as())));
    }
    if kinds.contains(&Kind::Floor) {
        lines.push((
            "floor",
            format!("an epoll loop that receives and sends, `{}`", Kind::Floor.started_as()),
        ));
    }
    let version = said(Command::new(Kind::Nginx.program()).arg("-v"))?;
    lines.push(("nginx", format!("{version}, started as `{}`", Kind::Nginx.started_as())));
    lines.push(("wrk", said(Command::new(WRK).arg("-v"))?));
    Ok(lines)
}

/// The machine and the source, without any program.
pub(crate) fn describe_machine() -> Vec<(&'static str, String)> {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    vec![
        ("processor", format!("{}, {cores} cores", processor())),
        ("kernel", first_line(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())),
        ("source", source()),
    ]
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.trim().into())
}

/// The commit, and whether anything differs from it.
fn source() -> String {
    let git = |arguments: &[&str]| {
        command::output(Command::new("git").current_dir(workspace::root()).args(arguments)).ok()
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "not under git".into() };
    let changed = git(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty());
    format!("commit {}{}", commit.trim(), if changed { " with changes" } else { "" })
}

/// The first line that a program says, on stdout or, as nginx does, on stderr; wrk ends with 1 after it.
fn said(program: &mut Command) -> Outcome<String> {
    let output = program.output().map_err(|error| command::cannot_start(program, &error))?;
    let both = [output.stdout, output.stderr].concat();
    Ok(first_line(&String::from_utf8_lossy(&both)))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().into()
}

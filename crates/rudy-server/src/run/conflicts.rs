//! Settings that conflict with `user` or `sandbox`.

use rudy_config::{Diagnostics, Location, Problem};
use rudy_gateway::fastcgi::AppTable;
use rudy_system::user::User;

use super::sandbox;
use crate::config::Config;

/// Checks for all conflicts. Looking up users may wait for the network.
pub(super) fn check(config: &Config) -> Result<(), Diagnostics> {
    let mut problems = other_users(config);
    if config.sandbox {
        problems.extend(in_sandbox(config));
        problems.extend(
            sandbox::unsupported()
                .map(|why| Problem::value(&Location::file(0).key("sandbox"), why).label("needs Landlock")),
        );
    }
    to_result(config, problems)
}

/// Checks a new configuration of a server that runs in the sandbox.
pub(super) fn check_in_sandbox(config: &Config) -> Result<(), Diagnostics> {
    to_result(config, in_sandbox(config).collect())
}

fn to_result(config: &Config, problems: Vec<Problem>) -> Result<(), Diagnostics> {
    if problems.is_empty() { Ok(()) } else { Err(Diagnostics::new(config.sources.clone(), problems)) }
}

/// Reports apps with a `command`, and the hook for TXT records: they would inherit the sandbox of Rudy.
fn in_sandbox(config: &Config) -> impl Iterator<Item = Problem> {
    let hook = config.acme.dns_hook.as_ref().map(|_| {
        let location = Location::file(0).key("acme").key("dns_hook");
        let problem = Problem::value(&location, "a program cannot be started in the sandbox");
        problem
            .label("cannot be started")
            .also(&Location::file(0).key("sandbox"), "the sandbox is enabled here")
    });
    let apps = started_apps(config).map(|(_, location)| {
        let problem = Problem::key(&location.key("command"), "an app cannot be started in the sandbox");
        let problem = problem
            .label("cannot be started")
            .also(&Location::file(0).key("sandbox"), "the sandbox is enabled here");
        problem.help("run this app as a separate systemd service, and set its `address` instead of `command`")
    });
    apps.chain(hook)
}

/// Reports apps that would run as another user, which Rudy cannot become after dropping root.
fn other_users(config: &Config) -> Vec<Problem> {
    let Some(user) = &config.user else { return Vec::new() };
    let others = started_apps(config).filter_map(|(app, location)| {
        let other = app.processes.user.as_ref().filter(|other| is_another(other, user))?;
        let location = location.key("processes").key("user");
        let problem = Problem::value(&location, format!("Rudy runs as `{user}` and cannot start an app as `{other}`"));
        let problem = problem.label("another user").also(&Location::file(0).key("user"), "the user of Rudy");
        let help = "run this app as a separate systemd service with `User=`, and set its `address` instead of `command`";
        Some(problem.help(help))
    });
    others.collect()
}

/// Whether the users or groups differ. Unknown users are reported elsewhere.
fn is_another(one: &str, other: &str) -> bool {
    one != other
        && match (User::find(one), User::find(other)) {
            (Ok(one), Ok(other)) => (one.uid, one.gid) != (other.uid, other.gid),
            _ => false,
        }
}

/// The apps that Rudy starts, with the locations of their tables.
fn started_apps(config: &Config) -> impl Iterator<Item = (&AppTable, Location)> {
    config.apps().filter(|(app, _)| app.command.is_some())
}

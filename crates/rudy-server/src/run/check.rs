//! `rudy check`: finds everything that would make a start fail.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rudy_config::{Diagnostics, Location, Problem};
use rudy_pipeline::Resources;
use rudy_site_tls::TlsState;
use rudy_system::watched_files::WatchedFiles;
use rudy_units::Visible;
use rustix::fs::{Access, access};

use super::exit::{Exit, Failure};
use super::ownership::{log_files, transfers_buffer_dir, transfers_log};
use super::privileges::{RUNS_AS_ROOT, UserChange, is_root_by_default};
use super::{conflicts, print};
use crate::App;
use crate::config::Config;
use crate::config::http3::small_receive_buffer;
use crate::config::tls::early_data_notice;
use crate::named_pages;

/// Prints the effective configuration, or all its problems.
#[must_use]
pub fn check(path: &Path) -> Exit {
    match Config::load(path).and_then(find_all) {
        Ok((config, warnings)) => {
            for warning in warnings {
                // If writing to stderr fails, still print the rest.
                let _ = writeln!(Visible(io::stderr().lock()), "warning: {warning}");
            }
            print(config.describe().as_bytes())
        }
        Err(diagnostics) => Failure::Config(diagnostics).print(),
    }
}

/// Checks a configuration that may be for another machine. Returns what is about files that this machine does not have.
///
/// # Errors
///
/// All other problems, with their places.
pub fn check_elsewhere(path: &Path) -> Result<Vec<String>, String> {
    let checked = Config::load(path).and_then(|config| App::new(&config, &Resources::default()).map(drop));
    let (missing, others) = match checked {
        Ok(()) => return Ok(Vec::new()),
        Err(diagnostics) => diagnostics.split_missing_files(),
    };
    if others.count() == 0 { Ok(missing) } else { Err(others.render(false)) }
}

/// Finds the problems and warnings that only a start would find.
fn find_all(mut config: Config) -> Result<(Config, Vec<String>), Diagnostics> {
    let (conflicts, start) = (conflicts::check(&config), config.check_start());
    let user = UserChange::of(&config);
    let (made, lost) = match &user {
        Ok(UserChange::To(user)) => {
            let given = Transferred::of(&config);
            user.run(|| check_as_user(&config, &user.name, &given))
                .unwrap_or_else(|error| (not_this_user(&config, &error), Vec::new()))
        }
        _ => make(&config),
    };
    let user = match user {
        Ok(UserChange::NotPermitted(user)) => {
            config
                .not_permitted
                .push(format!("whether Rudy may run as `{}` (you lack the permission)", user.name));
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => not_this_user(&config, &error),
    };
    Diagnostics::all([made, start, conflicts, user])?;
    let root = is_root_by_default(&config).then(|| RUNS_AS_ROOT.to_owned());
    let buffer = small_receive_buffer(&config);
    Ok((config, root.into_iter().chain(buffer).chain(lost).collect()))
}

fn not_this_user(config: &Config, error: &io::Error) -> Result<(), Diagnostics> {
    let problem =
        Problem::value(&Location::file(0).key("user"), error.to_string()).label("cannot run as this user");
    Err(Diagnostics::new(config.sources.clone(), vec![problem]))
}

/// The files that a start as root will transfer to the user. Only root can find out.
#[derive(Debug, Clone)]
struct Transferred {
    logs: Vec<PathBuf>,
    buffer_dir: bool,
}

impl Transferred {
    fn of(config: &Config) -> Self {
        Self {
            logs: log_files(config)
                .filter(|(_, path, _)| transfers_log(path))
                .map(|(_, path, _)| path.to_owned())
                .collect(),
            buffer_dir: config.buffer.dir.as_deref().is_some_and(transfers_buffer_dir),
        }
    }
}

/// Checks, on a thread that has become the user, what a start cannot do; also returns warnings about later reloads.
fn check_as_user(config: &Config, user: &str, given: &Transferred) -> (Result<(), Diagnostics>, Vec<String>) {
    let mut to_make = config.clone();
    if given.buffer_dir {
        to_make.buffer.dir = None;
    }
    let (made, notices) = make(&to_make);
    let problems = unusable_logs(config, user, &given.logs);
    let logs =
        if problems.is_empty() { Ok(()) } else { Err(Diagnostics::new(config.sources.clone(), problems)) };
    (Diagnostics::all([made, logs]), notices.into_iter().chain(inaccessible_to(config, user)).collect())
}

/// Builds the app; also returns what a start would log about certificates and passwords, and what a restart will forget.
fn make(config: &Config) -> (Result<(), Diagnostics>, Vec<String>) {
    let resources = Resources::default();
    let made = App::new(config, &resources).map(drop);
    let (tls, watched_files) = (resources.of::<TlsState>(), resources.of::<WatchedFiles>());
    let notices = tls.take_notices().into_iter().chain(watched_files.take_notices());
    (made, notices.chain(early_data_notice(config)).chain(named_pages::missing(config)).collect())
}

/// Reports logs that the user cannot open.
fn unusable_logs(config: &Config, user: &str, given: &[PathBuf]) -> Vec<Problem> {
    let problem = |(log, path, location): (&str, &Path, Location)| {
        // Root creates a missing log; the user must be able to reach it in any case.
        let is_given = given.iter().any(|given| given == path);
        let right = if is_given || !path.exists() { Access::EXISTS } else { Access::WRITE_OK };
        let error = access(path, right).err().filter(|error| *error != rustix::io::Errno::NOENT)?;
        let title = format!("{user} cannot open the {log} {}: {}", path.display(), io::Error::from(error));
        Some(Problem::value(&location.key("path"), title).label("this file"))
    };
    log_files(config).filter_map(problem).collect()
}

/// Warnings that this thread, which runs as `user`, could not read the configuration or open a log again.
pub(super) fn inaccessible_to(config: &Config, user: &str) -> Vec<String> {
    let files = config.sources.paths().filter(|path| access(*path, Access::READ_OK).is_err());
    let files = files.map(|path| format!("{user} cannot read {}, so a reload fails", path.display()));
    let logs = log_files(config).filter_map(|(log, path, _)| unwritable_log_folder(log, path, user));
    files.chain(logs).collect()
}

fn unwritable_log_folder(log: &str, path: &Path, user: &str) -> Option<String> {
    if path.exists() && !path.is_file() {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    access(folder, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!(
        "{user} cannot create files in {}, so reopening a renamed {log} fails: use a folder that \
         belongs to {user}, or let logrotate create the file (`create 0640 {user}`)",
        folder.display()
    ))
}

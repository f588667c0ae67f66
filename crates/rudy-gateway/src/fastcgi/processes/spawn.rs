//! Starts a process of an app.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{self, Path};
use std::process::{Child, Command};
use std::{env, fs};

use rudy_system::user::User;
use rustix::process::{
    Resource, Rlimit, Signal, getpid, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::clear_ambient_capability_set;

use super::ProcessOptions;

/// The environment variables that an app inherits. The others may contain secrets, or messages of a service
/// manager to Rudy.
const ENVIRONMENT: [&str; 8] = ["PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "HOME", "USER", "LOGNAME"];
/// The default `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The soft limit of descriptors for an app. Rudy raises its own to the maximum; programs that use `select`,
/// or close every possible descriptor, expect this value.
const DESCRIPTORS: u64 = 1024;

/// Starts the command with the socket as descriptor 0 (FastCGI 1.0 §2.2), and a pipe as standard output and
/// error.
pub(super) fn spawn(
    options: &ProcessOptions,
    user: Option<&User>,
    listener: UnixListener,
) -> io::Result<(Child, PipeReader)> {
    let (output, writer) = io::pipe()?;
    let (program, arguments) = options.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    // Absolute, because the process may run in another folder.
    let path = if program.contains('/') { path::absolute(program)? } else { program.into() };
    let mut command = Command::new(path);
    command
        .arg0(program)
        .args(arguments)
        .env_clear()
        .envs(environment(options, user))
        .stdin(OwnedFd::from(listener))
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    if let Some(folder) = &options.folder {
        command.current_dir(folder);
    }
    prepare(&mut command, user.cloned());
    // Dropping the command closes its copies of the socket and the pipe: then only the app has that of the pipe.
    Ok((command.spawn()?, output))
}

/// Sets up the process between fork and exec: limits, user, and the parent-death signal.
fn prepare(command: &mut Command, user: Option<User>) {
    let parent = getpid();
    let before_exec = move || {
        let limit = getrlimit(Resource::Nofile);
        let current = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })?;
        // Extra capabilities of Rudy, such as binding port 80, are not for the app.
        clear_ambient_capability_set()?;
        if let Some(user) = &user {
            user.assume()?;
        }
        // Changing the user clears this signal, so it comes last.
        set_parent_process_death_signal(Some(Signal::TERM))?;
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    #[expect(unsafe_code, reason = "std sets no supplementary groups and no parent-death signal")]
    // SAFETY: between fork and exec, only functions that are safe in signal handlers may be called. rustix
    // makes these system calls itself, without the C library, and neither they nor their errors allocate.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// Returns the `PATH` for apps whose table sets none.
pub(super) fn search_path() -> OsString {
    env::var_os("PATH").unwrap_or_else(|| PATH.into())
}

/// Returns a small environment with the app's own variables.
fn environment(options: &ProcessOptions, user: Option<&User>) -> BTreeMap<OsString, OsString> {
    let inherited = ENVIRONMENT.iter().filter_map(|name| Some((name.into(), env::var_os(name)?)));
    let mut environment: BTreeMap<OsString, OsString> = inherited.collect();
    environment.entry("PATH".into()).or_insert_with(search_path);
    if let Some(user) = user {
        let user_variables = [("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name)];
        environment.extend(user_variables.map(|(name, value)| (name.into(), value.into())));
    }
    environment.extend(options.environment.iter().map(|(name, value)| (name.into(), value.into())));
    environment
}

/// Explains why a command could not be started, and what to do. The system has one error for several reasons.
pub(super) fn explain(options: &ProcessOptions, error: &io::Error) -> String {
    let program = options.command.first().map_or("", String::as_str);
    if let Some(folder) = &options.folder
        && let Err(error) = fs::metadata(folder.join("."))
    {
        return format!("cannot start {program} in {}: {error}", folder.display());
    }
    let hint = match error.kind() {
        io::ErrorKind::NotFound if program.contains('/') && Path::new(program).exists() => {
            ": the program exists, but the interpreter in its first line does not"
        }
        io::ErrorKind::NotFound if program.contains('/') => "",
        io::ErrorKind::NotFound => ": not in PATH; use its absolute path",
        // An inaccessible folder in PATH has the same error as a missing program.
        io::ErrorKind::PermissionDenied if !program.contains('/') => {
            ": not in PATH, or not executable; use its absolute path"
        }
        io::ErrorKind::PermissionDenied => {
            ": the app's user needs execute permission on the file and on each parent folder"
        }
        _ => "",
    };
    format!("cannot start {program}: {error}{hint}")
}

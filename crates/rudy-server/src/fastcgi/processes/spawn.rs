//! How a process of an app is started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{self, Path};
use std::process::{Child, Command};
use std::{env, fs};

use rustix::process::{
    Resource, Rlimit, Signal, getpid, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::clear_ambient_capability_set;

use super::ProcessOptions;
use crate::user::User;

/// What an app gets of our environment, if it is there. The rest is ours: it may hold secrets, and what a service manager
/// says there is said to us.
const ENVIRONMENT: [&str; 8] = ["PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "HOME", "USER", "LOGNAME"];
/// Where programs are looked for if our environment does not say.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How many descriptors an app may have open before it asks for more. We take for ourselves all that we may have; what
/// uses `select`, or closes every descriptor that could be open, expects this.
const DESCRIPTORS: u64 = 1024;

/// Starts the command with the socket as its descriptor 0 (FastCGI 1.0 §2.2) and the two others in one pipe.
pub(super) fn spawn(
    options: &ProcessOptions,
    user: Option<&User>,
    listener: UnixListener,
) -> io::Result<(Child, PipeReader)> {
    let (output, writer) = io::pipe()?;
    let (program, arguments) = options.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    // Not relative to the folder in which it will run.
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
    // What the command holds of the socket and the pipe is closed with it: from then on only the app has them.
    Ok((command.spawn()?, output))
}

/// What the process does between its making and the app: limits, user, and that it ends with us.
fn prepare(command: &mut Command, user: Option<User>) {
    let parent = getpid();
    let before_exec = move || {
        let limit = getrlimit(Resource::Nofile);
        let current = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })?;
        // What we may do beyond what our user may, such as binding port 80, is not the app's.
        clear_ambient_capability_set()?;
        if let Some(user) = &user {
            user.assume()?;
        }
        // A change of user takes it back, so it comes after it.
        set_parent_process_death_signal(Some(Signal::TERM))?;
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    #[expect(unsafe_code, reason = "std sets no supplementary groups and no parent-death signal")]
    // SAFETY: between fork and exec only what is safe in a signal handler may be called. These are system calls that
    // rustix makes itself, without the C library, and none of them, nor an error of theirs, allocates.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// Where programs are looked for whose table says nothing of it.
pub(super) fn search_path() -> OsString {
    env::var_os("PATH").unwrap_or_else(|| PATH.into())
}

/// A small environment, and the app's own over it.
fn environment(options: &ProcessOptions, user: Option<&User>) -> BTreeMap<OsString, OsString> {
    let inherited = ENVIRONMENT.iter().filter_map(|name| Some((name.into(), env::var_os(name)?)));
    let mut environment: BTreeMap<OsString, OsString> = inherited.collect();
    environment.entry("PATH".into()).or_insert_with(search_path);
    if let Some(user) = user {
        let of_user = [("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name)];
        environment.extend(of_user.map(|(name, value)| (name.into(), value.into())));
    }
    environment.extend(options.environment.iter().map(|(name, value)| (name.into(), value.into())));
    environment
}

/// Why a command could not be started, and what to do. The system says one word for several reasons.
pub(super) fn explain(options: &ProcessOptions, error: &io::Error) -> String {
    let program = options.command.first().map_or("", String::as_str);
    if let Some(folder) = &options.folder
        && let Err(error) = fs::metadata(folder.join("."))
    {
        return format!("cannot start {program} in {}: {error}", folder.display());
    }
    let hint = match error.kind() {
        io::ErrorKind::NotFound if program.contains('/') && Path::new(program).exists() => {
            ": the program is there, but not the interpreter that its first line names"
        }
        io::ErrorKind::NotFound if program.contains('/') => "",
        io::ErrorKind::NotFound => ": not in PATH; give its whole path",
        // A folder of PATH that is closed to the user hides what is not there.
        io::ErrorKind::PermissionDenied if !program.contains('/') => {
            ": not in PATH, or not executable; give its whole path"
        }
        io::ErrorKind::PermissionDenied => {
            ": the file must be executable, and each folder above it open, for the app's user"
        }
        _ => "",
    };
    format!("cannot start {program}: {error}{hint}")
}

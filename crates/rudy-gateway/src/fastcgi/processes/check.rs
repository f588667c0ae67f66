//! Checks in advance whether the processes of an app can be started on this machine.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use rudy_config::{Location, Problem};
use rudy_system::user::root_may;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::folder::parent;
use super::spawn::search_path;
use super::user_to_switch_to;
use crate::fastcgi::AppTable;

/// Returns the problems of the app whose table is at `location`, if Rudy manages its processes.
pub(crate) fn problems(table: &AppTable, location: &Location) -> Vec<Problem> {
    let Some(program) = table.command.as_ref().and_then(|command| command.0.first()) else {
        return Vec::new();
    };
    let (command, processes) = (location.key("command"), location.key("processes"));
    // For users other than root, missing permissions are left to the start: `rudy check` may check the
    // configuration of a service.
    let user = table.processes.user.as_deref().map(user_to_switch_to);
    let sockets = parent(matches!(user, Some(Ok(Some(_)))));
    let user = user.and_then(Result::err).filter(|error| !root_may(error.kind()));
    let user = user.map(|error| {
        Problem::value(&processes.key("user"), error.to_string()).label("cannot start processes as this user")
    });
    let folder = table.processes.folder.as_deref();
    let no_folder = folder.and_then(|folder| fs::metadata(folder.join(".")).err()).map(|error| {
        let title = format!("cannot run in {}: {error}", folder.unwrap_or(Path::new("")).display());
        Problem::value(&processes.key("folder"), title).label("expected an existing folder")
    });
    let not_found = find(program, table.processes.environment.get("PATH")).err();
    let not_found = not_found.map(|(why, label)| {
        Problem::value(&command.index(0), format!("cannot start `{program}`: {why}")).label(label)
    });
    let no_sockets = access(&sockets, Access::WRITE_OK | Access::EXEC_OK).err().map(|errno| {
        let why = io::Error::from(errno);
        let title =
            format!("cannot create a folder for the sockets of the app in {}: {why}", sockets.display());
        Problem::key(&command, title)
            .label("each process needs a socket")
            .help("set RUNTIME_DIRECTORY, XDG_RUNTIME_DIR or TMPDIR to a writable folder")
    });
    [user, no_folder, not_found, no_sockets].into_iter().flatten().collect()
}

/// Returns whether root can start processes as `user`, but the current user cannot.
#[must_use]
pub fn needs_root_to_start_as(user: &str) -> bool {
    user_to_switch_to(user).is_err_and(|error| root_may(error.kind()))
}

/// Searches a program as the system does. The error is the reason, and what was expected.
fn find(program: &str, path: Option<&String>) -> Result<(), (String, &'static str)> {
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![program.into()]
    } else {
        let path = path.map_or_else(search_path, Into::into);
        env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    let files: Vec<_> = candidates.into_iter().filter(|path| path.is_file()).collect();
    if let Some(path) = files.iter().find(|path| access(*path, Access::EXEC_OK).is_ok()) {
        return match interpreter(path).filter(|interpreter| !interpreter.exists()) {
            Some(interpreter) => {
                let why = format!("its first line names {}, which does not exist", interpreter.display());
                Err((why, "expected an existing interpreter"))
            }
            None => Ok(()),
        };
    }
    match files.first() {
        Some(file) => Err((format!("{} is not executable", file.display()), "expected an executable file")),
        None if program.contains('/') => Err((
            io::Error::from(Errno::NOENT).to_string(),
            "expected a program: install or build it, or correct the path",
        )),
        None => Err(("it is not in PATH".to_owned(), "expected a program in PATH, or its absolute path")),
    }
}

/// Returns the interpreter that the first line of a script names (execve(2)).
fn interpreter(path: &Path) -> Option<PathBuf> {
    // Linux reads 256 bytes.
    let mut start = Vec::new();
    fs::File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    let interpreter = PathBuf::from(OsStr::from_bytes(name));
    // A relative path depends on the working folder of the process.
    interpreter.is_absolute().then_some(interpreter)
}

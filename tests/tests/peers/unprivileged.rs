//! The server without root privileges, even if the tests run as root.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rudy_tests::{Server, binary, program};
use rustix::process::Signal;
use tempfile::TempDir;

/// Creates a folder with a copy of `rudy` that all users can access: the build folder may be private.
fn accessible_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temp folder can be created");
    fs::copy(binary(), folder.path().join("rudy")).expect("a temp folder can be written");
    set_mode(folder.path(), 0o755);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the file is writable");
}

/// Returns a script for [`rudy_tests::Builder::through_shell`] that runs the copy of `rudy` as user `nobody`.
/// Returns `None` and skips the test if that is not possible.
fn unprivileged_script(folder: &TempDir) -> Option<String> {
    let rudy = folder.path().join("rudy");
    let run = format!("shift; exec setpriv {{}} {} \"$@\"", rudy.display());
    program("setpriv")?;
    let options = "--reuid=65534 --regid=65534 --clear-groups";
    Some(run.replace("{}", if rustix::process::geteuid().is_root() { options } else { "" }))
}

#[test]
fn an_unprivileged_server_runs_and_stops_without_errors() {
    let folder = accessible_folder();
    let Some(script) = unprivileged_script(&folder) else { return };
    fs::write(folder.path().join("page.html"), "<p>hello").unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    let mut server = Server::build().arg(folder.path()).args(listen).through_shell(&script).start();
    assert_eq!(server.get("/page.html").text(), "<p>hello");
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("error"), "{stderr}");
}

#[test]
fn unreadable_files_return_403_and_are_logged() {
    let folder = accessible_folder();
    let Some(script) = unprivileged_script(&folder) else { return };
    let (file, subfolder) = (folder.path().join("closed.txt"), folder.path().join("closed"));
    fs::write(&file, "closed").unwrap();
    fs::create_dir(&subfolder).unwrap();
    set_mode(&file, 0);
    set_mode(&subfolder, 0);
    let listen = ["--listen", "127.0.0.1:0"];
    let mut server = Server::build().arg(folder.path()).args(listen).through_shell(&script).start();
    assert_eq!((server.get("/closed.txt").status, server.get("/closed/").status), (403, 403));
    server.wait_for_line(&format!("cannot read {}: Permission denied", file.display()));
    server.signal(Signal::TERM);
    let (_, stderr) = server.wait();
    assert!(stderr.contains("cannot read a file: Permission denied (os error 13): 1 more"), "{stderr}");
}

#[test]
fn an_inaccessible_folder_is_an_error_with_its_path() {
    let folder = accessible_folder();
    let Some(script) = unprivileged_script(&folder) else { return };
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    set_mode(&closed, 0);
    let output = Server::build().arg(&closed).through_shell(&script).command().output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    let expected = format!("error: cannot open the folder {}: Permission denied", closed.display());
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn an_unreadable_log_is_reported_and_followed_once_it_is_readable() {
    let folder = accessible_folder();
    let Some(script) = unprivileged_script(&folder) else { return };
    let log = folder.path().join("a.log");
    fs::write(&log, "one\ntwo\n").unwrap();
    set_mode(&log, 0);
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", "rudy", "tail", "-n", "1"]).arg(&log).stdin(Stdio::null());
    let mut tail = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut message = String::new();
    BufReader::new(tail.stderr.take().unwrap()).read_line(&mut message).unwrap();
    assert_eq!(message, format!("error: cannot follow {}: Permission denied (os error 13)\n", log.display()));
    set_mode(&log, 0o644);
    let mut line = String::new();
    BufReader::new(tail.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "two\n", "it existed at the start");
    // The pipe has lost its reader.
    assert_eq!(tail.wait().unwrap().code(), Some(0));
}

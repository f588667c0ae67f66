//! The server without root privileges, even if the tests run as root.

use rudy_tests::prelude::*;

/// Creates a folder with a copy of `rudy` that all users can access: the build folder may be private.
fn accessible_folder() -> Folder {
    let folder = Folder::new();
    fs::copy(binary(), folder.join("rudy")).expect("a temp folder can be written");
    set_mode(folder.path(), 0o755);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the file is writable");
}

/// Returns a script for [`rudy_tests::Builder::through_shell`] that runs the copy of `rudy` as user `nobody`.
/// Returns `None` and skips the test if that is not possible.
fn unprivileged_script(folder: &Folder) -> Option<String> {
    let rudy = folder.join("rudy");
    let run = format!("shift; exec setpriv {{}} {} \"$@\"", rudy.display());
    program("setpriv")?;
    let options = "--reuid=65534 --regid=65534 --clear-groups";
    Some(run.replace("{}", if geteuid().is_root() { options } else { "" }))
}

#[test]
fn an_unprivileged_server_runs_and_stops_without_errors() {
    let folder = accessible_folder();
    let Some(script) = unprivileged_script(&folder) else { return };
    folder.write("page.html", "<p>hello");
    let listen = ["--listen", "127.0.0.1:0"];
    let mut server = Server::build().arg(folder.path()).args(listen).through_shell(&script).start();
    assert_eq!(server.get("/page.html").text(), "<p>hello");
    server.signal(Signal::TERM);
    let stderr = server.exits_with(0);
    assert!(!stderr.contains("error"), "{stderr}");
}

#[test]
fn unreadable_files_return_403_and_are_logged() {
    let folder = accessible_folder();
    let Some(script) = unprivileged_script(&folder) else { return };
    let (file, subfolder) = (folder.join("closed.txt"), folder.join("closed"));
    fs::write(&file, "closed").unwrap();
    fs::create_dir(&subfolder).unwrap();
    set_mode(&file, 0);
    set_mode(&subfolder, 0);
    let listen = ["--listen", "127.0.0.1:0"];
    let mut server = Server::build().arg(folder.path()).args(listen).through_shell(&script).start();
    assert_eq!((server.get("/closed.txt").status, server.get("/closed/").status), (403, 403));
    for file in [file, subfolder.join("index.html")] {
        server.wait_for_line(&format!("cannot read {}: Permission denied", file.display()));
    }
}

#[test]
fn an_inaccessible_folder_is_an_error_with_its_path() {
    let folder = accessible_folder();
    let Some(script) = unprivileged_script(&folder) else { return };
    let closed = folder.join("closed");
    fs::create_dir(&closed).unwrap();
    set_mode(&closed, 0);
    let server = Server::build().arg(&closed).args(["--listen", "127.0.0.1:0"]);
    let message = server.through_shell(&script).output().failed_with(2);
    let expected = format!("error: cannot open the folder {}: Permission denied", closed.display());
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn an_unreadable_log_is_reported_and_followed_once_it_is_readable() {
    let folder = accessible_folder();
    let Some(script) = unprivileged_script(&folder) else { return };
    let log = folder.write("a.log", "one\ntwo\n");
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

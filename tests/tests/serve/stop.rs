//! Stopping a server with app processes.

use rudy_tests::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A configuration with an app that a shell runs.
fn with_app(script: &str, more: &str) -> String {
    let app = format!("{{ command = [\"/bin/sh\", \"-c\", '''{script}'''], {more} }}");
    format!("listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/app\"\nfastcgi = {app}\n")
}

/// Waits for `count` process ids in a file.
fn pids(path: &Path, count: usize) -> Vec<Pid> {
    let is_complete = |text: &str| text.lines().count() == count && text.ends_with('\n');
    let text = Path::new("/").wait_until(path, is_complete);
    let pid = |line: &str| line.parse().ok().and_then(Pid::from_raw).expect("a process id");
    text.lines().map(pid).collect()
}

/// A server with an app that ignores SIGTERM and has started another process.
const STUBBORN: &str = "trap \"\" TERM; sh -c \"sleep 1000 & wait\" & printf \"%s\\n%s\\n\" $$ $! > PIDS; while :; do sleep 1000; done";

fn stubborn() -> (Server, Vec<Pid>, Folder) {
    let folder = Folder::new();
    let path = folder.join("pids");
    let script = STUBBORN.replace("PIDS", &path.display().to_string());
    let server = Server::config(&with_app(&script, "processes = { stop_timeout = \"1h\" }"));
    let pids = pids(&path, 2);
    (server, pids, folder)
}

fn assert_gone(pids: &[Pid]) {
    for pid in pids {
        wait_until("the app is killed", || test_kill_process(*pid).is_err());
    }
}

#[test]
fn a_second_signal_kills_app_processes_that_are_stopping() {
    let (mut server, pids, _folder) = stubborn();
    server.signal(Signal::TERM);
    server.wait_for_line("SIGTERM: stopping");
    // No connection is open, so the server waits for the app.
    server.signal(Signal::INT);
    let stderr = server.exits_with(130);
    assert!(stderr.ends_with("notice: stopped"), "{stderr}");
    assert_gone(&pids);
}

#[test]
fn a_second_signal_during_a_request_kills_app_processes_too() {
    let (mut server, pids, _folder) = stubborn();
    let _waiting = server.send(b"GET /app HTTP/1.1\r\nHost: test\r\n\r\n");
    server.signal(Signal::INT);
    server.wait_for_line("SIGINT: stopping");
    server.signal(Signal::TERM);
    server.exits_with(143);
    assert_gone(&pids);
}

/// Replaces a file by a named pipe, which nothing writes to.
fn replace_by_pipe(path: &Path) {
    let new = path.with_extension("new");
    mknodat(CWD, &new, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe can be created");
    fs::rename(new, path).expect("the folder can be written");
}

#[test]
fn a_named_pipe_in_place_of_a_watched_file_is_not_read() {
    let folder = Folder::new();
    let path = folder.write("htpasswd", "");
    let mut server = Server::config(&format!(
        "listen = '127.0.0.1:0'\n[[site]]\nbasic_auth = '{}'\n[[site.route]]\npath = '/*'\nrespond = 'x'\n",
        path.display()
    ));
    replace_by_pipe(&path);
    server.wait_for_line("it is not a regular file; its old users stay valid");
    server.stop();
}

#[test]
fn a_server_stops_during_a_reload_that_waits_for_a_file() {
    let mut server =
        Server::config("listen = '127.0.0.1:0'\n[[site]]\n[[site.route]]\npath = '/*'\nrespond = 'x'\n");
    let path = server.path().join("rudy.toml");
    replace_by_pipe(&path);
    server.signal(Signal::HUP);
    // Returns when the server has opened the other end, which it reads until this one is closed.
    let _writer = fs::File::options().write(true).open(&path).unwrap();
    assert_contains!(server.stop(), "the configuration is unchanged");
}

#[test]
fn a_failed_start_leaves_no_socket_folder() {
    let (folder, temporary) = (Folder::new(), Folder::new());
    let second = "[[site.route]]\npath = \"/second\"\nfastcgi = { command = [\"/bin/sh\", \"-c\", \"exec sleep 1001\"] }\n";
    let config = folder.write("rudy.toml", with_app("exec sleep 1000", "") + second);
    // With one more descriptor each time, the start fails at a later step: the address, the first app, the second, the engine.
    let last = "start the worker threads";
    let mut errors = String::new();
    for descriptors in 4..100 {
        let environment = format!("export TMPDIR='{temporary}' XDG_RUNTIME_DIR=");
        let limited = format!("{environment}; ulimit -n {descriptors}; exec \"$@\"");
        let output = Server::build().arg("--config").arg(&config).through_shell(&limited).output();
        let error = &output.stderr;
        assert!(!output.is_success(), "{error}");
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "{descriptors} descriptors: {error}");
        errors += error;
        if error.contains(last) {
            break;
        }
    }
    for step in ["cannot listen on", "start an app", last] {
        assert!(errors.contains(step), "no start failed at {step:?}:\n{errors}");
    }
}

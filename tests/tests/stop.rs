//! How a server with application processes ends, and how the next one starts after it was killed.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rudy_tests::{Server, children, eventually, fastcgi_info, skip};
use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};

/// A configuration with an app that a shell runs.
fn with_app(script: &str, more: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/app\"\nfastcgi = {{ command = [\"/bin/sh\", \"-c\", \
         '''{script}'''], {more} }}\n"
    )
}

/// The process ids in a file, as soon as there are `count` of them.
fn pids(path: &Path, count: usize) -> Vec<Pid> {
    eventually("the app runs", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        let pids: Vec<_> = text
            .lines()
            .map(|line| line.parse().ok().and_then(Pid::from_raw).expect("a process id"))
            .collect();
        (pids.len() == count && text.ends_with('\n')).then_some(pids)
    })
}

/// An app that ignores SIGTERM, and has started another process.
const STUBBORN: &str = "trap \"\" TERM; sh -c \"sleep 1000 & wait\" & printf \"%s\\n%s\\n\" $$ $! > PIDS; while :; do sleep 1000; done";

fn stubborn() -> (Server, Vec<Pid>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temp folder can be made");
    let path = folder.path().join("pids");
    let script = STUBBORN.replace("PIDS", &path.display().to_string());
    let server = Server::config(&with_app(&script, "processes = { stop_timeout = \"1h\" }"));
    let pids = pids(&path, 2);
    (server, pids, folder)
}

fn assert_gone(pids: &[Pid]) {
    for pid in pids {
        eventually("the app is killed", || test_kill_process(*pid).is_err().then_some(()));
    }
}

#[test]
fn a_second_signal_while_application_processes_are_asked_to_end_kills_them() {
    let (mut server, pids, _folder) = stubborn();
    server.signal(Signal::TERM);
    server.wait_for_line("SIGTERM: stopping");
    // No connection is open, so that it waits for the app by now or will at once.
    server.signal(Signal::INT);
    let (status, stderr) = server.wait();
    assert_eq!(status.code(), Some(130), "{stderr}");
    assert!(stderr.ends_with("notice: stopped"), "{stderr}");
    assert_gone(&pids);
}

#[test]
fn a_second_signal_while_a_request_is_in_progress_kills_application_processes_too() {
    let (mut server, pids, _folder) = stubborn();
    let mut waiting = server.connect();
    waiting.send(b"GET /app HTTP/1.1\r\nHost: test\r\n\r\n");
    server.signal(Signal::INT);
    server.wait_for_line("SIGINT: stopping");
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!(status.code(), Some(143), "{stderr}");
    assert_gone(&pids);
}

#[test]
fn a_start_that_fails_leaves_no_folder_of_sockets() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = folder.path().join("rudy.toml");
    let second = "[[site.route]]\npath = \"/second\"\nfastcgi = { command = [\"/bin/sh\", \"-c\", \"exec sleep 1001\"] }\n";
    let text = with_app("exec sleep 1000", "") + second;
    fs::write(&config, text.replace("127.0.0.1:0", &taken.local_addr().unwrap().to_string())).unwrap();
    // With one descriptor more each time, the start fails later each time: at the first app, the second, the engine, the address.
    let mut errors = String::new();
    for descriptors in 4..100 {
        let limited = format!(
            "export TMPDIR='{}' XDG_RUNTIME_DIR=; ulimit -n {descriptors}; exec \"$@\"",
            temporary.path().display()
        );
        let builder = Server::build().arg("--config").arg(&config).through_shell(&limited);
        let output = builder.command().output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{error}");
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "{descriptors} descriptors: {error}");
        errors += &error;
        if error.contains("it is in use by") {
            break;
        }
    }
    for step in ["start an app", "start the threads that carry connections", "it is in use by"] {
        assert!(errors.contains(step), "no start failed at {step:?}:\n{errors}");
    }
}

/// Whether a process can be given the id 1 here.
fn can_be_first() -> bool {
    let is_allowed = geteuid().is_root() && rudy_tests::program("unshare").is_some();
    if !is_allowed {
        skip("only root can start a process with the id 1 (unshare --pid)");
    }
    is_allowed
}

/// Starts a server as process 1, as in a container.
const FIRST: &str = "exec unshare --fork --pid --mount-proc --kill-child \"$@\"";

/// The server whose parent is `unshare`.
fn first(server: &Server) -> Pid {
    eventually("the server runs", || children(server.pid()).first().copied())
}

#[test]
fn a_server_starts_again_after_it_was_killed() {
    if !can_be_first() {
        return;
    }
    let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("rudy.sock");
    let config = folder.path().join("rudy.toml");
    let text = format!(
        "listen = [\"127.0.0.1:0\", \"unix:{}\"]\n[[site]]\n[[site.route]]\npath = \"/info\"\nfastcgi = {{ command = [\"{}\"] }}\n",
        socket.display(),
        fastcgi_info().display()
    );
    fs::write(&config, text).unwrap();
    for start in 1..=4 {
        let mut server = Server::build()
            .arg("--config")
            .arg(&config)
            .through_shell(&format!(
                "export TMPDIR='{}' XDG_RUNTIME_DIR=; {FIRST}",
                temporary.path().display()
            ))
            .start();
        assert_eq!(server.get("/info").status, 200, "start {start}");
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET /info HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let folders: Vec<_> =
            fs::read_dir(temporary.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(folders, ["rudy-1-1"], "start {start}");
        kill_process(first(&server), Signal::KILL).unwrap();
        server.wait();
        assert!(socket.exists(), "it had no time to remove its socket");
    }
}

#[test]
fn process_1_reaps_the_orphans_of_its_apps() {
    if !can_be_first() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ended");
    let orphan = format!("(sh -c \"sleep 0.1; echo 1 >> {}\" &)", path.display());
    let script = format!("{orphan}; {orphan}; {orphan}; exec sleep 1000");
    let mut server = Server::build().config(&with_app(&script, "")).through_shell(FIRST).start();
    pids(&path, 3);
    // Only the app is left: no orphan, dead or alive.
    let first = first(&server);
    eventually("the orphans are reaped", || (children(first).len() == 1).then_some(()));
    kill_process(first, Signal::TERM).unwrap();
    let (_, stderr) = server.wait();
    assert!(stderr.contains("notice: stopped"), "{stderr}");
}

//! How a server with application processes ends, and how the next one starts after it was killed.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rudy_tests::{PATIENCE, Server, fastcgi_info, skip};
use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};

/// A configuration with an app that a shell runs.
fn with_app(script: &str, more: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/app\"\nfastcgi = {{ command = [\"/bin/sh\", \"-c\", \
         '''{script}'''], {more} }}\n"
    )
}

/// Waits for what no event tells of.
fn eventually<R>(what: &str, mut found: impl FnMut() -> Option<R>) -> R {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The process ids in a file, as soon as there are so many.
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

/// An app that heeds no SIGTERM, with a process of its own beside it.
const STUBBORN: &str = "trap \"\" TERM; sh -c \"sleep 1000 & wait\" & printf \"%s\\n%s\\n\" $$ $! > PIDS; while :; do sleep 1000; done";

fn stubborn() -> (Server, Vec<Pid>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temp folder can be made");
    let path = folder.path().join("pids");
    let script = STUBBORN.replace("PIDS", &path.display().to_string());
    let server = Server::config(&with_app(&script, "processes = { stop_time = \"1h\" }"));
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
    let text = with_app("exec sleep 1000", "");
    fs::write(&config, text.replace("127.0.0.1:0", &taken.local_addr().unwrap().to_string())).unwrap();
    let builder = Server::build().arg("--config").arg(&config);
    let builder = builder.env("TMPDIR", temporary.path()).env("XDG_RUNTIME_DIR", "");
    let output = builder.command().output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
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
    let list = format!("/proc/{0}/task/{0}/children", server.pid());
    let read =
        || fs::read_to_string(&list).ok()?.split_whitespace().next()?.parse().ok().and_then(Pid::from_raw);
    eventually("the server runs", read)
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
    let tasks = format!("/proc/{}/task", first(&server));
    let children = || {
        let lists = fs::read_dir(&tasks).unwrap().flatten().map(|task| task.path().join("children"));
        lists
            .map(|list| fs::read_to_string(list).unwrap_or_default().split_whitespace().count())
            .sum::<usize>()
    };
    eventually("the orphans are reaped", || (children() == 1).then_some(()));
    kill_process(first(&server), Signal::TERM).unwrap();
    let (_, stderr) = server.wait();
    assert!(stderr.contains("notice: stopped"), "{stderr}");
}

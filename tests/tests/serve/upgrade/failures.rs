//! Failures of new processes, before and after they serve.

use rudy_tests::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::upgrade::rig::{ANY, Rig, UPGRADE_FAILED, ask, link, text, wait_for_exit};

/// A server started through a symbolic link, which can be switched to another program.
struct Linked {
    rig: Rig,
    link: PathBuf,
    folder: Folder,
}

impl Linked {
    fn start(more: &str) -> Self {
        let folder = Folder::new();
        let path = folder.join("rudy");
        link(binary(), &path);
        let script = format!("shift; exec '{}' \"$@\"", path.display());
        let server = Server::build().config(&text(ANY, "hello", more)).through_shell(&script).start();
        Self { rig: Rig::from_server(server), link: path, folder }
    }

    fn lead_to(&self, program: &Path) {
        link(program, &self.link);
    }

    /// Switches the link to a script.
    fn lead_to_script(&self, script: &str) {
        let path = self.folder.write("script", format!("#!/bin/sh\n{script}\n"));
        self.folder.set_mode("script", 0o755);
        self.lead_to(&path);
    }

    /// Checks that the upgrade fails for this reason and changes nothing.
    fn fails(&mut self, why: &str) {
        let Self { rig, .. } = self;
        let mut kept = rig.server.connect();
        let app = ask(&mut kept, "/app");
        rig.server.forget_lines();
        rig.signal(Signal::USR2);
        assert_contains!(rig.server.wait_for_line(UPGRADE_FAILED), why);
        rig.is_alone();
        assert_eq!(ask(&mut kept, "/app").lines().next(), app.lines().next());
        assert_eq!(rig.get("/app").lines().next(), app.lines().next());
    }
}

#[test]
fn an_invalid_configuration_changes_nothing() {
    let mut linked = Linked::start("");
    linked.rig.rewrite("lisen = []\n");
    linked.fails("1 error in the configuration; ");
    linked.rig.server.wait_for_line("lisen");
    linked.rig.rewrite(&text("\"127.0.0.1:0\", \"192.0.2.1:80\"", "new", ""));
    linked.fails("no interface of this machine has this address");
    linked.rig.rewrite(&text(ANY, "new", ""));
    linked.rig.upgrade();
    assert_eq!(linked.rig.get("/"), "new");
}

#[test]
fn a_binary_that_does_not_serve_changes_nothing() {
    let mut linked = Linked::start("upgrade_timeout = \"1s\"");
    let load = Load::start(linked.rig.server.address(), &[u64::MAX, 1], &["/", "/app"], succeeds);
    linked.lead_to(Path::new("/no/such/rudy"));
    linked.fails("cannot start ");
    for (script, why) in [
        ("exit 7", "it exited with code 7"),
        ("kill -SEGV $$", "it was killed by signal 11"),
        ("exec 0</dev/null; exec sleep 1000", ""),
        ("trap '' TERM; exec sleep 1000", "was not ready after 1 s (`upgrade_timeout`)"),
    ] {
        linked.lead_to_script(script);
        linked.fails(why);
    }
    linked.lead_to(binary());
    linked.rig.upgrade_and_wait();
    assert!(load.stop().responses > 10);
}

#[test]
fn a_script_can_start_the_new_server() {
    let mut linked = Linked::start("");
    linked.lead_to_script(&format!("'{}' \"$@\"", binary().display()));
    linked.rig.upgrade_and_wait();
    assert_eq!(linked.rig.get("/"), "hello");
}

/// The listening sockets are shared with the old process, so the new process must not shut them down.
#[test]
fn a_new_process_that_is_ready_too_late_closes_no_socket() {
    let folder = Folder::new();
    let (pipe, socket) = (folder.join("pipe"), folder.join("socket"));
    let listen = format!("{ANY}, \"unix:{}\"", socket.display());
    let config = text(&listen, "hello", "upgrade_timeout = \"500ms\"");
    let mut rig = Rig::start(&config);
    // The new process waits for input from the pipe.
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::rename(&pipe, rig.server.path().join("rudy.toml")).unwrap();
    rig.signal(Signal::USR2);
    let late = rig.starting();
    rig.server.wait_for_line(&format!("terminating process {late}"));
    rig.server.path().write("rudy.toml", config);
    rig.server.wait_for_line(UPGRADE_FAILED);
    wait_for_exit(late);
    for _ in 0..20 {
        assert_eq!(rig.get("/"), "hello");
    }
    UnixStream::connect(&socket).expect("the file is there, and is listened on");
}

#[test]
fn the_old_process_takes_over_again_if_the_new_one_is_killed_at_once() {
    let folder = Folder::new();
    let socket = folder.join("socket");
    let listen = format!("{ANY}, \"unix:{}\"", socket.display());
    let mut rig = Rig::start(&text(&listen, "hello", ""));
    let mut kept = rig.server.connect();
    assert_eq!(ask(&mut kept, "/"), "hello");
    for _ in 0..2 {
        let old = rig.upgrade();
        kill_process(rig.pid, Signal::KILL).unwrap();
        // These connections wait until the old process accepts them.
        for _ in 0..20 {
            assert_eq!(rig.get("/"), "hello");
        }
        rig.server.wait_for_line(&format!("process {old} accepts connections again"));
        rig.pid = old;
        UnixStream::connect(&socket).expect("the file is there, and is listened on");
    }
    assert_eq!(ask(&mut kept, "/"), "hello", "a connection that was idle lives on");
    rig.upgrade_and_wait();
    assert!(socket.exists());
    rig.signal(Signal::TERM);
    wait_for_exit(rig.pid);
    assert!(!socket.exists());
}

#[test]
fn the_old_process_takes_over_again_while_it_finishes_its_requests() {
    let mut rig = Rig::start(&text(ANY, "hello", ""));
    let mut idle = rig.server.connect();
    assert_eq!(ask(&mut idle, "/"), "hello");
    let mut upload = rig.server.send(b"POST /app HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nab");
    let old = rig.upgrade();
    // It closes when the old process has begun to stop.
    assert!(idle.is_closed());
    kill_process(rig.pid, Signal::KILL).unwrap();
    assert_eq!(rig.get("/"), "hello");
    rig.server.wait_for_line(&format!("process {old} accepts connections again"));
    rig.pid = old;
    let load = Load::start(rig.server.address(), &[u64::MAX, 1], &["/", "/app"], succeeds);
    let old = rig.upgrade();
    assert!(load.stop().responses > 10);
    // Of both engines of the old process, only the worker of the upload is left.
    wait_until("all other connections have ended", || workers(old) == 1);
    upload.send(b"cd");
    assert_eq!(upload.response().status, 200);
    drop(upload);
    wait_for_exit(old);
}

/// The worker threads of a process.
fn workers(pid: Pid) -> usize {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.starts_with("rudy-core-")).count()
}

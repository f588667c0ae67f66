//! Upgrades, reloads and stops happen one after the other.

use rudy_tests::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::upgrade::rig::{ANY, Rig, link, text, wait_for_exit};

/// A server whose successors wait for input from a pipe.
struct Delayed {
    rig: Rig,
    folder: Folder,
}

impl Delayed {
    fn start() -> Self {
        let folder = Folder::new();
        let path = |name: &str| folder.join(name);
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        folder.write(
            "script",
            format!("#!/bin/sh\nread x < {folder}/pipe\nexec '{}' \"$@\"\n", binary().display()),
        );
        folder.set_mode("script", 0o755);
        link(binary(), &path("rudy"));
        let script = format!("shift; exec '{folder}/rudy' \"$@\"");
        let server = Server::build().config(&text(ANY, "old", "")).through_shell(&script).start();
        link(&path("script"), &path("rudy"));
        let mut rig = Rig::from_server(server);
        rig.signal(Signal::USR2);
        rig.starting();
        Self { rig, folder }
    }

    fn release(&self) {
        self.folder.write("pipe", "go\n");
    }
}

#[test]
fn a_second_upgrade_is_ignored_while_the_new_process_starts() {
    let mut held = Delayed::start();
    held.rig.signal(Signal::USR2);
    held.rig.server.wait_for_line("SIGUSR2: ignored, an upgrade is in progress");
    held.release();
    let old = held.rig.is_replaced();
    wait_for_exit(old);
    assert_eq!(held.rig.get("/"), "old");
}

#[test]
fn a_reload_during_the_start_of_the_new_process_is_forwarded_to_it() {
    let mut held = Delayed::start();
    held.rig.signal(Signal::HUP);
    held.rig.signal(Signal::USR1);
    held.release();
    let old = held.rig.is_replaced();
    held.rig.server.wait_for_line("SIGHUP: the configuration was reloaded");
    wait_for_exit(old);
}

#[test]
fn a_reload_during_a_failing_upgrade_is_done_by_the_old_process() {
    let mut held = Delayed::start();
    held.rig.rewrite(&text(ANY, "new", ""));
    held.rig.signal(Signal::HUP);
    let starting = held.rig.starting();
    kill_process(starting, Signal::KILL).unwrap();
    held.rig.server.wait_for_line("SIGHUP: the configuration was reloaded");
    assert_eq!(held.rig.get("/"), "new");
}

#[test]
fn a_stop_during_the_start_of_the_new_process_stops_both() {
    let mut held = Delayed::start();
    let starting = held.rig.starting();
    held.rig.signal(Signal::TERM);
    wait_for_exit(starting);
    held.rig.server.exits_with(0);
}

/// A request whose body is not complete.
const UPLOAD: &[u8] = b"POST /app HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nab";

/// An upgrade during a request of the old process.
fn both() -> (Rig, Connection, Pid) {
    let mut rig = Rig::start(&text(ANY, "old", ""));
    let upload = rig.server.send(UPLOAD);
    let old = rig.upgrade();
    (rig, upload, old)
}

/// Sends the rest of [`UPLOAD`] on each connection.
fn finish(uploads: impl IntoIterator<Item = Connection>) {
    for mut upload in uploads {
        upload.send(b"cd");
        assert_eq!(upload.response().status, 200);
    }
}

#[test]
fn a_stop_of_the_old_process_stops_both_and_finishes_requests() {
    let (mut rig, upload, old) = both();
    let other = rig.server.send(UPLOAD);
    kill_process(old, Signal::TERM).unwrap();
    rig.server.wait_for_line("stopping, also process");
    finish([upload, other]);
    rig.server.exits_with(0);
    wait_for_exit(rig.pid);
}

#[test]
fn a_stop_of_the_new_process_stops_both_and_finishes_requests() {
    let (mut rig, upload, _) = both();
    rig.signal(Signal::INT);
    rig.server.wait_for_line("SIGINT: stopping");
    finish([upload]);
    let stderr = rig.server.exits_with(0);
    assert!(!stderr.contains("accepts connections again"), "{stderr}");
}

#[test]
fn one_interrupt_from_the_terminal_is_not_two_signals() {
    let (mut rig, upload, old) = both();
    let other = rig.server.send(UPLOAD);
    // Ctrl-C signals both processes.
    kill_process(old, Signal::INT).unwrap();
    rig.server.wait_for_line(&format!("stopping, also process {}", rig.pid.as_raw_nonzero()));
    rig.signal(Signal::INT);
    finish([upload, other]);
    rig.server.exits_with(0);
}

#[test]
fn a_second_stop_of_the_old_process_stops_both_at_once() {
    let (mut rig, upload, old) = both();
    let other = rig.server.send(UPLOAD);
    kill_process(old, Signal::TERM).unwrap();
    rig.server.wait_for_line("stopping, also process");
    kill_process(old, Signal::INT).unwrap();
    rig.server.exits_with(130);
    wait_for_exit(rig.pid);
    for mut connection in [upload, other] {
        assert!(connection.read_to_end().is_empty());
    }
}

#[test]
fn a_reload_reaches_the_new_process_while_the_old_one_stops_its_apps() {
    let folder = Folder::new();
    let requested = folder.join("asked");
    // The app logs SIGTERM and does not end.
    let script = format!("trap \"echo > {}\" TERM; while :; do sleep 1000 & wait; done", requested.display());
    let app =
        format!("command = [\"/bin/sh\", \"-c\", '''{script}'''], processes = {{ stop_timeout = \"1h\" }}");
    let app = format!("[[site.route]]\npath = \"/slow\"\nfastcgi = {{ {app} }}\n");
    let mut rig = Rig::start(&(text(ANY, "old", "") + &app));
    rig.rewrite(&text(ANY, "old", ""));
    let old = rig.upgrade();
    wait_until("the old process ends its apps", || requested.exists());
    rig.rewrite(&text(ANY, "new", ""));
    kill_process(old, Signal::HUP).unwrap();
    rig.server.wait_for_line("SIGHUP: the configuration was reloaded");
    assert_eq!(rig.get("/"), "new");
    for _ in 0..2 {
        kill_process(old, Signal::TERM).unwrap();
        rig.server.wait_for_line("SIGTERM: stopping, also process");
    }
    rig.server.exits_with(143);
    wait_for_exit(rig.pid);
}

#[test]
fn signals_to_the_old_process_reach_the_new_one() {
    let (mut rig, upload, old) = both();
    rig.rewrite(&text(ANY, "new", ""));
    kill_process(old, Signal::HUP).unwrap();
    rig.server.wait_for_line("SIGHUP: the configuration was reloaded");
    assert_eq!(rig.get("/"), "new");
    kill_process(old, Signal::USR1).unwrap();
    rig.server.wait_for_line("SIGUSR1: the access log was reopened");
    // The next upgrade waits for the end of the old process.
    kill_process(old, Signal::USR2).unwrap();
    rig.server.wait_for_line("SIGUSR2: the upgrade begins when process");
    finish([upload]);
    let second = rig.is_replaced();
    wait_for_exit(old);
    wait_for_exit(second);
    assert_eq!(rig.get("/"), "new");
}

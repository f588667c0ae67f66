//! A server whose process is replaced.

use std::fs;
use std::path::Path;

use rudy_tests::{Connection, Server, children, eventually, fastcgi_info};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

pub(crate) const ANY: &str = "\"127.0.0.1:0\"";
/// Said by the process that goes on after its place was not taken.
pub(crate) const GOES_ON: &str = "this process goes on as before";

/// A configuration that answers `/` with `body`, `/app` with the id of an app's process, and `/stream` without an end.
pub(crate) fn text(listen: &str, body: &str, more: &str) -> String {
    let app = fastcgi_info().display();
    format!(
        "listen = [{listen}]\n{more}\n[[site]]\n[[site.route]]\npath = \"/\"\nrespond = {{ body = \"{body}\" }}\n\
         [[site.route]]\npath = \"/app\"\nfastcgi = {{ command = [\"{app}\"] }}\n\
         [[site.route]]\npath = \"/stream\"\nstream = {{ interval = \"10ms\", format = \"sse\" }}\n"
    )
}

/// The processes of a server: the one that was started, and those that took its place. All are killed when this is dropped.
pub(crate) struct Rig {
    pub(crate) server: Server,
    /// The process that serves.
    pub(crate) pid: Pid,
    started: Vec<Pid>,
}

impl Rig {
    pub(crate) fn start(config: &str) -> Self {
        Self::of(Server::config(config))
    }

    pub(crate) fn of(server: Server) -> Self {
        let pid = pid(&server.pid().to_string());
        Self { server, pid, started: Vec::new() }
    }

    /// Sends the process that serves a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("it runs");
    }

    /// Has it replaced, and returns the process before.
    pub(crate) fn upgrade(&mut self) -> Pid {
        self.server.forget_lines();
        self.signal(Signal::USR2);
        self.is_replaced()
    }

    /// Waits until another process has taken the place, and returns the process before.
    pub(crate) fn is_replaced(&mut self) -> Pid {
        let old = self.pid;
        let line = self.server.wait_for_line(&format!(" has replaced process {old}"));
        let (before, _) = line.split_once(" serves in place").expect("it was just found");
        self.pid = pid(before.rsplit(' ').next().expect("a process id"));
        self.started.push(self.pid);
        old
    }

    /// The process that was started last, whether it serves or not.
    pub(crate) fn starting(&mut self) -> Pid {
        let line = self.server.wait_for_line(" starts in place of this one");
        let (before, _) = line.split_once(" starts in place").expect("it was just found");
        let pid = pid(before.rsplit(' ').next().expect("a process id"));
        self.started.push(pid);
        pid
    }

    pub(crate) fn rewrite(&self, text: &str) {
        let folder = self.server.path();
        fs::write(folder.join("rudy.new"), text).expect("a temp folder can be written");
        fs::rename(folder.join("rudy.new"), folder.join("rudy.toml")).expect("a temp folder can be written");
    }

    /// What is at `path`, on a new connection.
    pub(crate) fn get(&self, path: &str) -> String {
        let answer = self.server.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text().to_owned()
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("the server runs").count()
    }

    /// Nothing but the server and its app runs.
    pub(crate) fn is_alone(&self) {
        eventually("only the app is a child of the server", || (children(self.pid).len() == 1).then_some(()));
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let children = if self.server.is_running() { children(self.server.pid()) } else { Vec::new() };
        for pid in self.started.iter().chain(&children) {
            // It fails where it has ended.
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}

fn pid(text: &str) -> Pid {
    text.parse().ok().and_then(Pid::from_raw).unwrap_or_else(|| panic!("{text:?} is no process id"))
}

/// Waits until a process has ended. It may be a zombie, of which no one takes the status.
pub(crate) fn ended(pid: Pid) {
    eventually("the process ends", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_zombie = stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'));
        (is_zombie || test_kill_process(pid).is_err()).then_some(())
    });
}

pub(crate) fn ask(connection: &mut Connection, path: &str) -> String {
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
    connection.response().text().to_owned()
}

/// Writes a program that the server is started as, through a link that can be made to lead elsewhere.
pub(crate) fn link(to: &Path, link: &Path) {
    let new = link.with_extension("new");
    std::os::unix::fs::symlink(to, &new).expect("a temp folder can be written");
    fs::rename(new, link).expect("a temp folder can be written");
}

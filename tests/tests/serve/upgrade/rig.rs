//! A server for tests of upgrades.

use rudy_tests::prelude::*;

pub(crate) const ANY: &str = "\"127.0.0.1:0\"";
/// The log message after a failed upgrade.
pub(crate) const UPGRADE_FAILED: &str = "this process continues";

/// A configuration that responds to `/` with `body`, to `/app` with the process id of an app, and to `/stream` with an endless stream.
pub(crate) fn text(listen: &str, body: &str, more: &str) -> String {
    let app = fastcgi_info().display();
    format!(
        "listen = [{listen}]\n{more}\n[[site]]\n[[site.route]]\npath = \"/\"\nrespond = {{ body = \"{body}\" }}\n\
         [[site.route]]\npath = \"/app\"\nfastcgi = {{ command = [\"{app}\"] }}\n\
         [[site.route]]\npath = \"/stream\"\nstream = {{ interval = \"10ms\", format = \"sse\" }}\n"
    )
}

/// The processes of a server: the started one and its successors. All are killed on drop.
pub(crate) struct Rig {
    pub(crate) server: Server,
    /// The serving process.
    pub(crate) pid: Pid,
    started: Vec<Pid>,
}

impl Rig {
    pub(crate) fn start(config: &str) -> Self {
        Self::from_server(Server::config(config))
    }

    pub(crate) fn from_server(server: Server) -> Self {
        let pid = pid(&server.pid().to_string());
        Self { server, pid, started: Vec::new() }
    }

    /// Sends a signal to the serving process.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the process is running");
    }

    /// Upgrades the server and returns the old process.
    pub(crate) fn upgrade(&mut self) -> Pid {
        self.server.forget_lines();
        self.signal(Signal::USR2);
        self.is_replaced()
    }

    /// Upgrades the server, and waits until the old process has ended.
    pub(crate) fn upgrade_and_wait(&mut self) {
        let old = self.upgrade();
        wait_for_exit(old);
    }

    /// Waits until another process serves, and returns the old one.
    pub(crate) fn is_replaced(&mut self) -> Pid {
        let old = self.pid;
        let line = self.server.wait_for_line(&format!(" has replaced process {old}"));
        let (before, _) = line.split_once(" has replaced process").expect("the loop found this text");
        self.pid = pid(before.rsplit(' ').next().expect("a process id"));
        self.started.push(self.pid);
        old
    }

    /// The process that was started last, serving or not.
    pub(crate) fn starting(&mut self) -> Pid {
        let line = self.server.wait_for_line(" to replace this one");
        let (before, _) = line.split_once(" to replace this one").expect("the loop found this text");
        let pid = pid(before.rsplit(' ').next().expect("a process id"));
        self.started.push(pid);
        pid
    }

    pub(crate) fn rewrite(&self, text: &str) {
        let folder = self.server.path();
        folder.write("rudy.new", text);
        fs::rename(folder.join("rudy.new"), folder.join("rudy.toml")).expect("a temp folder can be written");
    }

    /// Requests `path` on a new connection.
    pub(crate) fn get(&self, path: &str) -> String {
        let response = self.server.get(path);
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        response.text().to_owned()
    }

    pub(crate) fn descriptors(&self) -> usize {
        descriptors_of(self.pid)
    }

    /// Checks that only the server and its app are running.
    pub(crate) fn is_alone(&self) {
        wait_until("only the app is a child of the server", || children(self.pid).len() == 1);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let children = if self.server.is_running() { children(self.server.pid()) } else { Vec::new() };
        for pid in self.started.iter().chain(&children) {
            // This fails if the process has ended.
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}

fn pid(text: &str) -> Pid {
    text.parse().ok().and_then(Pid::from_raw).unwrap_or_else(|| panic!("{text:?} is no process id"))
}

/// Waits until a process has ended, or is a zombie.
pub(crate) fn wait_for_exit(pid: Pid) {
    wait_until("the process ends", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_zombie = stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'));
        is_zombie || test_kill_process(pid).is_err()
    });
}

pub(crate) fn ask(connection: &mut Connection, path: &str) -> String {
    connection.get(path, &[]).text().to_owned()
}

/// Creates a symbolic link to start the server through, which can be switched later.
pub(crate) fn link(to: &Path, link: &Path) {
    let new = link.with_extension("new");
    symlink(to, &new).expect("a temp folder can be written");
    fs::rename(new, link).expect("a temp folder can be written");
}

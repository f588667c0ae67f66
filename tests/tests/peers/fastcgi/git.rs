//! Git over HTTP through Rudy: fcgiwrap runs `git http-backend`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rudy_tests::{PATIENCE, Server, program};
use rustix::process::{Pid, Signal, kill_process_group};

use super::apps::fcgiwrap;

/// A program that is ended with all that it has started.
struct Group(std::process::Child);

impl Drop for Group {
    fn drop(&mut self) {
        // It fails only if all have ended already.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// git without what this machine's user has set up.
fn git(folder: &Path, arguments: &[&str]) -> Output {
    let mut git = Command::new("git");
    git.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    git.env("GIT_TERMINAL_PROMPT", "0").env_remove("http_proxy").env("no_proxy", "*");
    git.args(["-c", "user.name=test", "-c", "user.email=test@example.test", "-c", "safe.directory=*"]);
    let output = git.args(arguments).output().expect("git can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
    output
}

fn head(folder: &Path) -> String {
    String::from_utf8(git(folder, &["rev-parse", "HEAD"]).stdout).expect("a hash is text")
}

/// fcgiwrap, and Rudy in front of it, for the repositories in a folder.
fn serve(folder: &Path, served: &Path) -> Option<(Group, Server)> {
    let socket = folder.join("git.sock");
    let mut command = fcgiwrap(&socket)?;
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").stdin(Stdio::null()).stdout(Stdio::null());
    let group = Group(command.process_group(0).spawn().expect("fcgiwrap can be started"));
    let deadline = Instant::now() + PATIENCE;
    while UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < deadline, "fcgiwrap does not listen");
        thread::sleep(Duration::from_millis(5));
    }
    let programs = String::from_utf8(git(served, &["--exec-path"]).stdout).expect("a path");
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\nlimits.body_bytes = \"1GiB\"\n[[site]]\n[[site.route]]\npath = \"/git/*\"\n\
         [site.route.fastcgi]\naddress = \"unix:{}\"\nconnections = 2\n[site.route.fastcgi.params]\n\
         SCRIPT_FILENAME = \"{}/git-http-backend\"\nGIT_PROJECT_ROOT = \"{}\"\nGIT_HTTP_EXPORT_ALL = \"1\"\n\
         REMOTE_USER = \"test\"\n",
        socket.display(),
        programs.trim_end(),
        served.display(),
    ));
    Some((group, server))
}

/// This repository, if it is one with its whole past: a shallow one cannot be pushed.
fn ours() -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let asked =
        Command::new("git").current_dir(&ours).args(["rev-parse", "--is-shallow-repository"]).output();
    asked.is_ok_and(|output| output.stdout == b"false\n").then_some(ours)
}

#[test]
fn a_repository_is_cloned_and_pushed_to_and_so_is_this_one() {
    if program("git").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temp folder can be made");
    let folder = folder.path();
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("the folder is ours");
    let served = folder.join("served");
    fs::create_dir(&served).expect("the folder is ours");
    let Some((_fcgiwrap, server)) = serve(folder, &served) else { return };
    git(&served, &["init", "--bare", "--quiet", "small.git"]);
    let small = folder.join("small");
    git(folder, &["clone", "--quiet", &server.url("/git/small.git"), "small"]);
    fs::write(small.join("file"), "content\n".repeat(100_000)).expect("the folder is ours");
    git(&small, &["add", "file"]);
    git(&small, &["commit", "--quiet", "--message", "First"]);
    git(&small, &["push", "--quiet", "origin", "HEAD:main"]);
    git(folder, &["clone", "--quiet", "--branch", "main", &server.url("/git/small.git"), "again"]);
    assert_eq!(head(&folder.join("again")), head(&small));
    let Some(ours) = ours() else { return };
    let url = server.url("/git/rudy.git");
    git(&served, &["init", "--bare", "--quiet", "rudy.git"]);
    git(&ours, &["push", "--quiet", &url, "HEAD:refs/heads/main"]);
    git(folder, &["clone", "--quiet", "--branch", "main", &url, "rudy"]);
    assert_eq!(head(&folder.join("rudy")), head(&ours));
}

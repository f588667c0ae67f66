//! Git over HTTP through Rudy: fcgiwrap runs `git http-backend`.

use std::process::Output;

use rudy_tests::prelude::*;

use super::apps::{Running, fcgiwrap, open_folder};

/// Runs git without the configuration of the user.
fn git(folder: &Path, arguments: &[&str]) -> Output {
    let mut git = Command::new("git");
    git.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    git.env("GIT_TERMINAL_PROMPT", "0").env_remove("http_proxy").env("no_proxy", "*");
    git.args(["-c", "user.name=test", "-c", "user.email=test@example.test", "-c", "safe.directory=*"]);
    let output = git.args(arguments).output().expect("git can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {stderr}");
    output
}

fn head(folder: &Path) -> String {
    String::from_utf8(git(folder, &["rev-parse", "HEAD"]).stdout).expect("a hash is text")
}

/// Starts fcgiwrap, and Rudy in front of it, for the repositories in `served` of its folder.
fn serve() -> Option<(Running, Server)> {
    let folder = open_folder();
    let served = folder.path().join("served");
    fs::create_dir(&served).expect("the folder is writable");
    let mut command = fcgiwrap(&folder.path().join("app.sock"))?;
    command.env("GIT_CONFIG_GLOBAL", "/dev/null");
    let fcgiwrap = Running::start(command, folder);
    let programs = String::from_utf8(git(&served, &["--exec-path"]).stdout).expect("a path");
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\nlimits.body_bytes = \"1GiB\"\n[[site]]\n[[site.route]]\npath = \"/git/*\"\n\
         [site.route.fastcgi]\naddress = \"unix:{}\"\nconnections = 2\n[site.route.fastcgi.params]\n\
         SCRIPT_FILENAME = \"{}/git-http-backend\"\nGIT_PROJECT_ROOT = \"{}\"\nGIT_HTTP_EXPORT_ALL = \"1\"\n\
         REMOTE_USER = \"test\"\n",
        fcgiwrap.socket().display(),
        programs.trim_end(),
        served.display(),
    ));
    Some((fcgiwrap, server))
}

/// Returns this repository if it has its whole history: a shallow clone cannot be pushed.
fn this_repository() -> Option<PathBuf> {
    let this_repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new("git")
        .current_dir(&this_repository)
        .args(["rev-parse", "--is-shallow-repository"])
        .output();
    output.is_ok_and(|output| output.stdout == b"false\n").then_some(this_repository)
}

#[test]
fn a_repository_is_pushed_and_cloned() {
    if program("git").is_none() {
        return;
    }
    let Some((fcgiwrap, server)) = serve() else { return };
    let (folder, served) = (fcgiwrap.folder.path(), fcgiwrap.folder.path().join("served"));
    git(&served, &["init", "--bare", "--quiet", "small.git"]);
    let small = folder.join("small");
    git(folder, &["clone", "--quiet", &server.url("/git/small.git"), "small"]);
    small.write("file", "content\n".repeat(100_000));
    git(&small, &["add", "file"]);
    git(&small, &["commit", "--quiet", "--message", "First"]);
    git(&small, &["push", "--quiet", "origin", "HEAD:main"]);
    git(folder, &["clone", "--quiet", "--branch", "main", &server.url("/git/small.git"), "again"]);
    assert_eq!(head(&folder.join("again")), head(&small));
}

#[test]
fn this_repository_is_pushed_and_cloned() {
    if !long() || program("git").is_none() {
        return;
    }
    let Some((fcgiwrap, server)) = serve() else { return };
    let (folder, served) = (fcgiwrap.folder.path(), fcgiwrap.folder.path().join("served"));
    let Some(this_repository) = this_repository() else { return };
    let url = server.url("/git/rudy.git");
    git(&served, &["init", "--bare", "--quiet", "rudy.git"]);
    git(&this_repository, &["push", "--quiet", &url, "HEAD:refs/heads/main"]);
    git(folder, &["clone", "--quiet", "--branch", "main", &url, "rudy"]);
    assert_eq!(head(&folder.join("rudy")), head(&this_repository));
}

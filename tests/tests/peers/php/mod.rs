//! PHP sites with php-fpm from Debian.

mod compress;
mod dokuwiki;
mod mediawiki;
mod sendfile;
mod site;
mod slow;
mod steps;

use std::process::ChildStderr;

use rudy_tests::php_fpm;
use rudy_tests::prelude::*;

/// A running php-fpm process. Dropping this ends the process.
pub(crate) struct Fpm {
    child: Child,
    /// Held, so that a write to stderr does not end the process.
    _stderr: BufReader<ChildStderr>,
    folder: Folder,
}

impl Fpm {
    /// Starts php-fpm with two children, a Unix socket and these settings of php.ini. Returns `None` if the
    /// test is skipped.
    pub(crate) fn start(settings: &str) -> Option<Self> {
        Self::start_with(&["-n"], settings)
    }

    /// As [`Self::start`], with the installed extensions, which the system's php.ini loads.
    fn start_with_extensions(settings: &str) -> Option<Self> {
        Self::start_with(&[], settings)
    }

    fn start_with(arguments: &[&str], settings: &str) -> Option<Self> {
        let fpm = php_fpm()?;
        let folder = Folder::new();
        let folder_path = folder.path().display();
        let configuration = folder.join("fpm.conf");
        let text = format!(
            "[global]\nerror_log = /proc/self/fd/2\ndaemonize = no\n\
             [www]\nlisten = {folder_path}/fpm.sock\npm = static\npm.max_children = 2\n{settings}\n"
        );
        fs::write(&configuration, text).expect("a temp folder can be written");
        let mut command = Command::new(fpm);
        command.args(arguments).args(["-F", "-O", "-y"]).arg(&configuration);
        if geteuid().is_root() {
            command.arg("-R");
        }
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program can be started");
        let mut stderr = BufReader::new(child.stderr.take().expect("the stream is piped"));
        let mut output = String::new();
        while !output.contains("ready to handle connections") {
            assert_ne!(
                stderr.read_line(&mut output).expect("its output is text"),
                0,
                "php-fpm has ended: {output}"
            );
        }
        Some(Self { child, _stderr: stderr, folder })
    }

    /// Starts Rudy with `root` as a PHP site; `more` has further settings of its table.
    fn serve(&self, root: &Path, path: &str, more: &str) -> Server {
        Server::config(&format!("listen = [\"127.0.0.1:0\"]\n[[site]]\n{}", self.route(root, path, more)))
    }

    /// As [`Self::serve`] for all paths, with top-level settings.
    fn serve_with(&self, root: &Path, top: &str, more: &str) -> Server {
        let route = self.route(root, "/*", more);
        Server::config(&format!("listen = [\"127.0.0.1:0\"]\n{top}[[site]]\n{route}"))
    }

    /// Returns a route to a PHP site in `root`.
    pub(crate) fn route(&self, root: &Path, path: &str, more: &str) -> String {
        format!(
            "[[site.route]]\npath = \"{path}\"\n[site.route.php]\n\
             root = \"{}\"\naddress = \"unix:{}/fpm.sock\"\n{more}\n",
            root.display(),
            self.folder.path().display()
        )
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        // On SIGTERM, php-fpm also ends its children.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        // Fails only if the process has already ended.
        let _ = self.child.wait();
    }
}

/// Sends a request with a body on a new connection.
fn send(server: &Server, method: &str, target: &str, fields: &str, body: &str) -> Response {
    let mut connection = server.connect();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n{fields}\r\n{body}",
        body.len()
    );
    connection.send(request.as_bytes());
    connection.response()
}

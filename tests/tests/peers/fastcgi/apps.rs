//! Real FastCGI programs, each on a Unix socket in its own folder.

use rudy_tests::prelude::*;
use rudy_tests::{flup, php_fpm};
use rustix::process::kill_process_group;

/// A kind of program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// php-fpm with this number of children, each of which serves one connection at a time.
    PhpFpm { children: u32 },
    /// `php-cgi -b`, with two children.
    PhpCgi,
    /// Go's `net/http/fcgi`, which multiplexes.
    Go,
    /// The module FCGI of Perl in two processes.
    Perl,
    /// flup of Python, with threads.
    Python,
    /// fcgiwrap with two children, which runs a CGI program for each request.
    Fcgiwrap,
}

/// An app that implements the test requests.
pub(crate) struct App {
    pub(super) program: Program,
    pub(super) running: Running,
}

/// A program that listens at `app.sock` in its own folder. Dropping this kills it and all processes that it
/// has started.
pub(super) struct Running {
    pub(super) folder: Folder,
    child: Child,
}

impl Running {
    /// Starts the program and waits until it listens.
    pub(super) fn start(mut command: Command, folder: Folder) -> Self {
        let output = File::create(folder.join("output")).expect("the folder is writable");
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("a descriptor is left")).stderr(output);
        let child = command.process_group(0).spawn().expect("the program can be started");
        let running = Self { folder, child };
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(running.socket()).is_err() {
            let output = fs::read_to_string(running.folder.path().join("output")).unwrap_or_default();
            assert!(Instant::now() < deadline, "{command:?} does not listen:\n{output}");
            thread::sleep(Duration::from_millis(5));
        }
        running
    }

    /// Where it listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("app.sock")
    }
}

/// Creates a folder that other users can read: if the tests run as root, the apps do not.
pub(super) fn open_folder() -> Folder {
    let folder = Folder::new();
    folder.set_mode(".", 0o755);
    folder
}

impl App {
    /// Starts the program and waits until it listens. Returns `None` and skips the test if something is not
    /// installed.
    pub(crate) fn start(program: Program) -> Option<Self> {
        let folder = open_folder();
        let command = program.command(folder.path())?;
        Some(Self { program, running: Running::start(command, folder) })
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.running.socket()
    }

    /// Returns the path of the app on Rudy.
    pub(super) fn path(&self) -> &'static str {
        if self.is_php() { "/app.php" } else { "/app" }
    }

    /// Returns the number of processes, if it is constant.
    pub(super) fn processes(&self) -> Option<usize> {
        match self.program {
            Program::PhpFpm { children } => Some(children as usize),
            Program::PhpCgi | Program::Perl => Some(2),
            Program::Go | Program::Python => Some(1),
            Program::Fcgiwrap => None,
        }
    }

    /// Returns a route to the app with at most this many connections.
    pub(super) fn route(&self, connections: usize) -> String {
        let (address, folder) = (self.running.socket(), self.running.folder.path().display());
        let path = if self.is_php() { "/*" } else { "/app/*" };
        let more = match self.program {
            Program::PhpFpm { .. } | Program::PhpCgi => {
                format!("root = \"{folder}\", script_suffix = \".php\"")
            }
            // Without `NO_BUFFERING`, fcgiwrap sends output only at the end of the program or after 8 KiB.
            Program::Fcgiwrap => {
                format!("params = {{ SCRIPT_FILENAME = \"{folder}/app.pl\", NO_BUFFERING = \"1\" }}")
            }
            _ => "response_timeout = \"30s\"".to_owned(),
        };
        format!(
            "[[site.route]]\npath = \"{path}\"\nfastcgi = {{ address = \"unix:{}\", connections = {connections}, {more} }}\n",
            address.display()
        )
    }

    fn is_php(&self) -> bool {
        matches!(self.program, Program::PhpFpm { .. } | Program::PhpCgi)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // This fails only if all processes have ended already.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Program {
    /// Returns the command that starts the program, and writes its files into `folder`.
    fn command(self, folder: &Path) -> Option<Command> {
        let socket = folder.join("app.sock");
        Some(match self {
            Self::PhpFpm { children } => {
                folder.write("app.php", include_str!("apps/app.php"));
                let mut fpm = Command::new(php_fpm()?);
                fpm.args(["--nodaemonize", "--no-php-ini", "--fpm-config"]).arg(fpm_config(folder, children));
                fpm
            }
            Self::PhpCgi => {
                folder.write("app.php", include_str!("apps/app.php"));
                let mut cgi = Command::new(program("php-cgi")?);
                cgi.env("PHP_FCGI_CHILDREN", "2").env("PHP_FCGI_MAX_REQUESTS", "0");
                cgi.args(["-n", "-d", "post_max_size=0", "-b"]).arg(socket);
                cgi
            }
            Self::Go => {
                let source = folder.write("app.go", include_str!("apps/app.go"));
                let built = Command::new(program("go")?)
                    .args(["build", "-o"])
                    .arg(folder.join("app"))
                    .arg(source)
                    .status();
                assert!(built.expect("go can be started").success(), "the app is built");
                let mut app = Command::new(folder.join("app"));
                app.arg(socket);
                app
            }
            Self::Perl => {
                let mut perl = Command::new(perl_with_fcgi()?);
                perl.arg(folder.write("app.pl", include_str!("apps/app.pl"))).arg(socket);
                perl
            }
            Self::Python => {
                let mut python = Command::new(flup()?);
                python.arg(folder.write("app.py", include_str!("apps/app.py"))).arg(socket);
                python
            }
            Self::Fcgiwrap => {
                let script = folder.write("app.pl", include_str!("apps/app.pl"));
                fs::set_permissions(script, Permissions::from_mode(0o755)).expect("the file is writable");
                fcgiwrap(&socket)?
            }
        })
    }
}

/// Returns the command for fcgiwrap with two children, which passes on the stderr of its programs.
pub(super) fn fcgiwrap(socket: &Path) -> Option<Command> {
    let mut fcgiwrap = Command::new(program("fcgiwrap")?);
    fcgiwrap.args(["-f", "-c", "2", "-s"]).arg(format!("unix:{}", socket.display()));
    Some(fcgiwrap)
}

pub(super) fn perl_with_fcgi() -> Option<PathBuf> {
    let perl = program("perl")?;
    let has_fcgi = Command::new(&perl).args(["-MFCGI", "-e1"]).stderr(Stdio::null()).status();
    if !has_fcgi.is_ok_and(|status| status.success()) {
        skip("Perl has no FCGI; `cargo xtask setup` installs it");
        return None;
    }
    Some(perl)
}

fn fpm_config(folder: &Path, children: u32) -> PathBuf {
    // Started as root, php-fpm requires a user for its children.
    let user = if geteuid().is_root() { "user = nobody\ngroup = nogroup\n" } else { "" };
    let folder_name = folder.display();
    let config = format!(
        "[global]\nerror_log = {folder_name}/fpm.log\n[www]\n{user}listen = {folder_name}/app.sock\nlisten.mode = 0666\n\
         pm = static\npm.max_children = {children}\nclear_env = yes\ncatch_workers_output = no\n\
         php_admin_value[post_max_size] = 0\n"
    );
    folder.write("fpm.conf", &config)
}

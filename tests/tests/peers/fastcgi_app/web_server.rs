//! Starts nginx, lighttpd and Apache, each with its configuration in a temporary folder.

use std::process::ExitStatus;

use rudy_tests::prelude::*;
use rustix::process::kill_process_group;

/// The folder of Apache's modules on Debian and Ubuntu.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";

/// A web server. Dropping this ends it and all processes that it has started.
pub(crate) struct WebServer {
    child: Child,
    address: SocketAddr,
    /// Held, so that no other process uses the port before the server does.
    _port: ReservedPort,
    folder: Folder,
}

impl WebServer {
    /// Starts nginx with these directives in its only `location`. Connections to `app` are reused if the
    /// directives use the `upstream`.
    pub(crate) fn nginx(app: &str, location: &str) -> Option<Self> {
        Self::nginx_with(|address| {
            format!(
                "client_max_body_size 100m; upstream app {{ server {app}; keepalive 8; }}\n\
                 server {{ listen {address}; location / {{ include /etc/nginx/fastcgi_params; {location} }} }}"
            )
        })
    }

    /// Starts nginx with the directives of its `http` that `directives` returns for its address.
    pub(crate) fn nginx_with(directives: impl FnOnce(SocketAddr) -> String) -> Option<Self> {
        let nginx = program("nginx")?;
        Some(Self::start(|folder, address| {
            let mut command = Command::new(&nginx);
            command.args(rudy_tests::nginx_arguments(folder, &directives(address)));
            command
        }))
    }

    /// Starts lighttpd with this as the only host of its `fastcgi.server`.
    pub(crate) fn lighttpd(host: impl Fn(&Path) -> String) -> Option<Self> {
        let lighttpd = program("lighttpd")?;
        Some(Self::start(|folder, address| {
            let (here, host) = (folder.display(), host(folder));
            let configuration = format!(
                "server.modules = (\"mod_fastcgi\")\nserver.document-root = \"{here}\"\n\
                 server.bind = \"{}\"\nserver.port = {}\nserver.errorlog = \"{here}/error.log\"\n\
                 fastcgi.server = (\"/\" => ((\"check-local\" => \"disable\", {host})))\n",
                address.ip(),
                address.port(),
            );
            let mut command = Command::new(&lighttpd);
            command.arg("-D").arg("-f").arg(write(folder, &configuration));
            command
        }))
    }

    /// Starts Apache with these modules and directives.
    pub(crate) fn apache(modules: &[&str], directives: impl Fn(&Path) -> String) -> Option<Self> {
        let apache = program("apache2")?;
        for module in modules {
            if !Path::new(APACHE_MODULES).join(format!("mod_{module}.so")).is_file() {
                skip(&format!("mod_{module} is not installed; `cargo xtask setup` installs it"));
                return None;
            }
        }
        // Apache does not serve as root, and must be able to read the temporary folder.
        let user = if geteuid().is_root() { "User www-data\nGroup www-data" } else { "" };
        Some(Self::start(|folder, address| {
            let (here, directives) = (folder.display(), directives(folder));
            let load = |module| format!("LoadModule {module}_module {APACHE_MODULES}/mod_{module}.so\n");
            let modules =
                ["mpm_event", "authz_core"].iter().chain(modules).map(load).collect::<Vec<_>>().concat();
            let configuration = format!(
                "ServerRoot {here}\nServerName test\nListen {address}\nPidFile {here}/pid\nErrorLog {here}/error.log\n\
                 DefaultRuntimeDir {here}\nMutex file:{here} default\n{modules}{user}\nDocumentRoot {here}\n{directives}\n"
            );
            let mut command = Command::new(&apache);
            command.arg("-DFOREGROUND").arg("-f").arg(write(folder, &configuration));
            command
        }))
    }

    /// Opens a new connection.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Returns the address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Stops the server with SIGTERM, and waits for its end.
    pub(crate) fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the process is running");
        // When this panics, the log is printed.
        wait_until("it ends", || self.ended().is_some());
    }

    /// Starts the command that `command` returns for a folder and an address, and waits until the server
    /// listens.
    pub(crate) fn start(command: impl FnOnce(&Path, SocketAddr) -> Command) -> Self {
        let folder = Folder::new();
        // For servers that do not run as root.
        folder.set_mode(".", 0o755);
        let port = ReservedPort::new();
        let mut command = command(folder.path(), port.address());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn().expect("the program is installed");
        let mut server = Self { child, address: port.address(), _port: port, folder };
        server.wait_until_it_listens();
        server
    }

    fn wait_until_it_listens(&mut self) {
        wait_until("it listens", || {
            assert!(self.ended().is_none(), "it ended:\n{}", self.log());
            TcpStream::connect(self.address).is_ok()
        });
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the child can be waited for")
    }

    fn log(&self) -> String {
        let path = self.folder.join("error.log");
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }
}

impl Drop for WebServer {
    #[expect(clippy::print_stderr, reason = "the server's log explains why the test failed")]
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        if self.ended().is_none() {
            // SIGTERM first, because some servers have started processes outside their group.
            let _ = kill_process(group, Signal::TERM);
            let deadline = Instant::now() + Duration::from_secs(5);
            while self.ended().is_none() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
        }
        // This fails if no process is left.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

/// Writes a configuration into the folder of a server.
pub(crate) fn write(folder: &Path, configuration: &str) -> PathBuf {
    folder.write("server.conf", configuration)
}

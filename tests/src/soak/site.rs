//! The test site: configurations, files and php-fpm.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::pattern::Pattern;
use super::stream::HOST;
use crate::{eventually, php_fpm};

/// Number of php-fpm children, each of which serves one request at a time.
pub(super) const CHILDREN: usize = 6;
/// Number of application processes that Rudy starts.
const PROCESSES: usize = 3;
/// The size of the cache: a fraction of what is requested through it, so that it is full soon.
const CACHE_MIB: u32 = 16;
/// The files under `/files/`: names and lengths. The lengths are also the seeds of their contents.
pub(super) const FILES: &[(&str, u32)] = &[("small", 2_000), ("large", 3_000_000)];

/// Settings that a reload may change.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Connection limits of php-fpm and of each application process.
    pub(super) connections: (usize, usize),
    pub(super) queue: usize,
    pub(super) response_buffer: &'static str,
    pub(super) buffer_memory: &'static str,
    pub(super) buffer_total: &'static str,
}

impl Settings {
    /// High limits, with which no response is 503 or 507.
    pub(super) const HIGH_LIMITS: Self = Self {
        connections: (CHILDREN, 4),
        queue: 1024,
        response_buffer: "64MiB",
        buffer_memory: "2MiB",
        buffer_total: "1GiB",
    };

    /// Returns the configuration. All timeouts are shorter than that of the clients (`TIMEOUT`).
    fn text(&self, folder: &Path) -> String {
        let Self { connections: (php, app), queue, response_buffer, buffer_memory, buffer_total } = self;
        let (folder, program) = (folder.display(), std::env::current_exe().unwrap_or_default());
        let program = program.display();
        let upstream = format!(
            "queue = {queue}\nqueue_timeout = \"10s\"\nidle_timeout = \"2s\"\nresponse_timeout = \"10s\"\n\
             response_buffer = \"{response_buffer}\"\n"
        );
        // The queues are those of the applications: a response 503 shows that one of them was full.
        let through = "connections = 1024\nidle_timeout = \"2s\"\nresponse_timeout = \"20s\"";
        format!(
            "listen = [\"127.0.0.1:0,h2c\", \"127.0.0.1:0,tls\", \"unix:{folder}/rudy.sock,h2c\"]\nbuffer_dir = \"{folder}/buffers\"\nbuffer_memory = \"{buffer_memory}\"\n\
             buffer_total = \"{buffer_total}\"\n\n\
             [cache]\npath = \"{folder}/cache\"\nsize = \"{CACHE_MIB}MiB\"\nmemory = \"1MiB\"\n\n\
             [limits]\nbody_bytes = \"64MiB\"\nhead_timeout = \"3s\"\nrate_grace = \"3s\"\n\
             first_request_timeout = \"5s\"\nidle_timeout = \"5s\"\n\
             send_stall_timeout = \"4s\"\nhalf_close_timeout = \"12s\"\nlinger_timeout = \"2s\"\n\n\
             [[tcp]]\nlisten = \"127.0.0.1:0\"\nupstreams = \"unix:{folder}/rudy.sock\"\nidle_timeout = \"25s\"\n\n\
             [[site]]\nhosts = [\"{HOST}\"]\n\
             tls = {{ certificate = \"{folder}/soak.pem\", key = \"{folder}/soak.key\" }}\n\n\
             [[site.route]]\npath = \"/php/*\"\n[site.route.php]\nroot = \"{folder}/php\"\n\
             address = \"unix:{folder}/fpm.sock\"\nconnections = {php}\n{upstream}\n\
             [[site.route]]\npath = \"/app\"\n[site.route.fastcgi]\ncommand = [\"{program}\", \"--app\"]\n\
             processes = {{ min = {PROCESSES}, max = {PROCESSES} }}\nconnections = {app}\n{upstream}\n\
             [[site.route]]\npath = \"/files/*\"\nfiles = {{ root = \"{folder}/files\" }}\n\n\
             [[site.route]]\npath = \"/through/*\"\n[site.route.proxy]\nupstreams = \"unix:{folder}/rudy.sock\"\n\
             strip_prefix = true\n{through}\n\
             [[site.route]]\npath = \"/cached/*\"\n[site.route.proxy]\nupstreams = \"unix:{folder}/rudy.sock\"\n\
             strip_prefix = true\n{through}\n[site.route.cache]\ndefault_freshness = \"20s\"\n\n\
             [[site.route]]\npath = \"/delay\"\ndelay = {{ time = \"100ms\", body = \"late\\n\" }}\n\n\
             [[site.route]]\npath = \"/ticks\"\n\
             stream = {{ interval = \"50ms\", format = \"sse\", welcome = \"\", text = \"{{n}}\", count = 20 }}\n\n\
             [[site.route]]\npath = \"/topics/*\"\nbroadcast = {{ publish = \"loopback\", heartbeat = \"1s\" }}\n"
        )
    }

    /// Writes the configuration, which the server reads at start and at SIGHUP. Writes a new file and renames it, because the
    /// server may still be reading the old one.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let new = folder.join("rudy.toml.new");
        fs::write(&new, self.text(folder))?;
        fs::rename(new, configuration(folder))
    }
}

/// Path of the configuration.
pub(super) fn configuration(folder: &Path) -> PathBuf {
    folder.join("rudy.toml")
}

/// Path of the buffer files.
pub(super) fn buffers(folder: &Path) -> PathBuf {
    folder.join("buffers")
}

/// Writes all files into the folder.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    for name in ["php", "files", "buffers"] {
        fs::create_dir(folder.join(name))?;
    }
    fs::write(folder.join("php/work.php"), include_str!("work.php"))?;
    for (name, length) in FILES {
        fs::write(folder.join("files").join(name), Pattern::new(*length).take(*length as usize))?;
    }
    Settings::HIGH_LIMITS.write(folder)
}

/// A php-fpm, stopped when dropped.
pub(super) struct Fpm {
    child: Child,
}

impl Fpm {
    /// Starts php-fpm with its socket in the folder.
    pub(super) fn start(folder: &Path) -> Result<Self, String> {
        let program = php_fpm().ok_or("php-fpm is not installed; `cargo xtask setup` installs it")?;
        let (configuration, here) = (folder.join("fpm.conf"), folder.display());
        let text = format!(
            "[global]\nerror_log = {here}/fpm.log\ndaemonize = no\n\
             [www]\nlisten = {here}/fpm.sock\npm = static\npm.max_children = {CHILDREN}\n\
             php_admin_value[post_max_size] = 0\nphp_admin_value[enable_post_data_reading] = 0\n"
        );
        fs::write(&configuration, text).map_err(|error| format!("cannot configure php-fpm: {error}"))?;
        let mut command = Command::new(program);
        command.args(["-n", "-F", "-O", "-y"]).arg(&configuration);
        if rustix::process::geteuid().is_root() {
            command.arg("-R");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start php-fpm: {error}"))?;
        let fpm = Self { child };
        eventually("php-fpm listens", || UnixStream::connect(folder.join("fpm.sock")).ok());
        Ok(fpm)
    }

    /// Returns the exit status if it has ended.
    pub(super) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        if self.has_ended().is_none() {
            // SIGTERM also stops the children. Both calls fail only if php-fpm has just ended.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

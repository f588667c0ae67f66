//! Images as container runtimes run them: without Docker and its daemon.

use rudy_tests::prelude::*;
use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// An image that was unpacked, with the configuration for a runtime.
pub(crate) struct Bundle {
    folder: Folder,
    pub(crate) config: Value,
}

impl Bundle {
    /// Unpacks the image for a processor. `None` if the test is skipped.
    pub(crate) fn unpack(archive: &Path, architecture: &str) -> Option<Self> {
        if !geteuid().is_root() {
            skip("only root can unpack an image with its users");
            return None;
        }
        let (skopeo, umoci) = (program("skopeo")?, program("umoci")?);
        let folder = Folder::new();
        let image = format!("{folder}/layout:image");
        let mut copy = Command::new(skopeo);
        copy.args(["--insecure-policy", "--override-arch", architecture, "copy", "--quiet"]);
        copy.args([format!("oci-archive:{}", archive.display()), format!("oci:{image}")]);
        Output::of(&mut copy).succeeded();
        let bundle = folder.join("bundle");
        Output::of(Command::new(umoci).args(["unpack", "--image", &image]).arg(&bundle)).succeeded();
        let config = serde_json::from_str(&bundle.read("config.json")).expect("the configuration is JSON");
        Some(Self { folder, config })
    }

    /// Returns a folder that exists as long as the container.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the root of its files.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("bundle/rootfs")
    }

    /// Allows it as little as Kubernetes with the strictest profile: no capability, and a root that cannot be written to.
    pub(crate) fn restrict(&mut self) {
        self.config["root"]["readonly"] = true.into();
        self.config["process"]["capabilities"] = json!({});
        self.config["process"]["noNewPrivileges"] = true.into();
    }

    /// Mounts an empty folder that every user can write to.
    pub(crate) fn mount_empty(&mut self, path: &str) {
        self.mount(
            json!({ "destination": path, "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"] }),
        );
    }

    /// Mounts a folder, which cannot be written to.
    pub(crate) fn mount_folder(&mut self, path: &str, folder: &Path) {
        self.mount(
            json!({ "destination": path, "type": "bind", "source": folder, "options": ["rbind", "ro"] }),
        );
    }

    /// Sets a variable of the environment.
    pub(crate) fn set_variable(&mut self, name: &str, value: &str) {
        let variables = self.config["process"]["env"].as_array_mut().expect("a configuration has variables");
        variables.push(format!("{name}={value}").into());
    }

    fn mount(&mut self, mount: Value) {
        self.config["mounts"].as_array_mut().expect("a configuration has mounts").push(mount);
    }

    /// Starts it, and waits until it has printed its addresses. `None` if the test is skipped.
    pub(crate) fn start(mut self, runtime: &str) -> Option<Container> {
        let runtime = Runtime {
            program: program(runtime)?,
            state: self.folder.join("state"),
            name: format!("rudy-{runtime}-{}", std::process::id()),
        };
        self.config["process"]["terminal"] = false.into();
        let bundle = self.folder.join("bundle");
        bundle.write("config.json", self.config.to_string());
        let run = runtime.command(&["run", "--bundle", &bundle.to_string_lossy(), &runtime.name]);
        let script = format!("exec {} > {}", words(&run), self.folder.join("stdout").display());
        let server = Server::build().through_shell(&script).start();
        let state = Output::of(&mut runtime.command(&["state", &runtime.name])).with_code(0).json();
        Some(Container { runtime, server, first: state["pid"].to_string(), folder: self.folder })
    }
}

/// A container runtime, with one container.
struct Runtime {
    program: PathBuf,
    state: PathBuf,
    name: String,
}

impl Runtime {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        // crun rejects machines with both versions of control groups. Without the folder, they have version 1.
        let script = "umount /sys/fs/cgroup/unified 2> /dev/null; exec \"$@\"";
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(&self.program);
        command.arg("--root").arg(&self.state).args(arguments);
        command
    }
}

/// A running container.
pub(crate) struct Container {
    runtime: Runtime,
    pub(crate) server: Server,
    /// Process 1 outside of the container.
    first: String,
    folder: Folder,
}

impl Container {
    /// Runs a command in it.
    pub(crate) fn run(&self, command: &[&str]) -> Output {
        // Otherwise, crun runs it as root.
        let arguments = [&["exec", "--user", "65532:65532", &self.runtime.name], command].concat();
        Output::of(&mut self.runtime.command(&arguments))
    }

    /// Sends a GET to a port in its network.
    pub(crate) fn get(&self, port: u16, target: &str) -> Response {
        let first = &self.first;
        // In a thread of its own, which alone enters the network.
        let request = || {
            let network = File::open(format!("/proc/{first}/ns/net")).expect("the container runs");
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind).expect("root can enter a network");
            let mut connection = Connection::open(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            connection.get(target, &["Host: example.org", "Connection: close"])
        };
        thread::scope(|scope| scope.spawn(request).join()).expect("there is a response")
    }

    /// Stops it as `docker stop` does, and returns its output: stdout, and stderr.
    pub(crate) fn stop(mut self) -> (String, String) {
        Output::of(&mut self.runtime.command(&["kill", &self.runtime.name, "TERM"])).succeeded();
        let stderr = self.server.exits_with(0);
        (self.folder.read("stdout"), stderr)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.runtime.command(&["delete", "--force", &self.runtime.name]).output();
    }
}

/// A command for a shell.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| format!("'{}'", word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

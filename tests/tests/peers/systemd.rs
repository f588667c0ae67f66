//! The packaged unit under systemd, which `systemd-nspawn` boots with the programs of this machine and an empty `/etc`, `/run` and
//! `/var`. The commands and the configuration are those of `docs/systemd.md`.

use rudy_tests::prelude::*;

/// Where the container has the repository, which it cannot change.
const REPOSITORY: &str = "/mnt";
/// The first command of the page builds the program.
const INSTALL: &str = "cargo install --locked --path crates/rudy --root /usr/local";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the repository")
}

/// A booted systemd.
struct Machine {
    container: Child,
    /// systemd, as process 1 of the container.
    first: Pid,
    nsenter: PathBuf,
}

impl Machine {
    /// `None` if the test is skipped.
    fn boot() -> Option<Self> {
        if !long() {
            return None;
        }
        if !geteuid().is_root() {
            skip("only root can boot a container (systemd-nspawn)");
            return None;
        }
        let (nspawn, nsenter) = (program("systemd-nspawn")?, program("nsenter")?);
        let mut command = Command::new(nspawn);
        // The program is copied, because the folder of the build can be closed to the user of the service.
        command.args(["--quiet", "--volatile=yes", "--directory=/", "--tmpfs=/usr/local:mode=755"]);
        command.arg(format!("--bind-ro={}:{REPOSITORY}", repository().display()));
        command.arg(format!("--bind-ro={}:/opt/rudy", binary().display()));
        command.arg(format!("--machine=rudy-test-{}", std::process::id()));
        command.args(["--private-network", "--register=no", "--console=pipe"]);
        // Without systemd outside, there is no unit for the container.
        command.args((!Path::new("/run/systemd/system").exists()).then_some("--keep-unit"));
        // Not the services of this machine, which an empty /etc enables.
        command.args(["--boot", "--", "--unit=basic.target"]);
        let container = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let container = container.expect("systemd-nspawn can be started");
        let is_systemd =
            |pid: &Pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "systemd\n");
        let first = eventually("systemd starts", || children(container.id()).into_iter().find(is_systemd));
        let machine = Self { container, first, nsenter };
        wait_until("systemd has booted", || {
            let state = machine.shell("systemctl is-system-running").1;
            ["running", "degraded"].contains(&state.trim())
        });
        Some(machine)
    }

    /// Runs a script in the container, and returns whether it succeeds, with its output.
    fn shell(&self, script: &str) -> (bool, String) {
        let mut command = Command::new(&self.nsenter);
        command.args([&format!("--target={}", self.first), "--all", "env", "--ignore-environment"]);
        command.args(["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "sh", "-c"]);
        let output = command.arg(format!("exec 2>&1; {script}")).output().expect("nsenter can be started");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a script that succeeds, and returns its output.
    fn run(&self, script: &str) -> String {
        let (succeeds, output) = self.shell(script);
        if succeeds {
            return output;
        }
        let log = self.shell("systemctl status --no-pager rudy; journalctl --no-pager --unit=rudy").1;
        panic!("{script}\n{output}\n{log}");
    }

    /// Follows the section "Install" of the page.
    fn install(&self) {
        let steps = steps("Install");
        assert!(steps.contains(INSTALL), "{steps}");
        self.run("install -D -m 644 /dev/stdin /srv/www/page.txt <<'END'\nhello\nEND");
        let copy = "install -D -m 755 /opt/rudy /usr/local/bin/rudy";
        self.run(&format!("set -ex; cd {REPOSITORY}\n{}", steps.replace(INSTALL, copy)));
    }

    /// Adds settings to the unit, and starts it.
    fn change(&self, settings: &str, start: &str) {
        let file = "/etc/systemd/system/rudy.service.d/override.conf";
        self.run(&format!(
            "set -e; systemctl stop rudy; install -D -m 644 /dev/stdin {file} <<'END'\n{settings}\nEND\n\
             systemctl daemon-reload; {start}"
        ));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only if it has ended already. Without process 1, the kernel ends all others in the container.
        let _ = kill_process(self.first, Signal::KILL);
        let _ = self.container.wait();
    }
}

/// The lines of a section of the page.
fn section(title: &str) -> String {
    let page = fs::read_to_string(repository().join("docs/systemd.md")).expect("the page can be read");
    let lines = page.lines().skip_while(|line| line.trim_start_matches('#') != format!(" {title}"));
    let lines = lines.skip(1).take_while(|line| !line.starts_with('#'));
    lines.map(|line| line.to_owned() + "\n").collect::<Vec<_>>().concat()
}

/// The first block in this language of a section.
fn block(title: &str, language: &str) -> String {
    let section = section(title);
    let (_, rest) = section.split_once(&format!("```{language}\n")).expect("the section has a block");
    rest.split("```").next().expect("a part is never missing").to_owned()
}

/// The indented commands of a section as a script that also writes `/etc/rudy/rudy.toml` where the page has its text.
fn steps(title: &str) -> String {
    let mut is_text = false;
    section(title).lines().fold(String::new(), |script, line| {
        let step = match line {
            "```toml" => {
                is_text = true;
                "cat > /etc/rudy/rudy.toml <<'END'\n".to_owned()
            }
            "```" => {
                is_text = false;
                "END\n".to_owned()
            }
            text if is_text => format!("{text}\n"),
            _ => line.strip_prefix("    ").map_or_else(String::new, |command| format!("{command}\n")),
        };
        script + &step
    })
}

const GET: &str = "curl --silent --show-error --fail http://127.0.0.1/page.txt";

// One test: without systemd on this machine, two containers would have the same control groups.
#[test]
fn the_packaged_unit_runs_in_the_three_ways_of_the_guide_and_commands_find_it() {
    let Some(machine) = Machine::boot() else { return };
    machine.install();
    commands_find_the_server(&machine);
    root_gives_the_folders_to_the_user(&machine);
    systemd_passes_the_socket(&machine);
}

fn commands_find_the_server(machine: &Machine) {
    assert_eq!(machine.run(GET), "hello\n");
    let log = machine.run("journalctl --no-pager --unit=rudy");
    assert_eq!(log.matches("openat2 is not available (").count(), 1, "{log}");
    // Also after systemd has created the folders again.
    for _ in 0..2 {
        for command in ["rudy status", "rudy certificates", "rudy upstreams", "systemctl reload rudy"] {
            machine.run(command);
        }
        machine.run("rudy reload --binary --pid $(systemctl show --property MainPID --value rudy)");
        wait_until("the new process is the main one", || {
            machine.shell("set -e; rudy status; systemctl reload rudy").0
        });
        assert_eq!(machine.run(GET), "hello\n");
        machine.run("systemctl restart rudy");
    }
    machine.run("rudy check /etc/rudy/rudy.toml");
    let access_log = machine.run("cat /var/log/rudy/access.log");
    assert_eq!(access_log.matches("/page.txt").count(), 3, "{access_log}");
}

fn root_gives_the_folders_to_the_user(machine: &Machine) {
    // The container has no accounts.
    machine.run("sed -i '1i user = \"4000123:4000123\"' /etc/rudy/rudy.toml");
    machine.change(&block("Drop root", "ini"), "systemctl start rudy");
    assert_eq!(machine.run(GET), "hello\n");
    machine.run("set -e; rudy status; rudy reload; rudy status");
    for path in ["/run/rudy", "/var/log/rudy/access.log", "/var/lib/rudy", "/var/cache/rudy"] {
        assert_eq!(machine.run(&format!("stat --format %u {path}")).trim(), "4000123", "{path}");
    }
    machine.run("sed -i 1d /etc/rudy/rudy.toml");
}

fn systemd_passes_the_socket(machine: &Machine) {
    let listen = block("Socket activation", "toml");
    machine.run(&format!("cd {REPOSITORY}; {}", first_command("Socket activation")));
    machine.run(&format!("sed -i 's/^listen = .*/{}/' /etc/rudy/rudy.toml", listen.trim()));
    machine.change(&block("Socket activation", "ini"), "systemctl enable --now rudy.socket");
    // The first request starts the service.
    assert_eq!(machine.run(GET), "hello\n");
    machine.run("set -e; rudy status; systemctl restart rudy; rudy status");
    assert_eq!(machine.run(GET), "hello\n");
}

fn first_command(title: &str) -> String {
    let section = section(title);
    section.lines().find_map(|line| line.strip_prefix("    ")).expect("the section has a command").to_owned()
}

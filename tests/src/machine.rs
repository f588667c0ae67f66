//! A booted systemd, in a container of `systemd-nspawn` without a network.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::{children, eventually, long, program, skip, wait_until};

/// A booted systemd. Its processes end when this is dropped.
pub struct Machine {
    container: Child,
    /// systemd, as process 1 of the container.
    first: Pid,
    nsenter: PathBuf,
}

impl Machine {
    /// Boots it with these options of `systemd-nspawn`, such as the root folder. `None` if the test is skipped.
    pub fn boot<S: AsRef<OsStr>>(options: impl IntoIterator<Item = S>) -> Option<Self> {
        if !long() {
            return None;
        }
        if !geteuid().is_root() {
            skip("only root can boot a container (systemd-nspawn)");
            return None;
        }
        let (nspawn, nsenter) = (program("systemd-nspawn")?, program("nsenter")?);
        let mut command = Command::new(nspawn);
        command.arg("--quiet").args(options);
        command.arg(format!("--machine=rudy-test-{}", std::process::id()));
        command.args(["--private-network", "--register=no", "--console=pipe"]);
        // For `sandbox = true`: the container's own filter blocks them.
        command.arg("--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self");
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
    pub fn shell(&self, script: &str) -> (bool, String) {
        let mut command = Command::new(&self.nsenter);
        command.args([&format!("--target={}", self.first), "--all", "env", "--ignore-environment"]);
        command.args(["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "sh", "-c"]);
        let output = command.arg(format!("exec 2>&1; {script}")).output().expect("nsenter can be started");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a script that succeeds, and returns its output.
    pub fn run(&self, script: &str) -> String {
        let (succeeds, output) = self.shell(script);
        if succeeds {
            return output;
        }
        let log = self.shell("systemctl status --no-pager rudy; journalctl --no-pager --unit=rudy").1;
        panic!("{script}\n{output}\n{log}");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only if it has ended already. Without process 1, the kernel ends all others in the container.
        let _ = kill_process(self.first, Signal::KILL);
        let _ = self.container.wait();
    }
}

//! A machine with Debian, to which packages are added.

use rudy_tests::Machine;
use rudy_tests::prelude::*;

/// Where the machine has the files of the release.
pub(crate) const RELEASE: &str = "/mnt";

/// Requests the first page.
pub(crate) const GET: &str = "curl --silent --show-error --fail http://127.0.0.1/";

/// Returns the folder with the files of a release, or `None` if the test is skipped.
pub(crate) fn release() -> Option<PathBuf> {
    if !long() {
        return None;
    }
    let folder = std::env::var_os("RUDY_RELEASE").map(PathBuf::from);
    if folder.is_none() {
        // In `cargo xtask nightly tests`, too.
        skip_unsupported("RUDY_RELEASE is not set; `cargo xtask nightly packages` runs it");
    }
    folder
}

/// The root folder of Debian, which `cargo xtask nightly packages` makes. `None` if the test is skipped.
fn root() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debian");
    if root.join("installed").exists() {
        return Some(root);
    }
    skip("there is no root folder of Debian; `cargo xtask nightly packages` makes it");
    None
}

/// The root folder, of which the container changes only a copy in memory, and the files of the release.
pub(crate) fn options() -> Option<[String; 3]> {
    let (release, root) = (release()?, root()?);
    let release = format!("--bind-ro={}:{RELEASE}", release.display());
    Some(["--volatile=overlay".to_owned(), format!("--directory={}", root.display()), release])
}

/// Boots Debian. `None` if the test is skipped.
pub(crate) fn boot() -> Option<Machine> {
    Machine::boot(options()?)
}

/// A script that lists the files of a machine with their permissions and sizes, without what is not of packages: the file systems of
/// the kernel, logs and lists of package managers, and accounts, which a purge leaves.
const FILES: &str = "find / -xdev \\( -path /dev -o -path /proc -o -path /run -o -path /sys -o -path /tmp -o -path /var/tmp \
    -o -path /mnt -o -path /root -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/systemd \
    -o -path /var/cache/apt -o -path /var/cache/debconf -o -path /var/cache/ldconfig -o -path '/var/log/*' -not -name '*rudy*' \
    -o -path '/etc/passwd*' -o -path '/etc/group*' -o -path '/etc/*shadow*' -o -path /etc/.pwd.lock \\) -prune \
    -o -type d -printf '%M %U:%G %p\\n' -o -printf '%M %U:%G %s %p\\n' | sort";

/// Lists the files of a machine.
pub(crate) fn files(machine: &Machine) -> BTreeSet<String> {
    machine.run(FILES).lines().map(str::to_owned).collect()
}

/// Asserts that a machine has the files that it had before.
pub(crate) fn assert_same_files(machine: &Machine, before: &BTreeSet<String>) {
    let after = files(machine);
    let changes: Vec<_> = after.symmetric_difference(before).collect();
    assert!(changes.is_empty(), "{changes:#?}");
}

/// Asserts what a user sees after the installation: the first page, from a server that runs as its own user in the sandbox of the
/// unit, and that the commands find.
pub(crate) fn assert_serves(machine: &Machine) {
    assert_contains!(machine.run(GET), "Rudy works");
    assert_eq!(machine.run("ps -o user= -p $(systemctl show -P MainPID rudy)").trim(), "rudy");
    machine.run("set -e; systemctl is-enabled rudy; rudy status; systemctl reload rudy; rudy check /etc/rudy/rudy.toml");
    assert_contains!(machine.run("cat /var/log/rudy/access.log"), "\"GET / HTTP/1.1\" 200");
    let log = machine.run("journalctl --no-pager --unit=rudy");
    assert!(!log.contains("openat2 is not available"), "{log}");
    println!("{}", machine.run("systemd-analyze security --no-pager rudy | tail -n 1").trim());
}

/// The id that systemd gives each start of the service, so that a restart is noticed.
pub(crate) fn start_id(machine: &Machine) -> String {
    machine.run("systemctl show --property InvocationID --value rudy")
}

/// Returns the process id of the server.
pub(crate) fn main_process(machine: &Machine) -> String {
    machine.run("systemctl show --property MainPID --value rudy")
}

/// Requests the page again and again while `change` runs, and asserts that no request fails.
pub(crate) fn without_a_failed_request(machine: &Machine, change: impl FnOnce()) {
    machine.run(&format!(
        "(until [ -e /tmp/done ]; do {GET} >/dev/null && echo complete || echo failed; done; touch /tmp/ended) \
         >/tmp/requests 2>&1 &"
    ));
    let requests = || machine.run("cat /tmp/requests");
    wait_until("requests are sent", || requests().contains("complete\n"));
    change();
    let before = requests().len();
    wait_until("the new process responds, too", || requests().len() > before + 100);
    machine.run("touch /tmp/done");
    wait_until("the client has ended", || machine.shell("[ -e /tmp/ended ]").0);
    let requests = requests();
    assert!(requests.lines().all(|line| line == "complete"), "{requests}");
    println!("{} requests without a failure", requests.lines().count());
    machine.run("rm /tmp/done /tmp/ended");
}

//! The packaged unit under systemd, which `systemd-nspawn` boots with the programs of this machine and an empty `/etc`, `/run` and
//! `/var`. The commands and the configuration are those of `docs/systemd.md`.

use rudy_tests::Machine;
use rudy_tests::prelude::*;

/// Where the container has the repository, which it cannot change.
const REPOSITORY: &str = "/mnt";
/// The first command of the page builds the program.
const INSTALL: &str = "cargo install --locked --path crates/rudy --root /usr/local";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the repository")
}

/// Boots the programs of this machine with an empty `/etc`. `None` if the test is skipped.
fn boot() -> Option<Machine> {
    // The program is copied, because the folder of the build can be closed to the user of the service.
    let folders = ["--volatile=yes", "--directory=/", "--tmpfs=/usr/local:mode=755"].map(str::to_owned);
    let repository = format!("--bind-ro={}:{REPOSITORY}", repository().display());
    let program = format!("--bind-ro={}:/opt/rudy", binary().display());
    Machine::boot(folders.into_iter().chain([repository, program]))
}

/// Follows the section "Install" of the page.
fn install(machine: &Machine) {
    let steps = steps("Install");
    assert!(steps.contains(INSTALL), "{steps}");
    machine.run("install -D -m 644 /dev/stdin /srv/www/page.txt <<'END'\nhello\nEND");
    let copy = "install -D -m 755 /opt/rudy /usr/local/bin/rudy";
    machine.run(&format!("set -ex; cd {REPOSITORY}\n{}", steps.replace(INSTALL, copy)));
}

/// Adds settings to the unit, and starts it.
fn change(machine: &Machine, settings: &str, start: &str) {
    let file = "/etc/systemd/system/rudy.service.d/override.conf";
    machine.run(&format!(
        "set -e; systemctl stop rudy; install -D -m 644 /dev/stdin {file} <<'END'\n{settings}\nEND\n\
         systemctl daemon-reload; {start}"
    ));
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
    let Some(machine) = boot() else { return };
    install(&machine);
    commands_find_the_server(&machine);
    root_gives_the_folders_to_the_user(&machine);
    systemd_passes_the_socket(&machine);
}

fn commands_find_the_server(machine: &Machine) {
    assert_eq!(machine.run(GET), "hello\n");
    let log = machine.run("journalctl --no-pager --unit=rudy");
    assert!(!log.contains("openat2 is not available"), "{log}");
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
    change(machine, &block("Drop root", "ini"), "systemctl start rudy");
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
    change(machine, &block("Socket activation", "ini"), "systemctl enable --now rudy.socket");
    // The first request starts the service.
    assert_eq!(machine.run(GET), "hello\n");
    machine.run("set -e; rudy status; systemctl restart rudy; rudy status");
    assert_eq!(machine.run(GET), "hello\n");
}

fn first_command(title: &str) -> String {
    let section = section(title);
    section.lines().find_map(|line| line.strip_prefix("    ")).expect("the section has a command").to_owned()
}

//! The package for Debian.

use rudy_tests::Machine;
use rudy_tests::prelude::*;

use crate::system::{
    GET, RELEASE, assert_same_files, assert_serves, boot, files, main_process, options, start_id,
    without_a_failed_request,
};

/// Installs the package, which needs none that the machine lacks.
fn install(options: &str) -> String {
    format!("DEBIAN_FRONTEND=noninteractive apt-get install --yes {options} {RELEASE}/rudy_*_amd64.deb")
}

/// Makes a package of an older version in `/tmp`, with another program file.
fn older_package() -> String {
    format!(
        "set -e; cd /tmp; dpkg-deb --raw-extract {RELEASE}/rudy_*_amd64.deb older
         sed -i 's/^Version: .*/Version: 0.0.1-1/' older/DEBIAN/control
         dpkg-deb -Znone --build older older.deb; rm -r older"
    )
}

const PURGE: &str = "dpkg --purge rudy";

#[test]
fn the_package_serves_at_once_and_a_purge_leaves_nothing() {
    let Some(machine) = boot() else { return };
    let before = files(&machine);
    let start = Instant::now();
    machine.run(&format!("{} && {GET}", install("")));
    println!("from `apt install` to the first page: {:.1} s", start.elapsed().as_secs_f32());
    assert_serves(&machine);
    for file in
        ["man/man1/rudy-serve.1.gz", "man/man5/rudy.toml.5.gz", "doc/rudy/run.md", "doc/rudy/changelog.gz"]
    {
        machine.run(&format!("test -f /usr/share/{file}"));
    }
    the_next_steps_in_the_configuration_are_valid(&machine);
    a_removed_package_can_be_installed_again(&machine);
    machine.run(PURGE);
    assert_same_files(&machine, &before);
}

/// Each block of settings that are comments, with the folders that it names.
fn the_next_steps_in_the_configuration_are_valid(machine: &Machine) {
    machine.run(
        "set -e; mkdir -p /srv/example.org /srv/blog
         sed -e 's/^#\\([^ ]\\)/\\1/' -e 's/^listen = .*/listen = [\":80\", \":443,tls\"]/' /etc/rudy/rudy.toml > /tmp/all.toml
         grep -q '^proxy = ' /tmp/all.toml; rudy check /tmp/all.toml; rm -r /srv/example.org /srv/blog",
    );
}

fn a_removed_package_can_be_installed_again(machine: &Machine) {
    machine.run("echo '# changed' >> /etc/rudy/rudy.toml");
    machine.run("dpkg --remove rudy");
    assert!(!machine.shell(GET).0, "the service runs without its package");
    machine.run("set -e; test -f /var/log/rudy/access.log; test -f /srv/www/index.html");
    machine.run(&install(""));
    assert_contains!(machine.run(GET), "Rudy works");
    assert_contains!(machine.run("cat /etc/rudy/rudy.toml"), "# changed");
}

#[test]
fn an_upgrade_fails_no_request_and_restarts_only_if_the_server_cannot_start_the_new_version() {
    let Some(machine) = boot() else { return };
    machine.run(&older_package());
    machine.run("dpkg --install /tmp/older.deb");
    assert_serves(&machine);
    let (id, process) = (start_id(&machine), main_process(&machine));
    without_a_failed_request(&machine, || {
        machine.run(&install(""));
        wait_until("the new process is the main one", || main_process(&machine) != process);
    });
    assert_eq!(start_id(&machine), id, "the service has restarted");
    the_old_version_continues_if_the_new_one_rejects_the_configuration(&machine);

    // The running server cannot start a process, as in the sandbox.
    machine.run("runuser -u rudy -- prlimit --nproc=1 --pid $(systemctl show -P MainPID rudy)");
    assert_contains!(
        machine.run(&install("--reinstall")),
        "The service restarts, because",
        "cannot start /usr/bin/rudy"
    );
    assert_ne!(start_id(&machine), id);
    assert_contains!(machine.run(GET), "Rudy works");

    machine.run("systemctl disable --now rudy");
    machine.run(&install("--reinstall"));
    assert!(!machine.shell("systemctl is-active rudy").0, "an upgrade has started a disabled service");
}

fn the_old_version_continues_if_the_new_one_rejects_the_configuration(machine: &Machine) {
    let id = start_id(machine);
    machine.run("cp /etc/rudy/rudy.toml /tmp; echo 'unknown = 1' >> /etc/rudy/rudy.toml");
    assert_contains!(
        machine.run(&install("--reinstall")),
        "The old version continues",
        "unknown key `unknown`"
    );
    assert_eq!(start_id(machine), id);
    assert_contains!(machine.run(GET), "Rudy works");
    machine.run("cp /tmp/rudy.toml /etc/rudy/rudy.toml");
}

/// The message is that of the server.
#[test]
fn an_upgrade_restarts_a_server_in_the_sandbox() {
    let Some(machine) = boot() else { return };
    machine.run(&install(""));
    machine.run("sed -i '1i sandbox = true' /etc/rudy/rudy.toml");
    if machine.shell("rudy check /etc/rudy/rudy.toml").1.contains("does not support Landlock") {
        return skip_unsupported("this kernel does not support Landlock");
    }
    machine.run("systemctl restart rudy");
    let id = start_id(&machine);
    assert_contains!(machine.run(&install("--reinstall")), "The service restarts, because", "sandbox");
    assert_ne!(start_id(&machine), id);
    assert_contains!(machine.run(GET), "Rudy works");
}

#[test]
fn what_was_installed_by_hand_is_named_and_its_data_moves_to_the_unit_of_the_package() {
    let Some(machine) = boot() else { return };
    // The unit as it was: with a user that systemd creates at the start.
    machine.run(&format!(
        "set -e; mkdir /tmp/files; dpkg-deb --extract {RELEASE}/rudy_*_amd64.deb /tmp/files; cd /tmp/files
         install -D usr/bin/rudy /usr/local/bin/rudy; mkdir -p /etc/rudy /srv/www
         echo mine > /srv/www/index.html; (echo '# mine'; cat etc/rudy/rudy.toml) > /etc/rudy/rudy.toml
         sed -e 's!/usr/bin/rudy!/usr/local/bin/rudy!' -e 's/^User=.*/&\\nDynamicUser=yes/' lib/systemd/system/rudy.service \
             > /etc/systemd/system/rudy.service
         cd /; rm -r /tmp/files; systemctl daemon-reload; systemctl enable --now rudy; {GET}
         echo state > /var/lib/private/rudy/kept"
    ));
    let id = start_id(&machine);
    let output = machine.run(&install("-o Dpkg::Options::=--force-confold"));
    assert_contains!(
        output,
        "/usr/local/bin/rudy was not installed by this package",
        "moves /var/lib/private/rudy to /var/lib/rudy"
    );
    assert_eq!((machine.run(GET), start_id(&machine)), ("mine\n".to_owned(), id), "{output}");

    // The commands of the output.
    for line in output.lines().filter_map(|line| line.strip_prefix("rudy:     To ")) {
        machine.run(line.split_once(": ").expect("the line has a command").1);
    }
    assert_eq!(machine.run(GET), "mine\n");
    assert_eq!(machine.run("readlink /proc/$(systemctl show -P MainPID rudy)/exe").trim(), "/usr/bin/rudy");
    assert_eq!(machine.run("cat /var/lib/rudy/kept; stat --format %U /var/lib/rudy/kept"), "state\nrudy\n");
    wait_until("all requests are in the log", || {
        machine.shell("grep -c 'GET / ' /var/log/rudy/access.log").1.trim() == "3"
    });
    assert_contains!(machine.run("cat /etc/rudy/rudy.toml"), "# mine");

    machine.run(PURGE);
    assert_eq!(machine.run("cat /srv/www/index.html"), "mine\n");
    assert!(!machine.shell("ls /var/lib/rudy /var/log/rudy /var/cache/rudy").0);
}

/// As images are built.
#[test]
fn the_package_is_installed_without_systemd_and_enables_the_service() {
    let Some(options) = options() else { return };
    let Some(nspawn) = program("systemd-nspawn") else { return };
    let script = format!(
        "set -e; exec 2>&1; printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d
         {}; readlink /etc/systemd/system/multi-user.target.wants/rudy.service; runuser -u rudy -- rudy check /etc/rudy/rudy.toml
         {PURGE}; ! ls /etc/systemd/system/multi-user.target.wants/rudy.service",
        install("")
    );
    let mut command = Command::new(nspawn);
    command.args(["--quiet", "--register=no", "--keep-unit", "--private-network", "--as-pid2"]).args(options);
    let output = Output::of(command.args(["--", "sh", "-c", &script])).succeeded();
    assert_contains!(output, "/lib/systemd/system/rudy.service");
}

//! The RPM package, with the scripts of its spec, on Debian with the program rpm: no registry has another distribution.

use rudy_tests::prelude::*;

use crate::system::{
    GET, RELEASE, assert_same_files, assert_serves, boot, files, main_process, start_id,
    without_a_failed_request,
};

#[test]
fn the_package_serves_at_once_and_an_upgrade_fails_no_request() {
    let Some(machine) = boot() else { return };
    // Debian's packages are not in the database of rpm.
    let rpm = |options: &str| machine.run(&format!("rpm --nodeps {options}"));
    // Folders of a package that all distributions with rpm have.
    machine.run("cd /usr/share; mkdir -p fish/vendor_completions.d licenses zsh/site-functions");
    let before = files(&machine);
    rpm(&format!("--install {RELEASE}/rudy-*.x86_64.rpm"));
    assert_serves(&machine);
    assert_eq!(rpm("--verify rudy").trim(), "");
    let (id, process) = (start_id(&machine), main_process(&machine));
    without_a_failed_request(&machine, || {
        rpm(&format!("--upgrade --force {RELEASE}/rudy-*.x86_64.rpm"));
        wait_until("the new process is the main one", || main_process(&machine) != process);
    });
    assert_eq!(start_id(&machine), id, "the service has restarted");
    rpm("--erase rudy");
    assert!(!machine.shell(GET).0, "the service runs without its package");
    machine.run("rm -r /var/log/rudy /var/lib/rudy /var/cache/rudy");
    assert_same_files(&machine, &before);
}

//! Runs all other tests of this program on each engine, in separate processes. A long check: `cargo xtask nightly tests` runs it.

use std::num::NonZeroUsize;
use std::process::Command;

use rudy_net::engine::Model;

use crate::support::ENGINE;

/// More threads than a test has open connections.
const POOL: NonZeroUsize = NonZeroUsize::new(32).unwrap();

#[test]
fn serial() {
    every_test_holds_on(Model::Serial);
}

#[test]
fn thread() {
    every_test_holds_on(Model::Thread);
}

#[test]
fn pool() {
    every_test_holds_on(Model::Pool(POOL));
}

#[test]
fn task() {
    every_test_holds_on(Model::Task);
}

#[test]
fn mailbox() {
    every_test_holds_on(Model::Mailbox);
}

/// This process runs the tests on the default engine.
fn every_test_holds_on(model: Model) {
    // This process may run the tests on one other engine.
    if std::env::var_os(ENGINE).is_some() || std::env::var_os("RUDY_TEST_LONG").is_none() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--skip", "engines::"]).env(ENGINE, model.to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{model}: {text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains(" 0 passed"), "{model}: no test ran: {text}");
}

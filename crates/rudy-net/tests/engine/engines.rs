//! Every other test of this program once more on each engine, in a process of its own.

use std::num::NonZeroUsize;
use std::process::Command;

use rudy_net::engine::Model;

use crate::support::ENGINE;

/// More threads than a test has connections open at the same time.
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

/// The default engine is the one on which this process runs them.
fn every_test_holds_on(model: Model) {
    if std::env::var_os(ENGINE).is_some() {
        // This is a process for one engine.
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--skip", "engines::"]).env(ENGINE, model.to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{model}: {text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains(" 0 passed"), "{model}: no test ran: {text}");
}

//! Apps that the server starts itself: `fastcgi-info`, which says the id of its process in its first line.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use rudy_net::engine::Model;
use rudy_tests::{PATIENCE, Server, fastcgi_info};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// A server on `model` that starts `fastcgi-info` with these arguments and this table of `processes`.
fn server(model: Model, flavour: &str, processes: &str) -> Server {
    Server::config(&text(model, flavour, processes))
}

fn text(model: Model, flavour: &str, processes: &str) -> String {
    let program = fastcgi_info().display();
    format!(
        "listen = [\"127.0.0.1:0\"]\nengine = \"{model}\"\n[[site]]\n[[site.route]]\npath = \"/info\"\nfastcgi = {{ command = \
         [\"{program}\", {flavour}], processes = {{ {processes} }} }}\n"
    )
}

/// Which process answers.
fn asked(server: &Server) -> u32 {
    let answer = server.get("/info");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let process = answer.text().lines().next().and_then(|line| line.parse().ok());
    process.unwrap_or_else(|| panic!("no process: {}", answer.text()))
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(process.try_into().expect("the kernel's own ids")).expect("not 0")
}

/// Waits until a process is no more.
fn wait_for_end_of(process: u32) {
    let begun = Instant::now();
    while test_kill_process(pid(process)).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "process {process} goes on");
        std::thread::yield_now();
    }
}

#[test]
fn one_process_is_always_the_same_over_a_reload_too_and_ends_with_the_server() {
    let mut server = server(Model::PerCore, "\"--tasks\", \"10\"", "max = 1");
    let process = asked(&server);
    let seen: BTreeSet<_> = (0..50).map(|_| asked(&server)).collect();
    assert_eq!(seen, BTreeSet::from([process]));
    server.signal(Signal::HUP);
    server.wait_for_line("the configuration was read again");
    assert_eq!(asked(&server), process);
    server.signal(Signal::TERM);
    server.wait();
    assert!(test_kill_process(pid(process)).is_err(), "the app outlives its server");
}

#[test]
fn another_table_is_another_app() {
    let mut server = server(Model::PerCore, "\"--tasks\", \"10\"", "max = 1");
    let before = asked(&server);
    fs::write(server.path().join("rudy.toml"), text(Model::PerCore, "\"--tasks\", \"11\"", "max = 1"))
        .unwrap();
    server.signal(Signal::HUP);
    server.wait_for_line("the configuration was read again");
    assert_ne!(asked(&server), before);
    wait_for_end_of(before);
}

#[test]
fn one_that_dies_is_started_again() {
    let server = server(Model::PerCore, "\"--tasks\", \"10\"", "max = 1");
    let first = asked(&server);
    kill_process(pid(first), Signal::KILL).unwrap();
    wait_for_end_of(first);
    let begun = Instant::now();
    // Until the death is known a request may be answered 502, and so it is while nothing can be started.
    while server.get("/info").status != 200 {
        assert!(begun.elapsed() < PATIENCE, "it is not started again");
    }
    assert_ne!(asked(&server), first);
}

#[test]
fn one_is_started_on_demand_and_replaced_after_its_requests() {
    let server = server(Model::PerCore, "\"--threads\", \"1\"", "min = 0, max = 1, requests = 10");
    let processes: Vec<_> = (0..30).map(|_| asked(&server)).collect();
    let different: BTreeSet<_> = processes.iter().collect();
    assert_eq!(different.len(), 3, "{processes:?}");
    assert!(processes.chunks(10).all(|ten| ten.iter().all(|process| *process == ten[0])), "{processes:?}");
}

#[test]
fn a_program_that_was_removed_is_a_502_with_its_reason_in_the_log() {
    let folder = tempfile::tempdir().expect("a temp folder can be made");
    let program = folder.path().join("app");
    std::os::unix::fs::symlink("/bin/true", &program).expect("a temp folder can be written");
    let mut server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/\"\nfastcgi = {{ command = [\"{}\"], \
         processes.min = 0 }}\n",
        program.display()
    ));
    fs::remove_file(&program).expect("a temp folder can be written");
    let answer = server.get("/");
    assert_eq!(answer.status, 502);
    let line = server.wait_for_line("cannot start ");
    assert!(line.contains("app: No such file or directory"), "{line}");
}

//! Plans as `rudy lab` has them: what they build, and what they can tell apart.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rudy_tests::{PATIENCE, binary};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

fn run(folder: &Path, plan: &str) -> Output {
    fs::write(folder.join("plan.toml"), plan).expect("it can be written");
    lab(folder).output().expect("rudy can be started")
}

fn lab(folder: &Path) -> Command {
    let mut command = Command::new(binary());
    command.args(["lab", "run", "plan.toml", "--out", "out"]).current_dir(folder).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The plan that anybody can try, with shorter runs: a difference of 10 % in what is waited for shows on any machine.
#[test]
fn a_server_that_is_slower_by_a_tenth_is_found_out_in_ten_rounds_and_an_equal_one_is_not() {
    let folder = tempfile::tempdir().expect("a temp folder can be made");
    let plan = include_str!("../../labs/calibrate.toml");
    let shorter = plan.replace("requests = 25", "requests = 10").replace("control = true\n", "");
    assert_ne!(plan, shorter);
    let output = run(folder.path(), &shorter);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut report = Command::new(binary());
    report.args(["lab", "report", "out", "--format", "json"]).current_dir(folder.path());
    let report = report.output().expect("rudy can be started").stdout;
    let report: Value = serde_json::from_slice(&report).expect("an object");
    let verdict = |subject: &str| {
        let findings = report["experiments"][0]["findings"].as_array().expect("two of them");
        let found = findings.iter().find(|finding| finding["subject"] == subject);
        found.expect("it is compared")["verdict"].clone()
    };
    assert_eq!(verdict("slower"), "worse", "{}", text(&output.stdout));
    assert!(verdict("equal") != "better" && verdict("equal") != "worse", "{}", text(&output.stdout));
}

/// A program that a shell runs and a copy builds.
fn built(build: &str) -> String {
    format!(
        "rounds = 1\n[[program]]\nname = \"server\"\nsource = \"server.sh\"\nbuild = [\"/bin/sh\", \"-c\", '''{build}''', \
         \"sh\", \"{{source}}\", \"{{target}}\"]\n\
         [[subject]]\nname = \"it\"\ncommand = [\"{{built}}/server\", \"{{rudy}}\", \"{{port}}\"]\n\
         [[load]]\nname = \"burst\"\nkind = \"burst\"\nrequests = 3\n"
    )
}

fn with_source() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temp folder can be made");
    let source = "#!/bin/sh\nexec \"$1\" serve . --listen 127.0.0.1:$2\n";
    fs::write(folder.path().join("server.sh"), source).expect("it can be written");
    folder
}

#[test]
fn a_program_is_built_before_it_is_measured() {
    let folder = with_source();
    let output = run(folder.path(), &built("cp \"$1\" \"$2\" && chmod +x \"$2\""));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("building server\n"));
    let results = fs::read_to_string(folder.path().join("out/results.jsonl")).expect("there are results");
    let run: Value = serde_json::from_str(results.lines().nth(1).expect("a run")).expect("a record");
    assert_eq!(run["outcome"]["kind"], "measured", "{run}");
}

#[test]
fn a_program_that_cannot_be_built_is_told_with_what_its_compiler_said() {
    let folder = with_source();
    let output = run(folder.path(), &built("echo no such type >&2; exit 3"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot build server") && said.contains("no such type"), "{said}");
    // Nothing is in the way of the next try.
    assert!(!folder.path().join("out").exists());
}

#[test]
fn what_a_build_leaves_running_is_ended_and_not_counted_to_a_subject() {
    let folder = with_source();
    let output =
        run(folder.path(), &built("sleep 1000 >/dev/null 2>&1 & cp \"$1\" \"$2\" && chmod +x \"$2\""));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("it left behind sleep (").count(), 1, "{said}");
    assert!(said.contains("which we ended"), "{said}");
}

#[test]
fn ctrl_c_while_a_program_is_built_ends_the_build_and_leaves_no_folder() {
    let folder = with_source();
    let pid = folder.path().join("pid");
    let build = format!("echo $$ >{}; exec sleep 1000", pid.display());
    fs::write(folder.path().join("plan.toml"), built(&build)).expect("it can be written");
    let child = lab(folder.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let pid = wait_for_number(&pid);
    kill_process(Pid::from_child(&child), Signal::INT).expect("it is not waited for yet");
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted before the first run: nothing is left running"), "{said}");
    assert!(test_kill_process(pid).is_err(), "the compiler still runs");
    assert!(!folder.path().join("out").exists());
}

/// The number that a process writes, when it has done so.
fn wait_for_number(file: &Path) -> Pid {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if let Some(number) = text.strip_suffix('\n') {
            return number.parse().ok().and_then(Pid::from_raw).expect("it is a process");
        }
        assert!(begun.elapsed() < PATIENCE, "it was never written");
        thread::sleep(Duration::from_millis(10));
    }
}

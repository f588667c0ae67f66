//! `rudy tail` with files that are written, rotated and created again.

use std::os::unix::process::ExitStatusExt;

use rudy_tests::prelude::*;

/// A running `rudy tail`. Dropping this kills it.
struct Tail {
    child: Running,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Tail {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Running::from(command(folder, arguments).spawn());
        let stdout = lines_of(child.stdout.take().expect("the stream is piped"));
        let stderr = lines_of(child.stderr.take().expect("the stream is piped"));
        Self { child, stdout, stderr }
    }

    /// Returns the next line of its stdout.
    fn line(&self) -> String {
        self.stdout.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            panic!("no line came; stderr: {:?}", self.stderr.try_iter().collect::<Vec<_>>())
        })
    }

    /// Returns the next line of its stderr.
    fn message(&self) -> String {
        self.stderr.recv_timeout(PATIENCE).expect("there is a message")
    }
}

fn command(folder: &Path, arguments: &[&str]) -> Rudy {
    Rudy::command(["tail"]).args(arguments).folder(folder)
}

fn once(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, &[arguments, &["--no-follow"]].concat()).output()
}

#[test]
fn lines_are_printed_as_they_are_written_across_rotation() {
    let folder = Folder::with(&[("app.log", "1\n2\n3\n")]);
    let log = folder.join("app.log");
    let tail = Tail::start(&folder, &["-f", "-n", "2", "app.log"]);
    assert_eq!([tail.line(), tail.line()], ["2", "3"]);
    folder.append("app.log", "4\nhal");
    assert_eq!(tail.line(), "4");
    folder.append("app.log", "f\n");
    assert_eq!(tail.line(), "half");

    fs::rename(&log, folder.join("app.log.1")).unwrap();
    folder.append("app.log.1", "late\n");
    assert_eq!(tail.line(), "late");
    folder.append("app.log", "5\n");
    assert_eq!(tail.line(), "5");

    folder.write("app.log", "");
    while !tail.message().contains("app.log was truncated") {}
    folder.append("app.log", "6\n");
    assert_eq!(tail.line(), "6");

    fs::remove_file(&log).unwrap();
    assert_eq!(tail.message(), "error: cannot follow app.log: it does not exist yet");
    folder.append("app.log", "7\n");
    assert_eq!(tail.line(), "7");
}

#[test]
fn a_pattern_matches_files_and_folders_that_appear_later() {
    let folder = Folder::new();
    let tail = Tail::start(&folder, &["*/app.log", "other.log"]);
    assert_eq!(tail.message(), "error: cannot follow other.log: it does not exist yet");
    fs::create_dir(folder.join("x")).unwrap();
    folder.append("x/app.log", "one\n");
    assert_eq!(tail.line(), "x/app.log | one");
    folder.append("other.log", "two\n");
    assert_eq!(tail.line(), "other.log | two");
}

#[test]
fn lines_of_several_files_have_names_and_can_be_filtered() {
    let folder = Folder::with(&[("a.log", "x 1\ny 2\nx 3\n"), ("longer.log", "x 4\nx 5")]);
    let output = once(&folder, &["*.log", "--grep", "^x"]);
    assert_eq!(output.stdout, "a.log      | x 1\na.log      | x 3\nlonger.log | x 4\nlonger.log | x 5\n");
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
}

#[test]
fn with_json_every_line_is_an_object() {
    let folder = Folder::with(&[("a.log", "say \"x\"\n")]);
    let object = once(&folder, &["--json", "a.log"]).json();
    assert_members!(object, "file": "a.log", "line": "say \"x\"");
    assert!(object["time"].as_str().unwrap().ends_with("+00:00"), "{object}");
}

#[test]
fn the_last_lines_of_a_large_file_are_found_from_its_end() {
    let folder = Folder::new();
    fs::File::create(folder.join("large.log")).unwrap().set_len(1 << 40).unwrap();
    folder.append("large.log", "\nlast\n");
    assert_eq!(once(&folder, &["-n", "1", "large.log"]).stdout, "last\n");
}

#[test]
fn without_following_a_missing_file_is_exit_code_1_and_others_are_printed() {
    let folder = Folder::with(&[("a.log", "x\n")]);
    let output = once(&folder, &["missing.log", "a.log"]).with_code(1);
    assert_eq!(output.stdout, "a.log | x\n");
    assert_eq!(output.stderr, "error: cannot follow missing.log: it does not exist yet\n");
}

#[test]
fn a_number_of_lines_with_a_sign_is_an_error() {
    let folder = Folder::with(&[("a.log", "1\n2\n3\n")]);
    let output = once(&folder, &["-n", "+2", "a.log"]);
    assert_eq!(output.stdout, "");
    assert_contains!(output.failed_with(2), "expected a number of lines, such as 10");
}

#[test]
fn it_ends_without_error_when_its_reader_has_gone() {
    let folder = Folder::with(&[("a.log", "x\n")]);
    let mut child = command(&folder, &["a.log"]).spawn();
    // There will be no other line.
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let output = Output::wait(child);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
}

#[test]
fn ctrl_c_ends_it_with_sigint() {
    let folder = Folder::with(&[("a.log", "x\n")]);
    let mut tail = Tail::start(&folder, &["a.log"]);
    assert_eq!(tail.line(), "x");
    kill_process(Pid::from_child(&tail.child), Signal::INT).unwrap();
    assert_eq!(tail.child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
}

#[test]
fn a_full_disk_is_reported_with_exit_code_1() {
    let folder = Folder::with(&[("a.log", "x\n")]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let message = command(&folder, &["a.log"]).stdout(full).output().failed_with(1);
    assert!(message.starts_with("error: cannot write to standard output: No space left"), "{message}");
}

#[test]
fn a_url_is_rejected_with_the_command_that_follows_it() {
    let output = once(&Folder::new(), &["http://127.0.0.1:8080/log"]);
    assert_contains!(output.failed_with(2), "`curl -N http://127.0.0.1:8080/log`");
}

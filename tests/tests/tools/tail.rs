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

fn append(path: &Path, text: &str) {
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).expect("a temp folder can be written");
}

fn once(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, &[arguments, &["--no-follow"]].concat()).output()
}

#[test]
fn lines_are_printed_as_they_are_written_across_rotation() {
    let folder = Folder::with(&[("app.log", "1\n2\n3\n")]);
    let log = folder.join("app.log");
    let tail = Tail::start(folder.path(), &["-f", "-n", "2", "app.log"]);
    assert_eq!([tail.line(), tail.line()], ["2", "3"]);
    append(&log, "4\nhal");
    assert_eq!(tail.line(), "4");
    append(&log, "f\n");
    assert_eq!(tail.line(), "half");

    fs::rename(&log, folder.join("app.log.1")).unwrap();
    append(&folder.join("app.log.1"), "late\n");
    assert_eq!(tail.line(), "late");
    append(&log, "5\n");
    assert_eq!(tail.line(), "5");

    fs::write(&log, "").unwrap();
    while !tail.message().contains("app.log was truncated") {}
    append(&log, "6\n");
    assert_eq!(tail.line(), "6");

    fs::remove_file(&log).unwrap();
    assert_eq!(tail.message(), "error: cannot follow app.log: it does not exist yet");
    append(&log, "7\n");
    assert_eq!(tail.line(), "7");
}

#[test]
fn a_pattern_matches_files_and_folders_that_appear_later() {
    let folder = Folder::new();
    let tail = Tail::start(folder.path(), &["*/app.log", "other.log"]);
    assert_eq!(tail.message(), "error: cannot follow other.log: it does not exist yet");
    fs::create_dir(folder.join("x")).unwrap();
    append(&folder.join("x/app.log"), "one\n");
    assert_eq!(tail.line(), "x/app.log | one");
    append(&folder.join("other.log"), "two\n");
    assert_eq!(tail.line(), "other.log | two");
}

#[test]
fn lines_of_several_files_have_names_and_can_be_filtered() {
    let folder = Folder::with(&[("a.log", "x 1\ny 2\nx 3\n"), ("longer.log", "x 4\nx 5")]);
    let output = once(folder.path(), &["*.log", "--grep", "^x"]);
    assert_eq!(output.stdout, "a.log      | x 1\na.log      | x 3\nlonger.log | x 4\nlonger.log | x 5\n");
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
}

#[test]
fn with_json_every_line_is_an_object() {
    let folder = Folder::with(&[("a.log", "say \"x\"\n")]);
    let output = once(folder.path(), &["--json", "a.log"]);
    let object = output.json();
    assert_members!(object, "file": "a.log", "line": "say \"x\"");
    assert!(object["time"].as_str().unwrap().ends_with("+00:00"), "{object}");
}

#[test]
fn the_last_lines_of_a_large_file_are_found_from_its_end() {
    let folder = Folder::new();
    let path = folder.join("large.log");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    append(&path, "\nlast\n");
    assert_eq!(once(folder.path(), &["-n", "1", "large.log"]).stdout, "last\n");
}

#[test]
fn without_following_a_missing_file_is_exit_code_1_and_others_are_printed() {
    let folder = Folder::with(&[("a.log", "x\n")]);
    let output = once(folder.path(), &["missing.log", "a.log"]).with_code(1);
    assert_eq!(output.stdout, "a.log | x\n");
    assert_eq!(output.stderr, "error: cannot follow missing.log: it does not exist yet\n");
}

#[test]
fn a_number_of_lines_with_a_sign_is_an_error() {
    let folder = Folder::with(&[("a.log", "1\n2\n3\n")]);
    let output = once(folder.path(), &["-n", "+2", "a.log"]);
    assert_eq!(output.stdout, "");
    assert_contains!(output.failed_with(2), "expected a number of lines, such as 10");
}

#[test]
fn it_ends_without_error_when_its_reader_has_gone() {
    let folder = Folder::with(&[("a.log", "x\n")]);
    let mut child = command(folder.path(), &["a.log"]).spawn();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    // There will be no other line.
    drop(stdout);
    let output = Output::wait(child);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
}

#[test]
fn ctrl_c_ends_it_with_sigint() {
    let folder = Folder::with(&[("a.log", "x\n")]);
    let mut tail = Tail::start(folder.path(), &["a.log"]);
    assert_eq!(tail.line(), "x");
    kill_process(Pid::from_child(&tail.child), Signal::INT).unwrap();
    assert_eq!(tail.child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
}

#[test]
fn a_full_disk_is_reported_with_exit_code_1() {
    let folder = Folder::with(&[("a.log", "x\n")]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let message = command(folder.path(), &["a.log"]).stdout(full).output().failed_with(1);
    assert!(message.starts_with("error: cannot write to standard output: No space left"), "{message}");
}

#[test]
fn a_url_is_rejected_with_the_command_that_follows_it() {
    let folder = Folder::new();
    let output = once(folder.path(), &["http://127.0.0.1:8080/log"]);
    assert_contains!(output.failed_with(2), "`curl -N http://127.0.0.1:8080/log`");
}

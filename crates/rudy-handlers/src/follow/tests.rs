//! Tests with real files that are written, rotated, truncated and deleted while they are followed.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use proptest::prelude::*;
use rustix::thread::CapabilitySet;

use super::decide::QUIET_TIME;
use super::*;

/// A folder with files, their follower, and a clock that the test sets.
struct Fixture {
    folder: tempfile::TempDir,
    follower: Follower,
    now: Instant,
}

impl Fixture {
    fn new(pattern: &str, last: u64, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let pattern = Pattern::new(&folder.path().join(pattern)).unwrap();
        Self { follower: Follower::new(vec![pattern], last), folder, now: Instant::now() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self, name: &str, text: &str) -> File {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Lists and reads the files once. The name of the folder is removed from the messages.
    fn poll(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        let folder = format!("{}/", self.folder.path().display());
        let mut on_event = |event: Event<'_>| match event {
            Event::Line(line) => events.push(String::from_utf8_lossy(line.text).into_owned()),
            Event::Name(_) => {}
            Event::Notice(text) => events.push(format!("notice: {}", text.replace(&folder, ""))),
            Event::Error(text) => events.push(format!("error: {}", text.replace(&folder, ""))),
        };
        self.follower.list(&mut on_event);
        self.follower.read_files(self.now, &mut on_event);
        events
    }

    fn poll_after(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.poll()
    }
}

#[test]
fn the_last_lines_come_first_and_then_new_lines() {
    let mut fixture = Fixture::new("log", 2, &[("log", "a\nb\nc\n")]);
    assert_eq!(fixture.poll(), ["b", "c"]);
    assert_eq!(fixture.poll(), [""; 0]);
    fixture.append("log", "d\r\ne");
    assert_eq!(fixture.poll(), ["d"]);
    fixture.append("log", "e\n");
    assert_eq!(fixture.poll(), ["ee"]);
}

#[test]
fn a_renamed_file_is_read_to_its_end_before_the_new_one() {
    let mut fixture = Fixture::new("log", 0, &[("log", "a\n")]);
    fixture.poll();
    let mut writer = fixture.append("log", "b\n");
    fixture.rename("log", "log.1");
    fixture.append("log", "d\n");
    writer.write_all(b"c\n").unwrap();
    assert_eq!(fixture.poll(), ["notice: log is new: reading it from the start", "b", "c", "d"]);
    // The writer reopens the file after the rotation.
    writer.write_all(b"late\n").unwrap();
    assert_eq!(fixture.poll_after(QUIET_TIME / 2), ["late"]);
    writer.write_all(b"unfinished").unwrap();
    assert_eq!(fixture.poll_after(QUIET_TIME / 2), [""; 0]);
    assert_eq!(fixture.poll_after(QUIET_TIME), ["unfinished"]);
    assert_eq!(fixture.follower.files.len(), 1, "the old file is closed");
}

#[test]
fn a_file_renamed_within_the_pattern_is_followed_under_its_new_name() {
    let mut fixture = Fixture::new("log*", 0, &[("log", "a\n")]);
    fixture.poll();
    fixture.rename("log", "log.1");
    fixture.append("log.1", "b\n");
    fixture.append("log", "c\n");
    assert_eq!(fixture.poll(), ["notice: log is new: reading it from the start", "b", "c"]);
    assert_eq!(fixture.poll_after(10 * QUIET_TIME), [""; 0]);
    assert_eq!(fixture.follower.files.len(), 2);
}

#[test]
fn a_truncated_file_is_reported_and_read_from_its_start() {
    let mut fixture = Fixture::new("log", 0, &[("log", "a\nb\n")]);
    fixture.poll();
    let writer = fixture.append("log", "half");
    assert_eq!(fixture.poll(), [""; 0]);
    writer.set_len(0).unwrap();
    fixture.append("log", "c\n");
    let notice = "notice: log was truncated from 8 to 2 bytes: reading it from the start";
    assert_eq!(fixture.poll(), [notice, "half", "c"]);
    assert_eq!(fixture.poll(), [""; 0]);
}

#[test]
fn a_file_that_is_deleted_and_created_again_is_read_from_its_start() {
    let mut fixture = Fixture::new("log", 5, &[("log", "a\n")]);
    assert_eq!(fixture.poll(), ["a"]);
    fixture.append("log", "b\n");
    fs::remove_file(fixture.path("log")).unwrap();
    assert_eq!(fixture.poll(), ["error: cannot follow log: it does not exist yet", "b"]);
    assert_eq!(fixture.poll(), [""; 0], "an error is reported once");
    fixture.append("log", "a\n");
    assert_eq!(fixture.poll(), ["notice: log is new: reading it from the start", "a"]);
}

#[test]
fn files_that_appear_later_are_found() {
    let mut fixture = Fixture::new("*/app.log", 1, &[]);
    assert_eq!(fixture.poll(), [""; 0]);
    fs::create_dir(fixture.path("x")).unwrap();
    fixture.append("x/app.log", "a\nb\n");
    assert_eq!(fixture.poll(), ["notice: x/app.log is new: reading it from the start", "a", "b"]);
}

#[test]
fn a_file_that_cannot_be_opened_is_reported_and_tried_again() {
    without_the_rights_of_root(|| {
        let mut fixture = Fixture::new("log", 1, &[("log", "a\nb\n")]);
        fs::set_permissions(fixture.path("log"), fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(fixture.poll(), ["error: cannot follow log: Permission denied (os error 13)"]);
        assert_eq!(fixture.poll(), [""; 0]);
        fs::set_permissions(fixture.path("log"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fixture.poll(), ["b"], "it existed at the start");
    });
}

/// Runs a test in a thread without the capabilities that override file modes, so that it works as root too.
/// Capabilities are per thread.
fn without_the_rights_of_root(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        rustix::thread::set_capabilities(None, sets).unwrap();
        test();
    });
    thread.join().unwrap();
}

#[test]
fn a_path_that_cannot_be_checked_does_not_keep_a_deleted_file_open() {
    let mut fixture = Fixture::new("*.log", 0, &[("a.log", "")]);
    // A link to itself cannot be checked, nor could a folder of another user.
    std::os::unix::fs::symlink("loop.log", fixture.path("loop.log")).unwrap();
    fixture.poll();
    fs::remove_file(fixture.path("a.log")).unwrap();
    fixture.poll();
    fixture.poll_after(QUIET_TIME);
    assert_eq!(fixture.follower.files.len(), 0, "a deleted file uses disk space until it is closed");
}

#[test]
fn a_file_that_cannot_be_checked_for_a_while_stays_open() {
    let mut fixture = Fixture::new("*/a.log", 0, &[]);
    fs::create_dir(fixture.path("x")).unwrap();
    fixture.append("x/a.log", "");
    fixture.poll();
    fixture.rename("x", ".x");
    std::os::unix::fs::symlink("x", fixture.path("x")).unwrap();
    fixture.poll();
    fixture.poll_after(QUIET_TIME);
    assert_eq!(fixture.follower.files.len(), 1);
}

#[test]
fn too_many_files_are_one_error() {
    let mut fixture = Fixture::new("*", 0, &[]);
    (0..FILES_MAX + 3).for_each(|number| drop(fixture.append(&format!("{number:04}"), "old\n")));
    let events = fixture.poll();
    assert_eq!(
        events,
        [
            "error: cannot follow 1000: the limit of 1000 files is reached, so later ones are not followed either"
        ]
    );
    assert_eq!(fixture.poll(), [""; 0]);
    // Make room for two: one file that existed, and a new one, which on most file systems reuses the old
    // inode.
    for name in ["0000", "0001", "1000"] {
        fs::remove_file(fixture.path(name)).unwrap();
    }
    fixture.poll();
    fixture.append("1000", "new\n");
    fixture.poll_after(QUIET_TIME);
    let events = [
        "notice: 1000 is new: reading it from the start",
        "error: cannot follow 1002: the limit of 1000 files is reached, so later ones are not followed either",
        "new",
    ];
    assert_eq!(fixture.poll(), events);
}

#[test]
fn a_rename_after_the_listing_repeats_no_line() {
    let mut fixture = Fixture::new("log*", 0, &[("log", "")]);
    fixture.poll();
    let listed = Identity { device: 0, inode: 0 };
    fixture.follower.open(&fixture.folder.path().join("log"), listed, &mut |_| {}).unwrap();
    fixture.append("log", "once\n");
    assert_eq!(fixture.poll(), ["once"]);
}

#[test]
fn a_file_with_two_names_is_followed_once_and_reported() {
    let mut fixture = Fixture::new("*", 1, &[("a", "x\n")]);
    fs::hard_link(fixture.path("a"), fixture.path("b")).unwrap();
    assert_eq!(fixture.poll(), ["error: cannot follow b: it is the same file as a", "x"]);
    fixture.append("b", "y\n");
    assert_eq!(fixture.poll(), ["y"]);
}

#[test]
fn a_large_file_does_not_delay_others() {
    let line = "x".repeat(1023) + "\n";
    let mut fixture = Fixture::new("*", u64::MAX, &[("a", &line.repeat(3000)), ("b", "short\n")]);
    let first = fixture.poll();
    assert_eq!(first.len(), 1024 + 1);
    assert!(first.last().is_some_and(|line| line == "short") && fixture.follower.has_more);
    assert_eq!(fixture.poll().len() + fixture.poll().len(), 3000 - 1024);
    assert!(!fixture.follower.has_more);
}

#[test]
fn a_stop_ends_the_wait_while_there_is_more_to_read() {
    let mut fixture = Fixture::new("a", u64::MAX, &[("a", &"\n".repeat(3 << 20))]);
    fixture.poll();
    assert!(fixture.follower.has_more);
    fixture.follower.stopper().stop();
    assert!(!fixture.follower.wait());
}

#[test]
fn without_following_only_the_last_lines_are_read() {
    for (last, expected) in [(2, &["2", "3", "4", "5"][..]), (1, &["3", "5"]), (0, &[])] {
        let fixture = Fixture::new("*", last, &[("a", "1\n2\n3\n"), ("b", "4\n5")]);
        let mut lines = Vec::new();
        let Fixture { mut follower, now, .. } = fixture;
        let has_more = follower.read_to_end(now, &mut |event| {
            if let Event::Line(line) = event {
                lines.push(String::from_utf8_lossy(line.text).into_owned());
            }
        });
        assert!(!has_more);
        assert_eq!(lines, expected, "the last {last} of each");
    }
}

#[test]
fn without_following_a_large_file_is_read_in_parts() {
    let Fixture { mut follower, now, folder } = Fixture::new("a", u64::MAX, &[("a", &"\n".repeat(5 << 19))]);
    let mut parts = Vec::new();
    loop {
        let mut lines = 0;
        let has_more = follower.read_to_end(now, &mut |event| {
            lines += u32::from(matches!(event, Event::Line(_)));
        });
        parts.push(lines);
        if !has_more {
            break;
        }
    }
    assert_eq!(parts, [1 << 20, 1 << 20, 1 << 19]);
    drop(folder);
}

/// An operation between two polls.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// Writes a line in two pieces with a poll between them.
    WriteInPieces,
    Write,
    /// Renames the file within the pattern, and creates a new one.
    RotateInsidePattern,
    /// Renames the file outside the pattern, as log rotation does, and creates a new one.
    RotateOutsidePattern,
    /// The writer of the renamed file writes again.
    WriteLate,
    Delete,
    Poll,
    PollLater,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        4 => Just(Action::Write),
        2 => Just(Action::WriteInPieces),
        1 => Just(Action::RotateInsidePattern),
        1 => Just(Action::RotateOutsidePattern),
        1 => Just(Action::WriteLate),
        1 => Just(Action::Delete),
        3 => Just(Action::Poll),
        1 => Just(Action::PollLater),
    ];
    proptest::collection::vec(action, 0..60)
}

proptest! {
    #[test]
    fn no_line_is_lost_or_repeated(actions in actions()) {
        let mut fixture = Fixture::new("log*", 0, &[("log", "")]);
        let mut lines = Vec::new();
        let poll = |fixture: &mut Fixture, lines: &mut Vec<String>| {
            lines.extend(fixture.poll().into_iter().filter(|line| line.starts_with("line ")));
        };
        poll(&mut fixture, &mut lines);
        let mut writer = fixture.append("log", "");
        let mut late: Option<File> = None;
        let mut written = 0;
        for (number, action) in actions.into_iter().enumerate() {
            match action {
                Action::Write => { written += 1; writeln!(writer, "line {written}").unwrap(); }
                Action::WriteInPieces => {
                    written += 1;
                    write!(writer, "line ").unwrap();
                    poll(&mut fixture, &mut lines);
                    writeln!(writer, "{written}").unwrap();
                }
                Action::RotateInsidePattern => {
                    fixture.rename("log", &format!("log.{number}"));
                    late = Some(std::mem::replace(&mut writer, fixture.append("log", "")));
                }
                // A file must be seen before it is renamed outside the pattern.
                Action::RotateOutsidePattern => {
                    poll(&mut fixture, &mut lines);
                    fixture.rename("log", &format!("old.{number}"));
                    late = Some(std::mem::replace(&mut writer, fixture.append("log", "")));
                }
                Action::Delete => {
                    poll(&mut fixture, &mut lines);
                    fs::remove_file(fixture.path("log")).unwrap();
                    late = Some(std::mem::replace(&mut writer, fixture.append("log", "")));
                }
                Action::WriteLate => if let Some(late) = &mut late {
                    written += 1;
                    writeln!(late, "line {written}").unwrap();
                },
                Action::Poll => poll(&mut fixture, &mut lines),
                Action::PollLater => {
                    // The old file is closed after a while; its writer has reopened the file by then.
                    late = None;
                    fixture.now += QUIET_TIME / 2;
                    poll(&mut fixture, &mut lines);
                }
            }
        }
        poll(&mut fixture, &mut lines);
        let number = |line: &String| line["line ".len()..].parse::<u32>().unwrap();
        let mut numbers: Vec<_> = lines.iter().map(number).collect();
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (1..=written).collect::<Vec<_>>());
    }
}

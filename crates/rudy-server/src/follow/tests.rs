//! Real files that are written, rotated, emptied and deleted while they are followed.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use proptest::prelude::*;
use rustix::thread::CapabilitySet;

use super::decide::QUIET_TIME;
use super::*;

/// Files in a folder of their own, and who follows them. Time passes as it is told to.
struct Scene {
    folder: tempfile::TempDir,
    follower: Follower,
    now: Instant,
}

impl Scene {
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

    /// One look at everything. The folder's name is left out of what is told.
    fn look(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        let folder = format!("{}/", self.folder.path().display());
        let mut on_event = |event: Event<'_>| match event {
            Event::Line(line) => told.push(String::from_utf8_lossy(line.text).into_owned()),
            Event::Name(_) => {}
            Event::Notice(text) => told.push(format!("notice: {}", text.replace(&folder, ""))),
            Event::Trouble(text) => told.push(format!("trouble: {}", text.replace(&folder, ""))),
        };
        self.follower.list(&mut on_event);
        self.follower.read_files(self.now, &mut on_event);
        told
    }

    fn look_after(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.look()
    }
}

#[test]
fn the_last_lines_come_first_and_then_what_is_written() {
    let mut scene = Scene::new("log", 2, &[("log", "a\nb\nc\n")]);
    assert_eq!(scene.look(), ["b", "c"]);
    assert_eq!(scene.look(), [""; 0]);
    scene.append("log", "d\r\ne");
    assert_eq!(scene.look(), ["d"]);
    scene.append("log", "e\n");
    assert_eq!(scene.look(), ["ee"]);
}

#[test]
fn a_renamed_file_is_read_to_its_end_before_the_new_one_from_its_start() {
    let mut scene = Scene::new("log", 0, &[("log", "a\n")]);
    scene.look();
    let mut writer = scene.append("log", "b\n");
    scene.rename("log", "log.1");
    scene.append("log", "d\n");
    writer.write_all(b"c\n").unwrap();
    assert_eq!(scene.look(), ["notice: log is new: it is read from its start", "b", "c", "d"]);
    // Its writer is told of the rotation later.
    writer.write_all(b"late\n").unwrap();
    assert_eq!(scene.look_after(QUIET_TIME / 2), ["late"]);
    writer.write_all(b"unfinished").unwrap();
    assert_eq!(scene.look_after(QUIET_TIME / 2), [""; 0]);
    assert_eq!(scene.look_after(QUIET_TIME), ["unfinished"]);
    assert_eq!(scene.follower.files.len(), 1, "the old file is closed");
}

#[test]
fn a_file_renamed_within_the_pattern_goes_on_under_its_new_name() {
    let mut scene = Scene::new("log*", 0, &[("log", "a\n")]);
    scene.look();
    scene.rename("log", "log.1");
    scene.append("log.1", "b\n");
    scene.append("log", "c\n");
    assert_eq!(scene.look(), ["notice: log is new: it is read from its start", "b", "c"]);
    assert_eq!(scene.look_after(10 * QUIET_TIME), [""; 0]);
    assert_eq!(scene.follower.files.len(), 2);
}

#[test]
fn an_emptied_file_is_read_again_from_its_start_and_that_is_said() {
    let mut scene = Scene::new("log", 0, &[("log", "a\nb\n")]);
    scene.look();
    let writer = scene.append("log", "half");
    assert_eq!(scene.look(), [""; 0]);
    writer.set_len(0).unwrap();
    scene.append("log", "c\n");
    let notice =
        "notice: log was emptied (8 bytes were read of it, 2 are there): it is read again from its start";
    assert_eq!(scene.look(), [notice, "half", "c"]);
    assert_eq!(scene.look(), [""; 0]);
}

#[test]
fn a_file_deleted_and_made_anew_is_read_from_its_start() {
    let mut scene = Scene::new("log", 5, &[("log", "a\n")]);
    assert_eq!(scene.look(), ["a"]);
    scene.append("log", "b\n");
    fs::remove_file(scene.path("log")).unwrap();
    assert_eq!(scene.look(), ["trouble: log is not followed: it is not there yet", "b"]);
    assert_eq!(scene.look(), [""; 0], "what is told is told once");
    scene.append("log", "a\n");
    assert_eq!(scene.look(), ["notice: log is new: it is read from its start", "a"]);
}

#[test]
fn files_that_appear_later_are_found() {
    let mut scene = Scene::new("*/app.log", 1, &[]);
    assert_eq!(scene.look(), [""; 0]);
    fs::create_dir(scene.path("x")).unwrap();
    scene.append("x/app.log", "a\nb\n");
    assert_eq!(scene.look(), ["notice: x/app.log is new: it is read from its start", "a", "b"]);
}

#[test]
fn a_file_that_cannot_be_opened_is_named_and_tried_again() {
    without_the_rights_of_root(|| {
        let mut scene = Scene::new("log", 1, &[("log", "a\nb\n")]);
        fs::set_permissions(scene.path("log"), fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(scene.look(), ["trouble: log is not followed: Permission denied (os error 13)"]);
        assert_eq!(scene.look(), [""; 0]);
        fs::set_permissions(scene.path("log"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(scene.look(), ["b"], "it was there at the start");
    });
}

/// Runs in a thread to which a file's mode applies, whichever user runs the tests: capabilities are a thread's own.
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
fn what_cannot_be_looked_at_keeps_no_other_file_from_being_given_up() {
    let mut scene = Scene::new("*.log", 0, &[("a.log", "")]);
    // A link that leads to itself can never be looked at, as little as a folder of somebody else.
    std::os::unix::fs::symlink("loop.log", scene.path("loop.log")).unwrap();
    scene.look();
    fs::remove_file(scene.path("a.log")).unwrap();
    scene.look();
    scene.look_after(QUIET_TIME);
    assert_eq!(scene.follower.files.len(), 0, "a deleted file takes its room on the disk until it is closed");
}

#[test]
fn a_file_that_cannot_be_looked_at_for_a_while_is_not_given_up() {
    let mut scene = Scene::new("*/a.log", 0, &[]);
    fs::create_dir(scene.path("x")).unwrap();
    scene.append("x/a.log", "");
    scene.look();
    scene.rename("x", ".x");
    std::os::unix::fs::symlink("x", scene.path("x")).unwrap();
    scene.look();
    scene.look_after(QUIET_TIME);
    assert_eq!(scene.follower.files.len(), 1);
}

#[test]
fn too_many_files_are_one_trouble() {
    let mut scene = Scene::new("*", 0, &[]);
    (0..FILES_MAX + 3).for_each(|number| drop(scene.append(&format!("{number:04}"), "old\n")));
    let told = scene.look();
    assert_eq!(
        told,
        ["trouble: 1000 is not followed: 1000 files are followed already; nor are those after it"]
    );
    assert_eq!(scene.look(), [""; 0]);
    // Room for two: one that was there, and one that was made anew, on most file systems with the number of the old one.
    for name in ["0000", "0001", "1000"] {
        fs::remove_file(scene.path(name)).unwrap();
    }
    scene.look();
    scene.append("1000", "new\n");
    scene.look_after(QUIET_TIME);
    let told = [
        "notice: 1000 is new: it is read from its start",
        "trouble: 1002 is not followed: 1000 files are followed already; nor are those after it",
        "new",
    ];
    assert_eq!(scene.look(), told);
}

#[test]
fn a_name_that_a_held_file_took_since_the_listing_brings_no_line_twice() {
    let mut scene = Scene::new("log*", 0, &[("log", "")]);
    scene.look();
    let listed = Identity { device: 0, inode: 0 };
    scene.follower.open(&scene.folder.path().join("log"), listed, &mut |_| {}).unwrap();
    scene.append("log", "once\n");
    assert_eq!(scene.look(), ["once"]);
}

#[test]
fn two_names_of_one_file_are_followed_once_and_that_is_said() {
    let mut scene = Scene::new("*", 1, &[("a", "x\n")]);
    fs::hard_link(scene.path("a"), scene.path("b")).unwrap();
    assert_eq!(scene.look(), ["trouble: b is not followed: it is the same file as a", "x"]);
    scene.append("b", "y\n");
    assert_eq!(scene.look(), ["y"]);
}

#[test]
fn a_large_file_gives_others_their_turn() {
    let line = "x".repeat(1023) + "\n";
    let mut scene = Scene::new("*", u64::MAX, &[("a", &line.repeat(3000)), ("b", "short\n")]);
    let first = scene.look();
    assert_eq!(first.len(), 1024 + 1);
    assert!(first.last().is_some_and(|line| line == "short") && scene.follower.has_more);
    assert_eq!(scene.look().len() + scene.look().len(), 3000 - 1024);
    assert!(!scene.follower.has_more);
}

#[test]
fn a_stop_is_heard_while_there_is_more_to_read() {
    let mut scene = Scene::new("a", u64::MAX, &[("a", &"\n".repeat(3 << 20))]);
    scene.look();
    assert!(scene.follower.has_more);
    scene.follower.stopper().stop();
    assert!(!scene.follower.wait());
}

#[test]
fn without_following_the_last_lines_are_all() {
    for (last, expected) in [(2, &["2", "3", "4", "5"][..]), (1, &["3", "5"]), (0, &[])] {
        let scene = Scene::new("*", last, &[("a", "1\n2\n3\n"), ("b", "4\n5")]);
        let mut lines = Vec::new();
        let Scene { mut follower, now, .. } = scene;
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
fn without_following_a_large_file_comes_in_parts_so_that_its_reader_may_leave() {
    let Scene { mut follower, now, folder } = Scene::new("a", u64::MAX, &[("a", &"\n".repeat(5 << 19))]);
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

/// What may happen between two looks.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// A line is written, in two pieces with a look between them.
    WriteInPieces,
    Write,
    /// The file gets another name within the pattern, and a new one is begun.
    RotateInSight,
    /// As log rotation has it: the old name is not followed.
    RotateOutOfSight,
    /// The writer of the file before the last rotation has not heard of it yet.
    WriteLate,
    Delete,
    Look,
    LookLater,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => Just(Act::Write),
        2 => Just(Act::WriteInPieces),
        1 => Just(Act::RotateInSight),
        1 => Just(Act::RotateOutOfSight),
        1 => Just(Act::WriteLate),
        1 => Just(Act::Delete),
        3 => Just(Act::Look),
        1 => Just(Act::LookLater),
    ];
    proptest::collection::vec(act, 0..60)
}

proptest! {
    #[test]
    fn no_line_is_lost_and_none_comes_twice(acts in acts()) {
        let mut scene = Scene::new("log*", 0, &[("log", "")]);
        let mut lines = Vec::new();
        let look = |scene: &mut Scene, lines: &mut Vec<String>| {
            lines.extend(scene.look().into_iter().filter(|line| line.starts_with("line ")));
        };
        look(&mut scene, &mut lines);
        let mut writer = scene.append("log", "");
        let mut late: Option<File> = None;
        let mut written = 0;
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Write => { written += 1; writeln!(writer, "line {written}").unwrap(); }
                Act::WriteInPieces => {
                    written += 1;
                    write!(writer, "line ").unwrap();
                    look(&mut scene, &mut lines);
                    writeln!(writer, "{written}").unwrap();
                }
                Act::RotateInSight => {
                    scene.rename("log", &format!("log.{number}"));
                    late = Some(std::mem::replace(&mut writer, scene.append("log", "")));
                }
                // A file that nobody has seen before it goes out of sight cannot be known.
                Act::RotateOutOfSight => {
                    look(&mut scene, &mut lines);
                    scene.rename("log", &format!("old.{number}"));
                    late = Some(std::mem::replace(&mut writer, scene.append("log", "")));
                }
                Act::Delete => {
                    look(&mut scene, &mut lines);
                    fs::remove_file(scene.path("log")).unwrap();
                    late = Some(std::mem::replace(&mut writer, scene.append("log", "")));
                }
                Act::WriteLate => if let Some(late) = &mut late {
                    written += 1;
                    writeln!(late, "line {written}").unwrap();
                },
                Act::Look => look(&mut scene, &mut lines),
                Act::LookLater => {
                    // The old file is given up in time, and its writer has heard of the rotation by then.
                    late = None;
                    scene.now += QUIET_TIME / 2;
                    look(&mut scene, &mut lines);
                }
            }
        }
        look(&mut scene, &mut lines);
        let number = |line: &String| line["line ".len()..].parse::<u32>().unwrap();
        let mut numbers: Vec<_> = lines.iter().map(number).collect();
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (1..=written).collect::<Vec<_>>());
    }
}

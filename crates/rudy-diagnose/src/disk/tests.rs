//! Samples of a thread that writes, and the output for them.

use std::io::Write;
use std::sync::mpsc;
use std::thread;

use super::*;

fn options() -> Options {
    let interval = Duration::from_secs(1);
    Options { target: None, interval, count: None, rows: None, shows_idle: false, json: false, plain: true }
}

#[test]
fn a_thread_that_writes_is_found_with_its_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let (write_now, wait) = mpsc::channel::<()>();
    let (written, has_written) = mpsc::channel();
    let writer = thread::Builder::new().name("log-writer".into()).spawn(move || {
        while wait.recv().is_ok() {
            file.write_all(&vec![b'x'; 100_000]).unwrap();
            written.send(()).unwrap();
        }
    });
    write_now.send(()).unwrap();
    has_written.recv().unwrap();
    let before = Sample::take(Some(std::process::id())).unwrap();
    write_now.send(()).unwrap();
    has_written.recv().unwrap();
    let now = Sample::take(Some(std::process::id())).unwrap();
    let activity = Activity::between(&before, &now);
    let own = &activity.processes[0];
    assert!(own.io.write_call_bytes >= 100_000 && own.io_since_start.write_call_bytes >= 200_000, "{own:?}");
    let (_, _, io) = own.threads.iter().find(|(_, name, _)| name == "log-writer").unwrap();
    assert!(io.write_call_bytes >= 100_000, "{io:?}");
    let (file, bytes) = own.files.iter().find(|(file, _)| file.path == path).unwrap();
    assert_eq!((*bytes, file.size), (100_000, 200_000));
    let text = table::table(&activity, &options(), None);
    assert!(text.contains("  thread log-writer") && text.contains(&format!("writes to {path}: ")), "{text}");
    let object: serde_json::Value = serde_json::from_str(&json::line(&activity, &options())).unwrap();
    let files = object["processes"][0]["files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["path"] == path && file["written_bytes"] == 100_000), "{object}");
    drop(write_now);
    writer.unwrap().join().unwrap();
}

#[test]
fn all_processes_include_this_one_without_its_threads() {
    let sample = Sample::take(None).unwrap();
    let activity = Activity::between(&sample, &sample);
    let own = activity.processes.iter().find(|writes| writes.pid == std::process::id()).unwrap();
    assert!(own.threads.is_empty() && own.io.is_idle());
    let text = table::table(&activity, &options(), None);
    assert!(
        text.contains("\n=> nothing was written in the last 0 ns\n")
            || text.contains("=> nothing was written")
    );
    assert!(text.contains("that write nothing (--idle)"), "{text}");
}

#[test]
fn a_process_that_has_ended_ends_the_watch() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    assert!(Sample::take(Some(child.id())).unwrap_err().is_end());
}

#[test]
fn counters_that_are_cut_off_are_refused() {
    let text = b"rchar: 1\nwchar: 22\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 66\ncancelled_write_bytes: 7\n";
    let expected = io::Io { disk_bytes: 66, write_call_bytes: 22, cancelled_bytes: 7 };
    assert_eq!(io::Io::parse(text), Some(expected));
    assert_eq!(io::Io::parse(&text[..40]), None);
}

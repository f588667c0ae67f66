//! Tests the queue and its thread: order, loss and replacement of files.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use super::*;

fn silent() -> OnLogFailure {
    Box::new(|_| None)
}

fn socket_file(stream: UnixStream) -> File {
    File::from(std::os::fd::OwnedFd::from(stream))
}

#[test]
fn all_lines_are_written_in_order() {
    let mut file = tempfile::tempfile().unwrap();
    let writer = LineWriter::start("test", file.try_clone().unwrap(), silent()).unwrap();
    let expected: String = (0..10_000).fold(String::new(), |lines, n| lines + &format!("line {n}\n"));
    for line in expected.split_inclusive('\n') {
        writer.push(line.as_bytes());
    }
    assert_eq!(writer.close(), 0);
    let mut written = String::new();
    io::Seek::rewind(&mut file).unwrap();
    file.read_to_string(&mut written).unwrap();
    assert_eq!(written, expected);
}

#[test]
fn lines_dropped_because_of_a_slow_reader_are_counted_in_the_file() {
    let (write_end, read_end) = UnixStream::pair().unwrap();
    let on_failure: OnLogFailure = Box::new(|lost| match lost {
        LogFailure::Dropped(n) => Some(format!("dropped {n}\n")),
        LogFailure::Failed(..) | LogFailure::NotRotated(_) | LogFailure::NotTidied(_) => None,
    });
    let writer = LineWriter::start("test", socket_file(write_end), on_failure).unwrap();
    let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
    let pushed = 4 * QUEUE_BYTES / line.len();
    for _ in 0..pushed {
        writer.push(&line);
    }
    let reader = thread::spawn(move || BufReader::new(read_end).lines().collect::<Result<Vec<_>, _>>());
    assert_eq!(writer.close(), 0);
    drop(writer);
    let lines = reader.join().unwrap().unwrap();
    let dropped: usize =
        lines.iter().filter_map(|line| line.strip_prefix("dropped ")?.parse::<usize>().ok()).sum();
    let arrived = lines.iter().filter(|line| line.len() == 1023).count();
    assert!(dropped > 0, "nothing was dropped");
    assert_eq!(arrived + dropped, pushed);
}

#[test]
fn lines_after_a_replacement_go_to_the_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let writer = LineWriter::start("test", File::create(&old).unwrap(), silent()).unwrap();
    writer.push(b"before\n");
    writer.replace(File::create(&new).unwrap());
    writer.push(b"after\n");
    assert_eq!(writer.close(), 0);
    assert_eq!(std::fs::read_to_string(old).unwrap(), "before\n");
    assert_eq!(std::fs::read_to_string(new).unwrap(), "after\n");
}

#[test]
fn each_file_gets_its_lines_if_two_replacements_happen_before_the_thread_wakes() {
    let folder = tempfile::tempdir().unwrap();
    let [second, third] = ["second", "third"].map(|name| folder.path().join(name));
    let (write_end, mut read_end) = UnixStream::pair().unwrap();
    let writer = LineWriter::start("test", socket_file(write_end), silent()).unwrap();
    // More than a socket buffers: the thread blocks on this line until the other end reads.
    let first = [b"x".repeat(QUEUE_BYTES / 2), b"\n".to_vec()].concat();
    writer.push(&first);
    writer.replace(File::create(&second).unwrap());
    writer.push(b"between\n");
    writer.replace(File::create(&third).unwrap());
    writer.push(b"after\n");
    let reader = thread::spawn(move || {
        let mut read = Vec::new();
        read_end.read_to_end(&mut read).map(|_| read)
    });
    assert_eq!(writer.close(), 0);
    assert!(reader.join().unwrap().unwrap() == first, "the first file has exactly the first line");
    assert_eq!(std::fs::read_to_string(second).unwrap(), "between\n");
    assert_eq!(std::fs::read_to_string(third).unwrap(), "after\n");
}

#[test]
fn lines_lost_on_a_full_disk_are_counted_in_the_file_after_the_next_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (sender, reports) = mpsc::channel();
    let on_failure: OnLogFailure = Box::new(move |lost| {
        sender.send(format!("{lost:?}")).unwrap();
        matches!(lost, LogFailure::Dropped(_)).then(|| format!("{lost:?}\n"))
    });
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let writer = LineWriter::start("test", full(), on_failure).unwrap();
    writer.push(b"one\ntwo\n");
    assert!(reports.recv().unwrap().ends_with(", 2)"));
    writer.push(b"three\n");
    assert!(reports.recv().unwrap().ends_with(", 3)"), "all since the last successful write");
    writer.replace(File::create(&path).unwrap());
    // At once: two pushes can end in two writes.
    writer.push(b"four\nfive\n");
    assert_eq!(writer.close(), 0);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "four\nfive\nDropped(3)\n");
}

#[test]
fn a_failed_write_is_reported_with_the_number_of_lines() {
    let (sender, reports) = mpsc::channel();
    let on_failure: OnLogFailure = Box::new(move |lost| {
        sender.send(format!("{lost:?}")).unwrap();
        None
    });
    let full = File::options().write(true).open("/dev/full").unwrap();
    let writer = LineWriter::start("test", full, on_failure).unwrap();
    writer.push(b"one\ntwo\n");
    let report = reports.recv().unwrap();
    assert!(report.contains("StorageFull") && report.ends_with(", 2)"), "{report}");
}

#[test]
fn lines_that_a_reader_does_not_accept_before_the_end_are_counted() {
    let (write_end, _read_end) = UnixStream::pair().unwrap();
    let writer = LineWriter::start("test", socket_file(write_end), silent()).unwrap();
    // More than a socket buffers: the thread writes this line, or is about to, when the time is over.
    writer.push(&[b"x".repeat(QUEUE_BYTES / 2), b"\n".to_vec()].concat());
    writer.push(b"two\n");
    writer.push(b"three\n");
    let before = lost_lines();
    assert_eq!(writer.close_within(Duration::from_millis(1)), 3);
    assert!(lost_lines() >= before + 3);
    assert_eq!(writer.close_within(Duration::ZERO), 0, "each line is counted once");
}

#[test]
fn a_log_that_is_written_in_time_loses_no_line() {
    let writer = LineWriter::start("test", tempfile::tempfile().unwrap(), silent()).unwrap();
    writer.push(b"one\n");
    assert_eq!(writer.close(), 0);
}

//! Tests the lines: their limits, levels and formats.

use std::io::{Read, Seek};

use std::time::{Duration, Instant};

use super::kinds::{KINDS_MAX, Kinds, SUBJECTS_MAX};
use super::levels::LogTarget;
use super::*;
use crate::line_writer::LogFailure;
use crate::line_writer::rotation::{Rotation, open_log};

/// Returns what `write` leaves in the log, without the timestamps.
fn written(write: impl FnOnce(&ErrorLog)) -> String {
    let mut file = tempfile::tempfile().unwrap();
    let log = ErrorLog::to(file.try_clone().unwrap()).unwrap();
    write(&log);
    log.close();
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| line.split_once(' ').map_or(line, |(_, rest)| rest))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_kind_is_logged_once_and_its_count_at_the_end() {
    let text = written(|log| {
        for port in 1..=4 {
            log.client("400: bad head", &format!("192.0.2.7:{port}: 400: bad head"));
        }
        log.client("408: slow head", "192.0.2.8:1: 408: slow head");
        log.bug("a panic");
    });
    assert_eq!(
        text,
        "client: 192.0.2.7:1: 400: bad head\n\
         client: 192.0.2.8:1: 408: slow head\n\
         bug: a panic\n\
         client: 400: bad head: 3 more since the last line about it"
    );
}

#[test]
fn each_subject_and_each_site_of_a_kind_has_its_own_lines() {
    let text = written(|log| {
        let site = |name: &str| log.of_route(name, None);
        for (upstream, name) in [("a:1", "x"), ("b:1", "x"), ("a:1", "x"), ("a:1", "y")] {
            site(name).recurring_error(("no connection", upstream), &format!("cannot connect to {upstream}"));
        }
    });
    assert_eq!(
        text,
        "error: cannot connect to a:1 [site=x]\n\
         error: cannot connect to b:1 [site=x]\n\
         error: cannot connect to a:1 [site=y]\n\
         error: no connection (a:1): 1 more since the last line about it [site=x]"
    );
}

#[test]
fn lines_are_formatted_without_a_lock() {
    let text = written(|log| {
        // Both would wait forever if they needed the lock of the counts.
        let kinds = log.0.lines.kinds.lock();
        log.notice("a notice");
        drop(kinds);
        log.client_with("outer", || {
            log.client("inner", "inner");
            "outer".to_owned()
        });
    });
    assert_eq!(text, "notice: a notice\nclient: inner\nclient: outer");
}

#[test]
fn a_kind_is_logged_again_after_a_minute_with_the_count() {
    let mut kinds = Kinds::default();
    let start = Instant::now();
    let seen = [0, 1, 59, 60, 61, 120]
        .map(|s| kinds.count(Severity::Client, "x".into(), "", start + Duration::from_secs(s)));
    assert_eq!(seen, [Some(0), None, None, Some(2), None, Some(1)]);
}

#[test]
fn the_number_of_kinds_is_bounded() {
    let mut kinds = Kinds::default();
    for n in 0..10 * KINDS_MAX {
        kinds.count(Severity::Client, (&*n.to_string()).into(), "", Instant::now());
    }
    assert_eq!(kinds.len(), KINDS_MAX + 1);
}

#[test]
fn kinds_of_earlier_minutes_make_room_and_their_counts_stay() {
    let (mut kinds, start) = (Kinds::default(), Instant::now());
    let mut count = |name: &str, seconds| {
        kinds.count(Severity::Client, name.into(), "", start + Duration::from_secs(seconds))
    };
    // One of the kinds is that of all others.
    let names = KINDS_MAX - 1;
    // The limits of each configuration have other names.
    for reload in 0..5 {
        for number in 0..names {
            let name = format!("over the limit {reload}-{number}");
            assert_eq!([count(&name, reload * 60), count(&name, reload * 60)], [Some(0), None], "{name}");
        }
    }
    assert_eq!(count("one more", 4 * 60 + 59), Some(4 * names as u64));
    let suppressed = kinds.take_suppressed();
    let total: u64 = suppressed.iter().map(|line| line.count).sum();
    assert_eq!((suppressed.len(), total), (names, names as u64));
}

#[test]
fn the_number_of_subjects_is_bounded_and_old_ones_make_room() {
    let (mut kinds, start) = (Kinds::default(), Instant::now());
    let mut count = |n: usize, seconds| {
        let (name, subject) = ("x", &*n.to_string());
        let kind = Kind { name, subject, lines: 2 };
        kinds.count(Severity::Client, kind, "", start + Duration::from_secs(seconds))
    };
    for n in 0..SUBJECTS_MAX {
        assert_eq!([count(n, 0), count(n, 0), count(n, 0)], [Some(0), Some(0), None]);
    }
    // All others have the lines of one.
    let others: Vec<_> = (0..4).map(|n| count(SUBJECTS_MAX + n, 59)).collect();
    assert_eq!(others, [Some(0), Some(0), None, None]);
    assert_eq!(count(SUBJECTS_MAX, 60), Some(0));
    let suppressed = kinds.take_suppressed();
    let [others] = &suppressed[..] else { panic!("{}", suppressed.len()) };
    assert_eq!((&*others.kind, others.count), ("x (others)", SUBJECTS_MAX as u64 + 2));
}

#[test]
fn a_long_subject_is_cut() {
    let mut kinds = Kinds::default();
    for end in ["a", "b"] {
        let path = "\u{e4}".repeat(1000) + end;
        kinds.count(Severity::Client, ("x", &*path).into(), "", Instant::now());
    }
    let suppressed = kinds.take_suppressed();
    assert_eq!((suppressed.len(), suppressed[0].kind.chars().count()), (1, "x ()".len() + 128));
}

#[test]
fn a_message_stays_one_line() {
    assert_eq!(written(|log| log.error("a\nb\u{1b}[31m")), "error: a\\nb\\u{1b}[31m");
}

#[test]
fn earlier_placeholders_stay_in_force() {
    let text = written(|log| {
        for (value, placeholder) in [("secret", "${OLD}"), ("hidden", "${NEW}")] {
            let mut placeholders = Placeholders::default();
            placeholders.add(value, placeholder);
            log.mask(&placeholders);
        }
        log.error("secret and hidden");
    });
    assert_eq!(text, "error: ${OLD} and ${NEW}");
}

#[test]
fn details_of_several_lines_follow_their_line() {
    assert_eq!(written(|log| log.error_with_details("rejected", "a b\n")), "error: rejected\nb");
}

#[test]
fn lines_below_the_level_are_not_logged() {
    let levels = Levels { all: Level::Error, targets: [(LogTarget::Proxy, Level::Debug)].into() };
    let text = written(|log| {
        log.set_levels(levels);
        log.notice("a notice");
        log.client("kind", "a client error");
        log.error("an error");
        tracing::subscriber::with_default(subscriber::EventWriter(log.clone()), || {
            tracing::debug!(target: "proxy", site = "a.org", route = "/api/*", attempt = 2, "connected");
            tracing::debug!(target: "fastcgi", "connected");
        });
    });
    assert_eq!(text, "error: an error\ndebug: proxy: connected attempt=2 [site=a.org route=/api/*]");
}

#[test]
fn json_lines_have_the_message_and_the_route() {
    let mut file = tempfile::tempfile().unwrap();
    let options = ErrorLogOptions { format: LineFormat::Json, ..ErrorLogOptions::default() };
    let log = ErrorLog::with(file.try_clone().unwrap(), &options, Prefix::None).unwrap();
    log.of_route("a.org", Some("/*")).recurring_error("kind", "no \"connection\"");
    log.error_with_details("rejected", "line 1\nline 2\n");
    log.close();
    file.rewind().unwrap();
    let text = io::read_to_string(file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["severity"], &lines[0]["message"]), (&"error".into(), &"no \"connection\"".into()));
    assert_eq!((&lines[0]["site"], &lines[0]["route"]), (&"a.org".into(), &"/*".into()));
    assert_eq!(lines[1]["details"], "line 1\nline 2");
    assert!(lines[0]["time"].is_string());
}

#[test]
fn a_line_for_the_journal_begins_with_its_priority() {
    let mut file = tempfile::tempfile().unwrap();
    let log =
        ErrorLog::with(file.try_clone().unwrap(), &ErrorLogOptions::default(), Prefix::Priority).unwrap();
    log.error("one");
    log.bug("two");
    log.notice("three");
    log.client("four", "four");
    log.close();
    file.rewind().unwrap();
    let text = io::read_to_string(file).unwrap();
    let priorities: Vec<_> = text.lines().map(|line| &line[..3]).collect();
    assert_eq!(priorities, ["<3>", "<2>", "<6>", "<5>"]);
}

#[test]
fn the_log_contains_why_it_is_not_rotated() {
    for format in [LineFormat::Text, LineFormat::Json] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = open_log(&path).unwrap();
        let options = crate::RotationOptions { size: Some(1), every: None, keep: 1, compression: None };
        // Root may write to every folder, but not find a file below a file.
        let rotation = Rotation::new(&folder.path().join("log/../log"), options, &file);
        let options = ErrorLogOptions { format, ..ErrorLogOptions::default() };
        let log = ErrorLog::with(Target::rotated(file, rotation), &options, Prefix::None).unwrap();
        log.notice("a notice");
        log.close();
        let text = std::fs::read_to_string(&path).unwrap();
        let (reason, notice) = text.split_once('\n').unwrap();
        let message = match format {
            LineFormat::Text => reason.split_once(" error: ").unwrap().1.to_owned(),
            LineFormat::Json => {
                let line: serde_json::Value = serde_json::from_str(reason).unwrap();
                assert_eq!(line["severity"], "error");
                line["message"].as_str().unwrap().to_owned()
            }
        };
        assert!(message.starts_with("cannot rotate the error log: Not a directory"), "{text}");
        assert!(notice.contains("a notice"), "{text}");
    }
}

#[test]
fn a_failure_of_the_log_itself_is_logged_once_a_minute() {
    let log = ErrorLog::to(tempfile::tempfile().unwrap()).unwrap();
    let line = || log.0.lines.failure(&LogFailure::NotTidied(io::Error::other("cannot compress x")));
    assert!(
        line().unwrap().ends_with(" error: error log: cannot compress x; Rudy tries again in a minute\n")
    );
    assert_eq!(line(), None);
}

//! The output for invented sockets.

use std::time::Instant;

use super::*;
use crate::{Descriptors, Socket, Sockets, State};

fn socket(state: State, local: &str, remote: &str) -> Socket {
    let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
    let not_accepted = if state == State::Listen { 3 } else { 0 };
    let unread_bytes = if state == State::Established { 600 } else { 0 };
    Socket { state, local, remote, unread_bytes, unsent_bytes: 0, not_accepted }
}

fn sockets(at: Instant, close_wait: usize) -> Sockets {
    let mut with_descriptor = vec![
        socket(State::Listen, "0.0.0.0:80", "0.0.0.0:0"),
        socket(State::Established, "10.0.0.1:80", "10.0.0.7:5000"),
        socket(State::Established, "10.0.0.1:80", "10.0.0.8:5000"),
    ];
    with_descriptor
        .extend((0..close_wait).map(|_| socket(State::CloseWait, "10.0.0.1:4000", "10.0.0.9:443")));
    let open = Some(10 + close_wait as u64);
    Sockets {
        at,
        descriptors: Descriptors { open, limit: Some(1024) },
        with_descriptor,
        without_descriptor: vec![socket(State::TimeWait, "10.0.0.1:80", "10.0.0.7:4999")],
        udp: 0,
        unix: 2,
        in_no_table: 1,
    }
}

/// Without the first line, which is about the test process.
fn below_title(text: &str) -> &str {
    text.split_once("\n\n").unwrap().1
}

#[test]
fn states_say_what_they_mean_and_what_has_no_descriptor_stands_apart() {
    let text = table::by_state(&Process::own().unwrap(), &sockets(Instant::now(), 10));
    let expected = "\
STATE         SOCKETS    UNREAD    UNSENT
LISTEN              1                      waits for connections; 3 are not accepted yet
ESTABLISHED         2  1.17 KiB            open
CLOSE_WAIT         10                      closed by the peer, but not by this process: a leak if they stay
unix                2
in no table         1                      never connected or bound, or not TCP, UDP or Unix

Without a descriptor, on its ports or to its remote addresses:
TIME_WAIT           1                      closed on both sides; gone within a minute
";
    assert_eq!(below_title(&text), expected);
    assert!(text.contains(": descriptors 20 of 1024, 16 sockets\n"), "{text}");
}

#[test]
fn the_remote_with_the_most_sockets_stands_first() {
    let process = Process::own().unwrap();
    let text = table::groups(&process, &sockets(Instant::now(), 10), By::RemoteAddress, 2);
    let expected = "\
REMOTE        SOCKETS  STATES
10.0.0.9:443       10  CLOSE_WAIT 10
10.0.0.7            2  ESTABLISHED 1; without descriptor: TIME_WAIT 1
Not shown: 1 address with fewer (--rows)
";
    assert_eq!(below_title(&text), expected);
}

#[test]
fn a_watch_shows_the_change_since_its_start() {
    let start = Instant::now();
    let first = Counts::of(&sockets(start, 0));
    let later = Counts::of(&sockets(start + Duration::from_secs(10), 5));
    let beginning = table::beginning(&Process::own().unwrap(), &first);
    assert_eq!(
        beginning.split_once('\n').unwrap().1,
        "     0.0 s  descriptors 10 of 1024, sockets 6, LISTEN 1, ESTABLISHED 2, unix 2, in no table 1; without descriptor: TIME_WAIT 1\n"
    );
    assert_eq!(
        table::line(&later, &first),
        "    10.0 s  descriptors 15 of 1024 (+5), sockets 11 (+5), LISTEN 1, ESTABLISHED 2, CLOSE_WAIT 5 (+5), unix 2, \
         in no table 1; without descriptor: TIME_WAIT 1\n"
    );
    // A counter that dropped to zero is still shown.
    assert!(table::line(&first, &later).contains("CLOSE_WAIT 0 (-5)"));
    assert_eq!(
        table::conclusion(&first, &later),
        "In 10.0 s: descriptors +5 (+0.50/s), sockets +5 (+0.50/s), CLOSE_WAIT +5 (+0.50/s)\n"
    );
    assert_eq!(table::conclusion(&first, &first), "");
    let same = Counts::of(&sockets(start + Duration::from_secs(10), 0));
    assert_eq!(table::conclusion(&first, &same), "In 10.0 s: nothing has changed\n");
}

#[test]
fn an_object_has_what_the_table_has() {
    let start = Instant::now();
    let later = sockets(start + Duration::from_secs(10), 5);
    let change = Counts::of(&later).since(&Counts::of(&sockets(start, 0)));
    let options = Options {
        pid: 0,
        by: Some(By::RemoteAddress),
        watch: None,
        count: None,
        rows: 1,
        json: true,
        plain: false,
    };
    let line = json::line(&Process::own().unwrap(), &later, Some(&change), &options);
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["descriptors"], 15);
    assert_eq!(object["descriptors_limit"], 1024);
    assert_eq!(object["tcp"]["established"]["unread_bytes"], 1200);
    assert_eq!(object["without_descriptor"]["time_wait"]["sockets"], 1);
    assert_eq!(object["not_accepted"], 3);
    assert_eq!(object["since_start"]["tcp"]["close_wait"], 5);
    assert_eq!(
        object["remotes"],
        serde_json::json!([
            { "address": "10.0.0.9:443", "sockets": 5, "tcp": { "close_wait": 5 }, "without_descriptor": {} }
        ])
    );
    assert_eq!(object.get("locals"), None);
}

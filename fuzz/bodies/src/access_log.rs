//! The access log: each request is one line without control characters, and valid JSON in that format.

use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use http::StatusCode;
use rudy_http::Limits;
use rudy_http::h1::{Event, ServerConnection};
use rudy_log::{Destination, ErrorLog};
use rudy_message::RequestHead;
use rudy_service::{Client, EndReason, ExchangeOutcome, Peer};
use rudy_watch::access_log::{AccessLog, AccessLogOptions, Format};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder can be created"));
static ERRORS: LazyLock<ErrorLog> = LazyLock::new(|| {
    let file = fs::File::create(FOLDER.path().join("error.log")).expect("the folder is writable");
    ErrorLog::to(file).expect("a thread can be started")
});

pub(crate) fn run(input: &[u8]) {
    // The parts cannot contain the separator: it ends a line of a head.
    let mut parts = input.splitn(4, |byte| *byte == b'\n');
    let [method, target, referer, agent] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    let line =
        [method, b" ", target, b" HTTP/1.1\r\nHost: a\r\nReferer: ", referer, b"\r\nUser-Agent: ", agent];
    let bytes = [line.concat(), b"\r\n\r\n".to_vec()].concat();
    let now = Instant::now();
    let mut connection = ServerConnection::new(now);
    let Ok(Some(Event::Request(head))) = connection.receive(&bytes, now, &Limits::default()) else { return };
    for format in [Format::default(), Format::Json] {
        let line = line_of(&head, &format);
        let text = line.strip_suffix('\n').expect("a line ends in a line feed");
        assert!(!text.chars().any(char::is_control), "{text:?}");
        if format == Format::Json {
            serde_json::from_str::<serde_json::Value>(text).expect("valid JSON");
        }
    }
}

fn line_of(head: &RequestHead<'_>, format: &Format) -> String {
    let file = FOLDER.path().join("access.log");
    let options = AccessLogOptions::new(Destination::File(file.clone()), format.clone());
    let log = AccessLog::open(options, &ERRORS).expect("the folder is writable");
    let client = Client::new(Peer::Unix, 1, 1);
    let (wait, duration) = (Duration::ZERO, Duration::ZERO);
    let outcome = ExchangeOutcome {
        status: Some(StatusCode::OK),
        body_bytes: 0,
        sent_bytes: 0,
        request_framing_bytes: 0,
        wait,
        duration,
        end_reason: EndReason::Completed,
    };
    log.write(head, &client, &outcome);
    log.close();
    let line = fs::read_to_string(&file).expect("the log is text");
    fs::remove_file(&file).expect("the folder is writable");
    line
}

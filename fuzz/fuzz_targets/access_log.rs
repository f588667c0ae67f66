//! The access log: whatever a client sends, each request is one line without control characters, and JSON reads back.
#![no_main]

use std::fs;
use std::sync::LazyLock;
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};
use libfuzzer_sys::fuzz_target;
use rudy_net::{Client, Ended, Outcome, Peer, RequestBody};
use rudy_server::access_log::{AccessLog, Destination, Format};
use rudy_server::error_log::ErrorLog;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder can be made"));
static ERRORS: LazyLock<ErrorLog> = LazyLock::new(|| ErrorLog::stderr().expect("there is a standard error"));

fuzz_target!(|parts: (&[u8], &[u8], &[u8], &[u8])| {
    let (method, target, referer, agent) = parts;
    let Ok(uri) = http::Uri::try_from(target) else { return };
    let Ok(method) = Method::from_bytes(method) else { return };
    let mut request = http::Request::new(RequestBody::empty());
    (*request.method_mut(), *request.uri_mut()) = (method, uri);
    for (name, value) in [("referer", referer), ("user-agent", agent), ("host", agent)] {
        let Ok(value) = HeaderValue::from_bytes(value) else { return };
        request.headers_mut().insert(name, value);
    }
    for format in [Format::Combined, Format::Json] {
        let line = line_of(&request, format);
        let text = line.strip_suffix('\n').expect("a line ends in a line feed");
        assert!(!text.chars().any(char::is_control), "{text:?}");
        if format == Format::Json {
            serde_json::from_str::<serde_json::Value>(text).expect("it is JSON");
        }
    }
});

fn line_of(request: &http::Request<RequestBody>, format: Format) -> String {
    let file = FOLDER.path().join("access.log");
    let log = AccessLog::open(Destination::File(file.clone()), format, &ERRORS).expect("the folder is ours");
    let client = Client { peer: Peer::Unix, number: 1, request: 1 };
    let (wait, duration) = (Duration::ZERO, Duration::ZERO);
    let outcome =
        Outcome { status: Some(StatusCode::OK), body_bytes: 0, wait, duration, ended: Ended::Complete };
    log.observe(request, &client).finished(&outcome);
    log.close();
    let line = fs::read_to_string(&file).expect("the log is text");
    fs::remove_file(&file).expect("the folder is ours");
    line
}

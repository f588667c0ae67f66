//! Writes the output of an app (standard output and error of its processes, stderr of its requests) to the
//! error log, with a rate limit.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rudy_client::RequestInfo;
use rudy_log::ErrorLog;
use rudy_runtime::clock;
use rudy_units::visible;

/// The longest line that is logged, in bytes: enough for a message with a stack trace. The rest is cut.
const LINE_BYTES_MAX: usize = 4096;
/// The burst of lines that are logged: an app that fails may write many, and all are useful.
const LINES_BURST: u32 = 500;
/// The average number of lines per second; further ones are counted. An app that logs an error for each
/// request must not fill a disk.
const LINES_PER_SECOND: u32 = 10;
/// The burst of bytes that are logged: 500 lines of 1 KiB.
const BYTES_BURST: i64 = 512 * 1024;
/// The average number of bytes per second: ten typical lines, and at most 675 MiB a day. With a limit of
/// lines alone, it would be 3.5 GiB.
const BYTES_PER_SECOND: i64 = 8 * 1024;
/// The shortest time between reports of dropped lines at the end of requests: a report is a line too.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Writes the output of an app to the log, with one limit for all of its processes, connections and requests.
#[derive(Debug)]
pub(super) struct AppOutput {
    app: String,
    log: Option<ErrorLog>,
    /// Whether lines were dropped since the last report. Most requests end without a look at the state, which all workers share.
    has_dropped: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bucket: TokenBucket,
    dropped: Dropped,
    reported_at: Option<Instant>,
}

/// Lines that were dropped since the last report.
#[derive(Debug, Default)]
struct Dropped {
    lines: u64,
    bytes: u64,
}

impl AppOutput {
    /// Creates the output of an app. Without a log, nothing is written.
    pub(super) fn new(app: String, log: Option<ErrorLog>, now: Instant) -> Self {
        let state = State { bucket: TokenBucket::new(now), dropped: Dropped::default(), reported_at: None };
        Self { app, log, has_dropped: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Logs a line that a process of the app has written.
    pub(super) fn process_line(&self, pid: u32, line: &[u8], now: Instant) {
        self.line(ErrorLog::app, &format_args!("{}[{pid}]:", self.app), line, now);
    }

    /// Logs a line that the app has written to the stderr of a request.
    pub(super) fn request_line(&self, info: &RequestInfo, line: &[u8], now: Instant) {
        self.line(ErrorLog::error, &format_args!("{info}: stderr:"), line, now);
    }

    /// Reports dropped lines at the end of a request, unless there was a report just now.
    pub(super) fn request_ended(&self, now: Instant) {
        if !self.has_dropped.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state.lock();
        if state.reported_at.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL) {
            self.report(&mut state, now);
        }
    }

    /// Reports dropped lines at the end of the app.
    pub(super) fn finish(&self) {
        self.report(&mut self.state.lock(), clock::now());
    }

    fn line(&self, write: fn(&ErrorLog, &str), source: &fmt::Arguments<'_>, line: &[u8], now: Instant) {
        let Some(log) = self.log.as_ref().filter(|_| !line.is_empty()) else { return };
        let mut state = self.state.lock();
        if !state.bucket.has_tokens(now) {
            self.has_dropped.store(true, Ordering::Relaxed);
            state.dropped.lines += 1;
            state.dropped.bytes += line.len() as u64;
            return;
        }
        self.report(&mut state, now);
        let message = visible(&format!("{source} {}", text(line)));
        state.bucket.consume(message.len());
        write(log, &message);
    }

    fn report(&self, state: &mut State, now: Instant) {
        let Dropped { lines, bytes } = std::mem::take(&mut state.dropped);
        let Some(log) = self.log.as_ref().filter(|_| lines > 0) else { return };
        self.has_dropped.store(false, Ordering::Relaxed);
        state.reported_at = Some(now);
        log.app(&format!(
            "{}: {lines} lines of {bytes} bytes were dropped: more than {LINES_PER_SECOND} lines or \
             {BYTES_PER_SECOND} bytes per second",
            self.app
        ));
    }
}

impl Drop for AppOutput {
    /// Reports dropped lines after a reload without the app.
    fn drop(&mut self) {
        self.finish();
    }
}

/// Converts a line to text, and cuts it if it is too long.
fn text(line: &[u8]) -> Cow<'_, str> {
    if line.len() <= LINE_BYTES_MAX {
        return String::from_utf8_lossy(line);
    }
    format!("{} ... (cut)", String::from_utf8_lossy(&line[..LINE_BYTES_MAX])).into()
}

/// A token bucket of lines and bytes, refilled every second.
#[derive(Debug)]
struct TokenBucket {
    lines: u32,
    /// A line may overdraw this, because its length is known only when it is formatted. The next lines wait.
    bytes: i64,
    /// The time of the last refill.
    refilled_at: Instant,
}

impl TokenBucket {
    fn new(now: Instant) -> Self {
        Self { lines: LINES_BURST, bytes: BYTES_BURST, refilled_at: now }
    }

    /// Returns whether one more line may be written.
    fn has_tokens(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.refilled_at).as_secs();
        if seconds > 0 {
            self.refilled_at = now;
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            let (lines, bytes) =
                (seconds.saturating_mul(LINES_PER_SECOND), i64::from(seconds) * BYTES_PER_SECOND);
            self.lines = self.lines.saturating_add(lines).min(LINES_BURST);
            self.bytes = self.bytes.saturating_add(bytes).min(BYTES_BURST);
        }
        self.lines > 0 && self.bytes > 0
    }

    /// Counts a line of `bytes`.
    fn consume(&mut self, bytes: usize) {
        self.lines = self.lines.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub_unsigned(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};

    use http::Method;
    use rudy_pipeline::exchange::trace::InTrace;
    use rudy_service::Peer;

    use super::*;

    const START_LINES: usize = LINES_BURST as usize;

    fn taken(bucket: &mut TokenBucket, now: Instant, bytes: usize) -> usize {
        std::iter::repeat_with(|| bucket.has_tokens(now).then(|| bucket.consume(bytes)))
            .take(10 * START_LINES)
            .flatten()
            .count()
    }

    #[test]
    fn a_burst_of_lines_is_logged_and_then_some_per_second() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(start);
        let taken = [0, 999, 1000, 1999, 3000, 1_000_000, 1_000_000]
            .map(|after_ms| taken(&mut bucket, start + Duration::from_millis(after_ms), 10));
        assert_eq!(taken, [START_LINES, 0, 10, 0, 20, START_LINES, 0]);
    }

    #[test]
    fn long_lines_are_limited_by_their_bytes() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(start);
        // One second refills a little less than one line, which may overdraw.
        let taken = [0, 1, 2, 3].map(|s| taken(&mut bucket, start + Duration::from_secs(s), 9 * 1024));
        assert_eq!(taken, [57, 1, 1, 1]);
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(text(b"unchanged"), "unchanged");
        let cut = text(&[b'x'; LINE_BYTES_MAX + 7]).into_owned();
        assert_eq!(cut, "x".repeat(LINE_BYTES_MAX) + " ... (cut)");
    }

    /// Returns what `write` leaves in the log, without timestamps.
    fn written(write: impl FnOnce(&AppOutput, &RequestInfo, Instant)) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        let log = ErrorLog::to(File::try_clone(&file).unwrap()).unwrap();
        let start = Instant::now();
        let output = AppOutput::new("shop".to_owned(), Some(log.clone()), start);
        let info = RequestInfo {
            upstream: "shop".into(),
            method: Method::GET,
            uri: "/x?y".parse().unwrap(),
            client: Peer::Unix,
            trace: InTrace::default(),
            log: Some(log.clone()),
        };
        write(&output, &info, start);
        drop(output);
        log.close();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn processes_and_requests_share_one_limit_and_dropped_lines_are_counted() {
        let lines = written(|output, info, start| {
            for _ in 0..START_LINES {
                output.process_line(7, b"process", start);
                output.request_line(info, b"request", start);
            }
            output.request_ended(start);
            output.request_line(info, b"left out", start);
            output.request_ended(start);
            output.process_line(7, b"later", start + Duration::from_secs(1));
        });
        assert_eq!(lines[0], "app: shop[7]: process");
        assert!(
            lines[1].starts_with("error: shop: GET /x from ") && lines[1].ends_with(": stderr: request"),
            "{lines:?}"
        );
        let tail = "more than 10 lines or 8192 bytes per second";
        assert_eq!(
            lines[START_LINES..],
            [
                format!("app: shop: 500 lines of 3500 bytes were dropped: {tail}"),
                format!("app: shop: 1 lines of 8 bytes were dropped: {tail}"),
                "app: shop[7]: later".to_owned(),
            ]
        );
    }

    #[test]
    fn lines_dropped_last_are_reported_at_the_end_of_the_app() {
        let lines =
            written(|output, _, start| (0..=START_LINES).for_each(|_| output.process_line(7, b"x", start)));
        assert_eq!(lines.len(), START_LINES + 1);
        assert!(lines[START_LINES].contains(": 1 lines of 1 bytes were dropped"), "{:?}", lines[START_LINES]);
    }
}

//! What an app writes, to its standard output and error or as the stderr of a request: lines of the error log, as many as
//! a log should take.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::request_info::RequestInfo;
use crate::config::visible;
use crate::error_log::ErrorLog;

/// The longest line of an app that is logged, in bytes: room for a message with a stack in it. The rest is cut.
const LINE_BYTES_MAX: usize = 4096;
/// Lines at once that are logged as they come: an app that fails may write much, and all of it is wanted.
const LINES_AT_ONCE: u32 = 500;
/// Lines a second on the average; further ones are counted. An app that complains at every request must not be able to
/// fill a disk.
const LINES_PER_SECOND: u32 = 10;
/// Bytes that are logged as they come: 500 lines of 1 KiB.
const BYTES_AT_ONCE: i64 = 512 * 1024;
/// Bytes a second on the average: ten lines as most are, and 675 MiB a day at worst. Lines alone would be 3.5 GiB, if each
/// were as long as it may be.
const BYTES_PER_SECOND: i64 = 8 * 1024;
/// How often at most the end of a request reports lines that were left out: that report is a line too.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// Writes what an app says to the log, within one bound for all of its processes, connections and requests.
#[derive(Debug)]
pub(super) struct AppOutput {
    app: String,
    log: Option<ErrorLog>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    allowance: Allowance,
    left_out: LeftOut,
    reported_at: Option<Instant>,
}

/// What was left out since the last report.
#[derive(Debug, Default)]
struct LeftOut {
    lines: u64,
    bytes: u64,
}

impl AppOutput {
    /// Nothing was said yet. Without a log nothing is written.
    pub(super) fn new(app: String, log: Option<ErrorLog>, now: Instant) -> Self {
        let state = State { allowance: Allowance::new(now), left_out: LeftOut::default(), reported_at: None };
        Self { app, log, state: Mutex::new(state) }
    }

    /// A process of the app has written a line.
    pub(super) fn process_line(&self, pid: u32, line: &[u8], now: Instant) {
        self.line(ErrorLog::app, &format_args!("{}[{pid}]:", self.app), line, now);
    }

    /// The app has written a line on the stderr of a request.
    pub(super) fn request_line(&self, info: &RequestInfo, line: &[u8], now: Instant) {
        self.line(ErrorLog::error, &format_args!("{info} says:"), line, now);
    }

    /// A request has ended: reports what was left out, unless a report has just been made.
    pub(super) fn request_ended(&self, now: Instant) {
        let mut state = self.lock();
        if state.reported_at.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_TIME) {
            self.report(&mut state, now);
        }
    }

    /// The app ends: reports what no later line can.
    pub(super) fn finish(&self) {
        self.report(&mut self.lock(), Instant::now());
    }

    fn line(&self, write: fn(&ErrorLog, &str), who: &fmt::Arguments<'_>, line: &[u8], now: Instant) {
        let Some(log) = self.log.as_ref().filter(|_| !line.is_empty()) else { return };
        let mut state = self.lock();
        if !state.allowance.has_left(now) {
            state.left_out.lines += 1;
            state.left_out.bytes += line.len() as u64;
            return;
        }
        self.report(&mut state, now);
        let message = visible(&format!("{who} {}", text(line)));
        state.allowance.spend(message.len());
        write(log, &message);
    }

    fn report(&self, state: &mut State, now: Instant) {
        let LeftOut { lines, bytes } = std::mem::take(&mut state.left_out);
        let Some(log) = self.log.as_ref().filter(|_| lines > 0) else { return };
        state.reported_at = Some(now);
        log.app(&format!(
            "{}: {lines} lines of {bytes} bytes were left out: more than {LINES_PER_SECOND} lines or \
             {BYTES_PER_SECOND} bytes a second",
            self.app
        ));
    }

    /// A panic while the lock is held leaves a line that was not counted.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AppOutput {
    /// A reload has dropped the app.
    fn drop(&mut self) {
        self.finish();
    }
}

/// As text, and not too long.
fn text(line: &[u8]) -> Cow<'_, str> {
    if line.len() <= LINE_BYTES_MAX {
        return String::from_utf8_lossy(line);
    }
    format!("{} ... (cut)", String::from_utf8_lossy(&line[..LINE_BYTES_MAX])).into()
}

/// Lines and bytes at once, and some more every second.
#[derive(Debug)]
struct Allowance {
    lines: u32,
    /// The last line may overdraw this, and the next ones wait for it: what a line takes is known when it is written out.
    bytes: i64,
    /// Until when what a second brings has been added.
    filled: Instant,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { lines: LINES_AT_ONCE, bytes: BYTES_AT_ONCE, filled: now }
    }

    /// Whether one more line may be written.
    fn has_left(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.filled).as_secs();
        if seconds > 0 {
            self.filled = now;
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            let (lines, bytes) =
                (seconds.saturating_mul(LINES_PER_SECOND), i64::from(seconds) * BYTES_PER_SECOND);
            self.lines = self.lines.saturating_add(lines).min(LINES_AT_ONCE);
            self.bytes = self.bytes.saturating_add(bytes).min(BYTES_AT_ONCE);
        }
        self.lines > 0 && self.bytes > 0
    }

    /// A line of `bytes` is written.
    fn spend(&mut self, bytes: usize) {
        self.lines = self.lines.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub_unsigned(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};

    use http::Method;
    use rudy_net::Peer;

    use super::*;

    const START_LINES: usize = LINES_AT_ONCE as usize;

    fn taken(allowance: &mut Allowance, now: Instant, bytes: usize) -> usize {
        std::iter::repeat_with(|| allowance.has_left(now).then(|| allowance.spend(bytes)))
            .take(10 * START_LINES)
            .flatten()
            .count()
    }

    #[test]
    fn many_lines_at_once_are_taken_and_then_some_a_second() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let taken = [0, 999, 1000, 1999, 3000, 1_000_000, 1_000_000]
            .map(|after_ms| taken(&mut allowance, start + Duration::from_millis(after_ms), 10));
        assert_eq!(taken, [START_LINES, 0, 10, 0, 20, START_LINES, 0]);
    }

    #[test]
    fn long_lines_are_bounded_by_their_bytes() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        // A second brings a little less than one line, which overdraws what there is.
        let taken = [0, 1, 2, 3].map(|s| taken(&mut allowance, start + Duration::from_secs(s), 9 * 1024));
        assert_eq!(taken, [57, 1, 1, 1]);
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(text(b"as it is"), "as it is");
        let cut = text(&[b'x'; LINE_BYTES_MAX + 7]).into_owned();
        assert_eq!(cut, "x".repeat(LINE_BYTES_MAX) + " ... (cut)");
    }

    /// What `say` leaves in the log, without the times.
    fn written(say: impl FnOnce(&AppOutput, &RequestInfo, Instant)) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        let log = ErrorLog::to(File::try_clone(&file).unwrap()).unwrap();
        let start = Instant::now();
        let output = AppOutput::new("shop".to_owned(), Some(log.clone()), start);
        let info = RequestInfo {
            app: "shop".into(),
            method: Method::GET,
            uri: "/x?y".parse().unwrap(),
            client: Peer::Unix,
            log: Some(log.clone()),
        };
        say(&output, &info, start);
        drop(output);
        log.close();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn processes_and_requests_share_one_bound_and_the_log_counts_what_is_left_out() {
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
            lines[1].starts_with("error: shop: GET /x of ") && lines[1].ends_with(" says: request"),
            "{lines:?}"
        );
        let tail = "more than 10 lines or 8192 bytes a second";
        assert_eq!(
            lines[START_LINES..],
            [
                format!("app: shop: 500 lines of 3500 bytes were left out: {tail}"),
                format!("app: shop: 1 lines of 8 bytes were left out: {tail}"),
                "app: shop[7]: later".to_owned(),
            ]
        );
    }

    #[test]
    fn what_is_left_out_last_is_reported_at_the_end_of_the_app() {
        let lines =
            written(|output, _, start| (0..=START_LINES).for_each(|_| output.process_line(7, b"x", start)));
        assert_eq!(lines.len(), START_LINES + 1);
        assert!(
            lines[START_LINES].contains(": 1 lines of 1 bytes were left out"),
            "{:?}",
            lines[START_LINES]
        );
    }
}

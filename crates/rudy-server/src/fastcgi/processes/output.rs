//! What an app writes to its standard output and error: lines of the error log, as many as a log should take.

use std::borrow::Cow;
use std::time::Instant;

use crate::error_log::ErrorLog;

/// The longest line of an app that is logged, in bytes: room for a message with a stack in it. The rest is cut.
const LINE_BYTES_MAX: usize = 4096;
/// So many lines at once are logged as they come: an app that fails may say much, and all of it is wanted.
const LINES_AT_ONCE: u32 = 500;
/// So many a second on the average; what is beyond is counted. An app that complains at every request must not be able to
/// fill a disk: this is at most 3.5 GiB a day if every line is as long as it may be, and far less with lines as they are.
const LINES_PER_SECOND: u32 = 10;

/// Writes what the processes of an app say to the log.
#[derive(Debug)]
pub(super) struct AppLog {
    app: String,
    log: ErrorLog,
    allowance: Allowance,
}

impl AppLog {
    pub(super) fn new(app: &str, log: ErrorLog, now: Instant) -> Self {
        Self { app: app.to_owned(), log, allowance: Allowance::new(now) }
    }

    /// A process of the app has written a line.
    pub(super) fn line(&mut self, pid: u32, line: &[u8], now: Instant) {
        if line.is_empty() || !self.allowance.take(now) {
            return;
        }
        self.tell_left_out();
        self.log.app(&format!("{}[{pid}]: {}", self.app, text(line)));
    }

    /// Says how many lines were left out since that was last said.
    pub(super) fn tell_left_out(&mut self) {
        match std::mem::take(&mut self.allowance.refused) {
            0 => {}
            lines => self.log.app(&format!(
                "{}: {lines} lines were left out: more than {LINES_PER_SECOND} a second",
                self.app
            )),
        }
    }
}

/// As text, and not too long.
fn text(line: &[u8]) -> Cow<'_, str> {
    if line.len() <= LINE_BYTES_MAX {
        return String::from_utf8_lossy(line);
    }
    let left_out = line.len() - LINE_BYTES_MAX;
    format!("{} ({left_out} bytes more)", String::from_utf8_lossy(&line[..LINE_BYTES_MAX])).into()
}

/// A number at once, and some more every second.
#[derive(Debug)]
struct Allowance {
    left: u32,
    /// Until when what a second brings has been added.
    filled: Instant,
    refused: u64,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { left: LINES_AT_ONCE, filled: now, refused: 0 }
    }

    fn take(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.filled).as_secs();
        if seconds > 0 {
            self.filled = now;
            let more = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(LINES_PER_SECOND);
            self.left = self.left.saturating_add(more).min(LINES_AT_ONCE);
        }
        let left = self.left.checked_sub(1);
        match left {
            Some(left) => self.left = left,
            None => self.refused += 1,
        }
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_lines_at_once_are_taken_and_then_some_a_second() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let mut taken = |after_ms| {
            let now = start + Duration::from_millis(after_ms);
            (0..10 * LINES_AT_ONCE).filter(|_| allowance.take(now)).count()
        };
        let at_once = usize::try_from(LINES_AT_ONCE).unwrap();
        assert_eq!(
            [0, 999, 1000, 1999, 3000, 1_000_000, 1_000_000].map(&mut taken),
            [at_once, 0, 10, 0, 20, at_once, 0]
        );
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(text(b"as it is"), "as it is");
        let cut = text(&[b'x'; LINE_BYTES_MAX + 7]).into_owned();
        assert_eq!(cut, "x".repeat(LINE_BYTES_MAX) + " (7 bytes more)");
    }
}

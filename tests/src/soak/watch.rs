//! Monitors the server during the run and prints a table.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::sample::{HEADER, Row, Sample, Sampler};
use super::serving::Serving;
use super::site::Fpm;
use super::tally::Tally;
use crate::Server;

/// Interval of the table's rows.
const ROW: Duration = Duration::from_secs(30);
/// Interval of checks of the server's log and files.
const POLL: Duration = Duration::from_millis(250);
/// Maximum time for the server to become idle: it closes files and folders after a minute without use.
const SETTLE_MAX: Duration = Duration::from_mins(2);
/// How long nothing may change until the server counts as idle: longer than `idle_timeout` (2 s).
const STEADY: Duration = Duration::from_secs(3);
/// Log messages that fail the run.
const FATAL: &[&str] = &["panicked", "the configuration is unchanged"];

/// Number of log lines to print after a failure.
const LOG_LINES: usize = 40;

/// The server and its resource usage so far.
pub(super) struct Watch<'a, P> {
    begin: Instant,
    tally: &'a Tally,
    server: Server,
    serving: &'a Serving,
    fpm: Fpm,
    sampler: Sampler,
    print: P,
    next_row: Instant,
    /// The last lines of the server's log.
    log: VecDeque<String>,
    /// Maximum number of buffer files since the last row, and of the whole run.
    files_max: usize,
    files_peak: usize,
}

impl<'a, P: FnMut(&str)> Watch<'a, P> {
    pub(super) fn new(
        tally: &'a Tally,
        (server, serving): (Server, &'a Serving),
        fpm: Fpm,
        sampler: Sampler,
        print: P,
    ) -> Self {
        let begin = Instant::now();
        Self {
            begin,
            tally,
            server,
            serving,
            fpm,
            sampler,
            print,
            next_row: begin,
            log: VecDeque::new(),
            files_max: 0,
            files_peak: 0,
        }
    }

    pub(super) fn print(&mut self, line: &str) {
        (self.print)(line);
    }

    /// Maximum number of buffer files of the whole run.
    pub(super) fn files_peak(&self) -> usize {
        self.files_peak
    }

    /// The last lines of the server's log.
    pub(super) fn log(&self) -> String {
        self.log.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The targets of the server's descriptors.
    pub(super) fn links(&self) -> Vec<String> {
        self.sampler.links().iter().map(|link| link.display().to_string()).collect()
    }

    pub(super) fn header(&mut self) {
        self.print(HEADER);
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self) -> Result<Sample, String> {
        let sampled = self.sampler.follow(self.serving.pid()).and_then(|()| self.sampler.sample());
        sampled.map_err(|error| self.ended(&error.to_string()))
    }

    /// Waits until the new server is idle, and prints a sample. At its start, Rudy queries the limits of each application
    /// process on a separate connection.
    pub(super) fn start(&mut self) -> Result<Sample, String> {
        let (mut last, mut since) = (self.sample()?, Instant::now());
        while since.elapsed() < STEADY {
            self.poll()?;
            let sample = self.sample()?;
            if sample.descriptors != last.descriptors {
                since = Instant::now();
            }
            last = sample;
        }
        self.begin = Instant::now();
        self.row()
    }

    /// Takes a sample and prints it.
    pub(super) fn row(&mut self) -> Result<Sample, String> {
        let sample = self.sample()?;
        let (time, counts) = (self.begin.elapsed(), self.tally.counts());
        let files_max = std::mem::take(&mut self.files_max).max(sample.files);
        let row = Row { time, counts: &counts, sample: &sample, files_max };
        self.print(&row.to_string());
        self.next_row = Instant::now() + ROW;
        Ok(sample)
    }

    /// Prints rows periodically until `is_done`.
    pub(super) fn until(&mut self, is_done: impl Fn() -> bool) -> Result<(), String> {
        while !is_done() {
            self.poll()?;
            if Instant::now() >= self.next_row {
                self.row()?;
            }
        }
        Ok(())
    }

    /// Waits until the server has released its resources, up to a timeout, and prints the last row.
    pub(super) fn settle(&mut self, start: &Sample) -> Result<Sample, String> {
        let deadline = Instant::now() + SETTLE_MAX;
        while Instant::now() < deadline {
            self.poll()?;
            let sample = self.sample()?;
            if sample.leaks(start).is_empty() {
                break;
            }
            if Instant::now() >= self.next_row {
                self.row()?;
            }
        }
        self.row()
    }

    fn poll(&mut self) -> Result<(), String> {
        std::thread::sleep(POLL);
        self.files_max = self.files_max.max(self.sampler.files());
        self.files_peak = self.files_peak.max(self.files_max);
        for line in self.server.take_lines() {
            if self.log.len() == LOG_LINES {
                self.log.pop_front();
            }
            self.log.push_back(line.clone());
            if FATAL.iter().any(|fatal| line.contains(fatal)) {
                self.tally.failure(&format!("the server logs {line:?}"));
            }
        }
        if let Some(status) = self.fpm.has_ended() {
            return Err(format!("php-fpm ended unexpectedly ({status}); the test kills only its children"));
        }
        if self.serving.is_running() { Ok(()) } else { Err(self.ended("not running")) }
    }

    fn ended(&mut self, why: &str) -> String {
        let log = [self.log(), self.server.take_lines().join("\n")].join("\n");
        format!("the server ended unexpectedly ({why}):\n{log}")
    }
}

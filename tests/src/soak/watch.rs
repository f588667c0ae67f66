//! Looks at the server while it runs, and prints a line for each look.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::sample::{HEADING, Row, Sample, Sampler};
use super::site::Fpm;
use super::tally::Tally;
use crate::Server;

/// From one line of the table to the next.
const ROW: Duration = Duration::from_secs(30);
/// From one look at the server's log and files to the next.
const POLL: Duration = Duration::from_millis(250);
/// How long the server may take to become idle: files and folders close after a minute without use.
const SETTLE_MAX: Duration = Duration::from_mins(2);
/// How long nothing changes before the server counts as idle: longer than `idle_timeout` (2 s).
const STEADY: Duration = Duration::from_secs(3);
/// Lines of the server's log that fail the run.
const FATAL: &[&str] = &["panicked", "the configuration stays as it was"];

/// Lines of the server's log that are printed after a failure.
const LOG_LINES: usize = 40;

/// The server, and what it has held so far.
pub(super) struct Watch<'a, P> {
    begin: Instant,
    tally: &'a Tally,
    server: Server,
    fpm: Fpm,
    sampler: Sampler,
    print: P,
    next_row: Instant,
    /// The last lines of the server's log.
    log: VecDeque<String>,
    /// The most files of the buffers at once: since the last row, and in all.
    files_most: usize,
    files_peak: usize,
}

impl<'a, P: FnMut(&str)> Watch<'a, P> {
    pub(super) fn new(tally: &'a Tally, server: Server, fpm: Fpm, sampler: Sampler, print: P) -> Self {
        let begin = Instant::now();
        Self {
            begin,
            tally,
            server,
            fpm,
            sampler,
            print,
            next_row: begin,
            log: VecDeque::new(),
            files_most: 0,
            files_peak: 0,
        }
    }

    pub(super) fn print(&mut self, line: &str) {
        (self.print)(line);
    }

    /// The most files of the buffers that were seen at once.
    pub(super) fn files_peak(&self) -> usize {
        self.files_peak
    }

    /// The last lines of the server's log.
    pub(super) fn log(&self) -> String {
        self.log.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// What the server's descriptors lead to.
    pub(super) fn links(&self) -> Vec<String> {
        self.sampler.links().iter().map(|link| link.display().to_string()).collect()
    }

    pub(super) fn heading(&mut self) {
        self.print(HEADING);
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self) -> Result<Sample, String> {
        self.sampler.sample().map_err(|error| self.ended(&error.to_string()))
    }

    /// Waits until the new server is idle, and prints what it holds. At its start, Rudy asks each application process for its
    /// limits, on a connection of its own.
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
        let files_most = std::mem::take(&mut self.files_most).max(sample.files);
        let row = Row { time, counts: &counts, sample: &sample, files_most };
        self.print(&row.to_string());
        self.next_row = Instant::now() + ROW;
        Ok(sample)
    }

    /// Prints a row from time to time until `is_done`.
    pub(super) fn until(&mut self, is_done: impl Fn() -> bool) -> Result<(), String> {
        while !is_done() {
            self.poll()?;
            if Instant::now() >= self.next_row {
                self.row()?;
            }
        }
        Ok(())
    }

    /// Waits until the server has nothing more than at the start, but not for ever, and prints the last row.
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
        self.files_most = self.files_most.max(self.sampler.files());
        self.files_peak = self.files_peak.max(self.files_most);
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
            return Err(format!(
                "php-fpm has ended ({status}); only its children are killed here: what else ends it?"
            ));
        }
        if self.server.is_running() { Ok(()) } else { Err(self.ended("it does not run")) }
    }

    fn ended(&mut self, why: &str) -> String {
        let (status, stderr) = self.server.wait();
        format!("the server has ended ({why}; {status}):\n{}\n{stderr}", self.log())
    }
}

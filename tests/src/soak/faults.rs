//! Faults that the run causes: it kills processes, reloads other configurations, and replaces the server by a new process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::serving::Serving;
use super::site::{CHILDREN, Settings};
use super::tally::{Fault, Tally};
use crate::children;
use crate::random::Random;

/// Phases with and without faults alternate. The phase without faults is longer than their effects last, so that its second part
/// shows whether the server has recovered.
const FAULTS_TIME: Duration = Duration::from_secs(20);
const RECOVERY_TIME: Duration = Duration::from_secs(30);

/// Causes faults.
pub(super) struct Faults<'a> {
    pub(super) tally: &'a Tally,
    pub(super) random: Random,
    pub(super) folder: PathBuf,
    /// The processes of php-fpm and Rudy, whose children are killed.
    pub(super) fpm: u32,
    pub(super) rudy: &'a Serving,
    /// Whether the server is replaced at the end of each phase with faults.
    pub(super) upgrades: bool,
}

impl Faults<'_> {
    /// Causes faults until the end of the run, then restores the initial configuration.
    pub(super) fn run(&mut self, is_over: &AtomicBool) {
        let begin = Instant::now();
        let (mut has_high_limits, mut is_replaced) = (true, true);
        while !is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(self.random.within(300..2500) as u64));
            let phase = begin.elapsed().as_millis() % (FAULTS_TIME + RECOVERY_TIME).as_millis();
            if phase >= FAULTS_TIME.as_millis() {
                if !has_high_limits {
                    self.reload(&Settings::HIGH_LIMITS, Duration::ZERO);
                    has_high_limits = true;
                }
                if self.upgrades && !std::mem::replace(&mut is_replaced, true) {
                    self.upgrade();
                }
                continue;
            }
            is_replaced = false;
            if self.random.chance(60) {
                self.kill();
            } else {
                let settings = self.settings();
                self.reload(&settings, FAULTS_TIME);
                has_high_limits = false;
            }
        }
        self.reload(&Settings::HIGH_LIMITS, Duration::ZERO);
    }

    fn kill(&mut self) {
        let parent = *self.random.pick(&[self.fpm, self.rudy.pid()]);
        if !Path::new("/proc").join(parent.to_string()).exists() {
            // The monitor reports that the server has ended.
            return;
        }
        let children = children(parent);
        if children.is_empty() {
            return;
        }
        let child = *self.random.pick(&children);
        // Before the kill, because a client may notice it at once.
        self.tally.fault(Fault::Kill, Duration::ZERO);
        // Fails if the process has just ended, as an application's process does after a reload.
        if kill_process(child, Signal::KILL).is_ok() {
            self.tally.killed();
        }
    }

    /// Reloads with these settings, which may have low limits for `lasts`.
    fn reload(&self, settings: &Settings, lasts: Duration) {
        self.tally.fault(Fault::LowLimits, lasts);
        if let Err(error) = settings.write(&self.folder) {
            return self.tally.failure(&format!("cannot write the configuration: {error}"));
        }
        // Fails if the server has ended, which the monitor reports.
        if self.rudy.signal(Signal::HUP) {
            self.tally.reload();
        }
    }

    /// No request may fail, and no connection may end before its requests.
    fn upgrade(&self) {
        match self.rudy.upgrade() {
            Ok(()) => self.tally.upgrade(),
            Err(error) => self.tally.failure(&error),
        }
    }

    fn settings(&mut self) -> Settings {
        let random = &mut self.random;
        Settings {
            connections: (random.within(1..CHILDREN + 3), random.within(1..9)),
            queue: *random.pick(&[4, 16, 1024]),
            response_buffer: random.pick::<&str>(&["0KiB", "256KiB", "64MiB"]),
            buffer_memory: random.pick::<&str>(&["64KiB", "2MiB", "64MiB"]),
            buffer_total: random.pick::<&str>(&["1MiB", "8MiB", "1GiB"]),
        }
    }
}

//! What goes wrong on purpose: killed processes, and reloads with another configuration.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::site::{CHILDREN, Settings};
use super::tally::{Fault, Tally};
use crate::children;
use crate::random::Random;

/// Faults come in storms. The calm after a storm is longer than their effects last, so that a part of it shows whether the
/// server serves everything again.
const STORM: Duration = Duration::from_secs(20);
const CALM: Duration = Duration::from_secs(30);

/// Causes faults.
pub(super) struct Faults<'a> {
    pub(super) tally: &'a Tally,
    pub(super) random: Random,
    pub(super) folder: PathBuf,
    /// The processes of php-fpm and of Rudy, whose children are killed.
    pub(super) fpm: u32,
    pub(super) rudy: u32,
}

impl Faults<'_> {
    /// Ends with the configuration of the start.
    pub(super) fn run(&mut self, is_over: &AtomicBool) {
        let begin = Instant::now();
        let mut is_roomy = true;
        while !is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(self.random.within(300..2500) as u64));
            let phase = begin.elapsed().as_millis() % (STORM + CALM).as_millis();
            if phase >= STORM.as_millis() {
                if !is_roomy {
                    self.reload(&Settings::ROOMY, Duration::ZERO);
                    is_roomy = true;
                }
            } else if self.random.chance(60) {
                self.kill();
            } else {
                let settings = self.settings();
                self.reload(&settings, STORM);
                is_roomy = false;
            }
        }
        self.reload(&Settings::ROOMY, Duration::ZERO);
    }

    fn kill(&mut self) {
        let parent = *self.random.pick(&[self.fpm, self.rudy]);
        if !Path::new("/proc").join(parent.to_string()).exists() {
            // The samples find that the server has ended.
            return;
        }
        let children = children(parent);
        if children.is_empty() {
            return;
        }
        let child = *self.random.pick(&children);
        // Before it happens: a client may see the effect at once.
        self.tally.fault(Fault::Kill, Duration::ZERO);
        // It fails if the process has just ended on its own, as one of the application does after a reload.
        if kill_process(child, Signal::KILL).is_ok() {
            self.tally.killed();
        }
    }

    /// The settings may leave little room for `lasts`.
    fn reload(&self, settings: &Settings, lasts: Duration) {
        self.tally.fault(Fault::LittleRoom, lasts);
        if let Err(error) = settings.write(&self.folder) {
            return self.tally.failure(&format!("cannot write the configuration: {error}"));
        }
        let rudy = Pid::from_raw(self.rudy.cast_signed());
        // It fails if the server has ended, which the samples find.
        if rudy.is_some_and(|rudy| kill_process(rudy, Signal::HUP).is_ok()) {
            self.tally.reload();
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

//! What the table shows, and the keys that change it.

use super::{Options, Sort};

/// What the table shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) sort: Sort,
    /// Whether threads whose names differ in numbers only are one row.
    pub(super) sums_names: bool,
    pub(super) shows_stacks: bool,
    pub(super) shows_idle: bool,
    pub(super) shows_help: bool,
    /// The number of rows. `None` for as many as fit.
    pub(super) threads: Option<usize>,
}

/// What a key does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    Redraw,
    Nothing,
}

/// The keys, for the screen.
pub(super) const HELP: &str = "Keys:
  c  sort by CPU of the interval       t  sort by CPU since the start
  w  sort by run delay (WAIT)          n  sort by name
  g  sum threads by name on and off    s  stacks on and off
  i  idle threads on and off           ?  this help on and off
  q  quit

WAIT is time in which a thread was runnable, but no core was free. TOTAL is CPU since the start of the thread.
VOL/s and INVOL/s are voluntary and involuntary context switches.
";

impl Settings {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            sort: options.sort,
            sums_names: options.sums_names,
            // A user who asks for thread dumps wants to see them.
            shows_stacks: options.shows_stacks || options.dumps.is_some(),
            shows_idle: options.shows_idle,
            shows_help: false,
            threads: options.threads,
        }
    }

    pub(super) fn key(&mut self, key: u8) -> Effect {
        match key {
            b'q' => return Effect::Quit,
            b'c' => self.sort = Sort::Cpu,
            b't' => self.sort = Sort::Total,
            b'n' => self.sort = Sort::Name,
            b'w' => self.sort = Sort::Wait,
            b'g' => self.sums_names ^= true,
            b's' => self.shows_stacks ^= true,
            b'i' => self.shows_idle ^= true,
            b'?' => self.shows_help ^= true,
            _ => return Effect::Nothing,
        }
        Effect::Redraw
    }
}

//! The contents of one update.

use rudy_observe::{Difference, Error, Processes, Sample};

use super::java::Java;
use super::order::{Row, Sort, is_busy, rows};
use super::settings::Settings;
use super::stacks::{self, ThreadStacks};
use super::verdict::{Verdict, verdicts};
use super::{THREADS, table};
use crate::text::title;

/// The contents of one update.
pub(super) struct View<'a> {
    pub(super) pid: u32,
    /// How many processes these are.
    pub(super) processes: usize,
    pub(super) title: String,
    pub(super) name: String,
    pub(super) sample: &'a Sample,
    pub(super) difference: &'a Difference,
    pub(super) verdicts: Vec<Verdict>,
    /// The shown rows, in order.
    pub(super) rows: Vec<Row>,
    /// Of the first rows, if they are wanted.
    pub(super) stacks: Vec<ThreadStacks>,
    pub(super) java: Option<&'a Java>,
    /// Number of threads that used CPU or waited for it, shown or not.
    pub(super) busy: usize,
    /// Number of busy rows that are not shown.
    pub(super) hidden_busy: usize,
    /// Number of idle rows that are not shown.
    pub(super) hidden_idle: usize,
}

/// Number of rows for a process without a busy thread.
const IDLE_ROWS: usize = 5;

impl<'a> View<'a> {
    pub(super) fn new(
        processes: &mut Processes,
        sample: &'a Sample,
        difference: &'a Difference,
        java: Option<&'a Java>,
        settings: &Settings,
        screen_rows: Option<usize>,
    ) -> Result<Self, Error> {
        let verdicts = verdicts(difference);
        let busy = difference.threads.iter().filter(|thread| is_busy(thread)).count();
        // An empty table would say nothing: the rows with the most CPU since the start say at least who was busy before.
        let is_idle = busy == 0 && !settings.shows_idle;
        let sort = if is_idle { Sort::Total } else { settings.sort };
        let all = rows(&difference.threads, settings.sums_names, sort);
        let busy_rows = all.iter().filter(|row| row.is_busy()).count();
        let shows_idle = is_idle || settings.shows_idle;
        let mut shown: Vec<Row> = all.iter().filter(|row| shows_idle || row.is_busy()).cloned().collect();
        let stacks =
            if settings.shows_stacks { stacks::read(processes, java, difference, sort)? } else { Vec::new() };
        let others = table::other_lines(&verdicts, &stacks, java);
        let fit = screen_rows.map_or(THREADS, |rows| rows.saturating_sub(others).max(1));
        shown.truncate(settings.threads.unwrap_or(fit).min(if is_idle { IDLE_ROWS } else { usize::MAX }));
        let shown_busy = shown.iter().filter(|row| row.is_busy()).count();
        Ok(Self {
            pid: processes.pid(),
            processes: processes.pids().count(),
            title: title(processes),
            name: processes.name().to_owned(),
            sample,
            difference,
            verdicts,
            stacks,
            java,
            busy,
            hidden_busy: busy_rows - shown_busy,
            hidden_idle: (all.len() - busy_rows) - (shown.len() - shown_busy),
            rows: shown,
        })
    }
}

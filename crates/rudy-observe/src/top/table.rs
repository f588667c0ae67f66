//! The table of threads.

use std::fmt::Write;
use std::time::Duration;

use super::View;
use crate::text::of_limit;
use crate::{Difference, Process, Sample, ThreadDifference};
use rudy_units::{bytes, counted, visible};

/// The width of the narrowest terminal.
const HEADING: &str = "    TID      NID NAME             CPU %   USER    SYS   WAIT   VOL/s INVOL/s STATE";

/// The number of threads that fit on a screen with `rows`: four lines are above them, two below, and one has
/// the cursor.
pub(super) fn threads_that_fit(rows: usize) -> usize {
    rows.saturating_sub(7).max(1)
}

/// Before the second sample, there is nothing to compare with.
pub(super) fn beginning(process: &Process, sample: &Sample, interval: Duration) -> String {
    let threads = counted(sample.threads.len(), "thread");
    format!("{}: {threads}; measuring for {} s\n", title(process), interval.as_secs_f64())
}

pub(super) fn table(view: &View<'_>) -> String {
    let mut text = format!("{}\n\n{HEADING}\n", summary(view));
    for thread in &view.difference.threads {
        text += &row(&view.difference, thread);
    }
    if !view.difference.cpu_of_ended.is_zero() {
        let cpu = percent(&view.difference, view.difference.cpu_of_ended);
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "{:>7} {:>8} {:<15} {cpu:>6}", "-", "-", "(ended)");
    }
    text + &hidden(view)
}

fn title(process: &Process) -> String {
    format!("{} (pid {})", visible(process.name()), process.pid())
}

fn summary(view: &View<'_>) -> String {
    let (sample, difference) = (view.sample, &view.difference);
    format!(
        "{}: {}, {} busy; CPU {} % (user {}, system {})\nmemory {}, at most {}; descriptors {}",
        title(view.process),
        counted(sample.threads.len(), "thread"),
        view.busy,
        percent(difference, difference.cpu),
        percent(difference, difference.cpu_user),
        percent(difference, difference.cpu_system),
        bytes(sample.memory.rss_bytes),
        bytes(sample.memory.peak_rss_bytes),
        of_limit(sample.descriptors.open, sample.descriptors.limit),
    )
}

fn row(difference: &Difference, thread: &ThreadDifference) -> String {
    let nid = format!("0x{:x}", thread.tid);
    let wait = thread.ready.map_or_else(|| "-".to_owned(), |ready| percent(difference, ready));
    format!(
        "{:>7} {nid:>8} {:<15} {:>6} {:>6} {:>6} {wait:>6} {:>7.0} {:>7.0} {}\n",
        thread.tid,
        visible(&thread.name),
        percent(difference, thread.cpu),
        percent(difference, thread.cpu_user),
        percent(difference, thread.cpu_system),
        difference.rate(thread.voluntary_switches),
        difference.rate(thread.involuntary_switches),
        thread.state,
    )
}

/// The number of omitted threads.
fn hidden(view: &View<'_>) -> String {
    let busy = (view.hidden_busy > 0).then(|| format!("{} less busy (--threads)", view.hidden_busy));
    let idle = (view.hidden_idle > 0).then(|| format!("{} idle (--idle)", view.hidden_idle));
    let parts: Vec<String> = busy.into_iter().chain(idle).collect();
    if parts.is_empty() { String::new() } else { format!("Not shown: {}\n", parts.join(", ")) }
}

/// Percent of one core.
fn percent(difference: &Difference, cpu: Duration) -> String {
    format!("{:.1}", difference.share(cpu) * 100.0)
}

//! The table of threads.

use std::fmt::Write;
use std::time::Duration;

use super::java::Java;
use super::order::Row;
use super::stacks::{self, ThreadStacks};
use super::verdict::{Verdict, short};
use super::view::View;
use crate::text::{of_limit, title};
use rudy_observe::{Difference, Processes, Sample};
use rudy_units::{bytes, counted, visible};

/// The width of a name that the kernel knows. The names of a JVM are longer; a longer column would not fit the narrowest terminal.
const NAME: usize = 15;
const NAME_JAVA: usize = 30;

/// Number of screen lines that are not rows of threads: the summary, verdicts, the heading, what is not shown, stacks, empty lines
/// between them and a line for the cursor.
pub(super) fn other_lines(verdicts: &[Verdict], stacks: &[ThreadStacks], java: Option<&Java>) -> usize {
    let stacks = stacks::lines(stacks, java).len();
    verdicts.len() + 7 + if stacks > 0 { stacks + 1 } else { 0 }
}

/// Before the second sample, there is nothing to compare with.
pub(super) fn beginning(processes: &Processes, sample: &Sample, interval: Duration) -> String {
    let threads = counted(sample.threads.len(), "thread");
    let title = title(processes);
    format!("{title}: {threads}; measuring for {}\n", rudy_units::duration(interval))
}

pub(super) fn table(view: &View<'_>) -> String {
    let width = if view.java.is_some() { NAME_JAVA } else { NAME };
    let mut text = summary(view);
    for verdict in &view.verdicts {
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "=> {}", verdict.text);
    }
    let _ = writeln!(
        text,
        "\n    TID {:<width$}  CPU %   USER    SYS   WAIT     TOTAL   VOL/s INVOL/s STATE",
        "NAME"
    );
    for row in &view.rows {
        text += &line(view.difference, row, width);
    }
    if !view.difference.cpu_of_ended.is_zero() {
        let cpu = percent(view.difference, view.difference.cpu_of_ended);
        let _ = writeln!(text, "{:>7} {:<width$} {cpu:>6}", "-", "(ended)");
    }
    text += &hidden(view);
    let stacks = stacks::lines(&view.stacks, view.java);
    if !stacks.is_empty() {
        text += "\n";
        text += &stacks.join("\n");
        text += "\n";
    }
    text
}

fn summary(view: &View<'_>) -> String {
    let (sample, difference) = (view.sample, view.difference);
    format!(
        "{}: {}, {} busy; CPU {} % (user {}, system {})\nmemory {}, at most {}; descriptors {}\n",
        view.title,
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

fn line(difference: &Difference, row: &Row, width: usize) -> String {
    let thread = &row.thread;
    let wait = thread.ready.map_or_else(|| "-".to_owned(), |ready| percent(difference, ready));
    // A sum has no id of its own, but a number of threads.
    let id = if row.threads > 1 { format!("x{}", row.threads) } else { thread.tid.to_string() };
    format!(
        "{id:>7} {:<width$} {:>6} {:>6} {:>6} {wait:>6} {:>9} {:>7.0} {:>7.0} {}\n",
        cut(&visible(&short(&thread.name)), width),
        percent(difference, thread.cpu),
        percent(difference, thread.cpu_user),
        percent(difference, thread.cpu_system),
        clock(thread.cpu_since_start),
        difference.rate(thread.voluntary_switches),
        difference.rate(thread.involuntary_switches),
        thread.state,
    )
}

fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width || width == NAME {
        return name.to_owned();
    }
    name.chars().take(width - 1).chain(['…']).collect()
}

/// A time as `3.28`, `1:03.28` or `2:15:03`: seconds, minutes, hours.
fn clock(time: Duration) -> String {
    let (seconds, hundredths) = (time.as_secs(), time.subsec_millis() / 10);
    match seconds {
        0..60 => format!("{seconds}.{hundredths:02}"),
        60..3600 => format!("{}:{:02}.{hundredths:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
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

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_units_of_a_clock() {
        let cases =
            [(3_280, "3.28"), (63_280, "1:03.28"), (8_103_000, "2:15:03"), (360_000_000, "100:00:00")];
        for (milliseconds, expected) in cases {
            assert_eq!(clock(Duration::from_millis(milliseconds)), expected);
        }
    }
}

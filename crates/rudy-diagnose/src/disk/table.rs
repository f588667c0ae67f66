//! The table of writers.

use super::io::Io;
use super::sample::{Activity, Writes};
use super::{Options, ROWS};
use rudy_units::{bytes, counted, visible};

const HEADING: &str = "    PID NAME                  DISK/s   WRITES/s CANCELLED/s  DISK TOTAL";

/// Files listed per process. A process that writes into more writes little into each.
const FILES: usize = 5;

pub(super) fn table(activity: &Activity, options: &Options, screen_rows: Option<usize>) -> String {
    let mut lines = vec![summary(activity)];
    lines.extend(verdict(activity));
    lines.extend([String::new(), HEADING.to_owned()]);
    let fixed = lines.len() + 3;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let (mut hidden, mut idle) = (0, 0);
    let most = options.rows.or(screen_rows.map(|rows| rows.saturating_sub(fixed))).unwrap_or(ROWS).max(1);
    for writes in &activity.processes {
        if writes.io.is_idle() && !options.shows_idle && !activity.is_single {
            idle += 1;
            continue;
        }
        let row = row(activity, writes, options);
        let is_full = rows.iter().map(Vec::len).sum::<usize>() + row.len() > most;
        // The busiest is always shown.
        if is_full && !rows.is_empty() {
            hidden += 1;
        } else {
            rows.push(row);
        }
    }
    lines.extend(rows.into_iter().flatten());
    lines.extend(not_shown(hidden, idle));
    lines.join("\n") + "\n"
}

fn summary(activity: &Activity) -> String {
    let total = activity.total();
    let who = match activity.processes.as_slice() {
        [writes] if activity.is_single => format!("{} (pid {})", visible(&writes.name), writes.pid),
        processes => counted(processes.len(), "process"),
    };
    let denied = match activity.denied {
        0 => String::new(),
        count => {
            format!("; {} cannot be read, those of other users require root", counted(count, "process"))
        }
    };
    let rate = |count| per_second(activity, count);
    format!(
        "{who}: {} to disk, {} passed to write calls{denied}",
        rate(total.disk_bytes),
        rate(total.write_call_bytes)
    )
}

/// Says in words who writes most, and into what.
fn verdict(activity: &Activity) -> Option<String> {
    let total = activity.total();
    let first = activity.processes.first().filter(|first| !first.io.is_idle());
    let Some(first) = first else {
        return Some(format!("=> nothing was written in the last {}", rudy_units::duration(activity.time)));
    };
    let (part, whole, what) = match total.disk_bytes {
        0 => (
            first.io.write_call_bytes,
            total.write_call_bytes,
            "of the bytes of write calls; none goes to a disk",
        ),
        whole => (first.io.disk_bytes, whole, "of what goes to the disk"),
    };
    let share = rudy_units::share(rudy_units::float(part) / rudy_units::float(whole.max(1)));
    let name = format!("{} ({})", visible(&first.name), first.pid);
    let who = if activity.is_single { String::new() } else { format!("{name} writes {share} {what}") };
    let file = first.files.first().filter(|(_, written)| *written > 0);
    let file = file
        .map(|(file, written)| format!("{} goes to {}", per_second(activity, *written), visible(&file.path)));
    let parts: Vec<String> = Some(who).filter(|who| !who.is_empty()).into_iter().chain(file).collect();
    (!parts.is_empty()).then(|| format!("=> {}", parts.join("; ")))
}

/// A process, its threads and its files.
fn row(activity: &Activity, writes: &Writes, options: &Options) -> Vec<String> {
    let since_start = bytes(writes.io_since_start.disk_bytes);
    let mut lines = vec![line(activity, writes.pid, &writes.name, &writes.io, &since_start)];
    for (tid, name, io) in &writes.threads {
        if options.shows_idle || !io.is_idle() {
            lines.push(line(activity, *tid, &format!("  thread {name}"), io, ""));
        }
    }
    let shown = |written: u64| options.shows_idle || activity.is_single || written > 0;
    for (file, written) in writes.files.iter().filter(|(_, written)| shown(*written)).take(FILES) {
        let rate = per_second(activity, *written);
        lines.push(format!("          writes to {}: {rate}, now {}", visible(&file.path), bytes(file.size)));
    }
    lines
}

fn line(activity: &Activity, id: u32, name: &str, io: &Io, since_start: &str) -> String {
    let [disk, calls, cancelled] =
        [io.disk_bytes, io.write_call_bytes, io.cancelled_bytes].map(|count| per_second(activity, count));
    format!("{id:>7} {:<17} {disk:>10} {calls:>10} {cancelled:>11} {since_start:>11}", visible(name))
        .trim_end()
        .to_owned()
}

fn not_shown(hidden: usize, idle: usize) -> Option<String> {
    let hidden = (hidden > 0).then(|| format!("{hidden} that write less (--threads)"));
    let idle = (idle > 0).then(|| format!("{idle} that write nothing (--idle)"));
    let parts: Vec<String> = hidden.into_iter().chain(idle).collect();
    (!parts.is_empty()).then(|| format!("Not shown: {}", parts.join(", ")))
}

fn per_second(activity: &Activity, count: u64) -> String {
    let rate = rudy_units::per_second(count, activity.time);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate above 0, shown with three digits"
    )]
    let rate = rate.round() as u64;
    format!("{}/s", bytes(rate))
}

//! Sockets as text: tables of one sample, and lines over time.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::counts::{Counter, Counts};
use crate::text::{of_limit, title};
use rudy_observe::{By, Processes, Sockets, State, Tally};
use rudy_units::{bytes, counted};

/// The number of groups that fit on a screen with `rows`: three lines are above them, one below, and one has
/// the cursor.
pub(super) fn groups_that_fit(rows: usize) -> usize {
    rows.saturating_sub(5).max(1)
}

/// A table of one sample, by state.
pub(super) fn by_state(processes: &Processes, sockets: &Sockets) -> String {
    let mut text = summary(processes, sockets);
    if sockets.total() > 0 {
        text += "\nSTATE         SOCKETS    UNREAD    UNSENT\n";
    }
    let not_accepted: u64 = sockets.with_descriptor.iter().map(|socket| u64::from(socket.not_accepted)).sum();
    for (state, tally) in rudy_observe::by_state(&sockets.with_descriptor) {
        let meaning = match state {
            State::Listen if not_accepted > 0 => {
                format!("waits for connections; {not_accepted} are not accepted yet")
            }
            state => meaning_with_descriptor(state).to_owned(),
        };
        text += &row(state, tally, &meaning);
    }
    let protocols = sockets.in_no_table.iter().map(|(name, count)| format!("{name} {count}"));
    let protocols = protocols.collect::<Vec<_>>().join(", ");
    let in_no_table = format!("{protocols}: closed, never bound, or in another network namespace");
    let others = [
        ("udp", sockets.udp, ""),
        ("unix", sockets.unix, ""),
        ("in no table", sockets.in_no_table(), &in_no_table),
    ];
    for (name, count, meaning) in others {
        if count > 0 {
            text += format!("{name:<12} {count:>8} {:>9} {:>9}  {meaning}", "", "").trim_end();
            text += "\n";
        }
    }
    if !sockets.without_descriptor.is_empty() {
        text += "\nWithout a descriptor, on its ports or to its remote addresses:\n";
        for (state, tally) in rudy_observe::by_state(&sockets.without_descriptor) {
            text += &row(state, tally, meaning_without_descriptor(state));
        }
    }
    text
}

/// A table of one sample, by address.
pub(super) fn groups(processes: &Processes, sockets: &Sockets, by: By, rows: usize) -> String {
    let groups = sockets.grouped(by);
    let heading = match by {
        By::RemoteAddress => "REMOTE",
        By::LocalAddress => "LOCAL",
    };
    let shown = &groups[..groups.len().min(rows)];
    let width = shown.iter().map(|group| group.name.len()).max().unwrap_or(0).max(heading.len());
    let mut text = format!("{}\n{heading:<width$} {:>8}  STATES\n", summary(processes, sockets), "SOCKETS");
    // Writing to a `String` does not fail.
    for group in shown {
        let mut states = list(&group.with_descriptor);
        if !group.without_descriptor.is_empty() {
            let separator = if states.is_empty() { "" } else { "; " };
            let _ = write!(states, "{separator}without descriptor: {}", list(&group.without_descriptor));
        }
        let _ = writeln!(text, "{:<width$} {:>8}  {states}", group.name, group.total());
    }
    if groups.len() > shown.len() {
        let hidden = groups.len() - shown.len();
        let _ = writeln!(text, "Not shown: {} with fewer (--rows)", counted(hidden, "address"));
    }
    text
}

/// The title of a watch, and its first line.
pub(super) fn beginning(processes: &Processes, counts: &Counts) -> String {
    let title = title(processes);
    format!("{title}; in brackets the change since the start\n{}", line(counts, counts))
}

/// A line of a watch: `     5.0 s  descriptors 85 of 1024 (+2), sockets 82 (+2), CLOSE_WAIT 12 (+2)`.
pub(super) fn line(counts: &Counts, first: &Counts) -> String {
    let after = counts.at.saturating_duration_since(first.at).as_secs_f64();
    let shown = joined(&counts.since(first), |what, change| {
        let number = match what {
            Counter::Descriptors => of_limit(counts.descriptors.open, counts.descriptors.limit),
            what => counts.number(what).to_string(),
        };
        match change {
            0 => format!("{what} {number}"),
            change => format!("{what} {number} ({change:+})"),
        }
    });
    format!("{after:>8.1} s  {shown}\n")
}

/// The change from the first to the last sample, with its rate. Empty for a single sample.
pub(super) fn conclusion(first: &Counts, last: &Counts) -> String {
    let seconds = last.at.saturating_duration_since(first.at).as_secs_f64();
    if seconds == 0.0 {
        return String::new();
    }
    let mut changes = last.since(first);
    changes.retain(|_, change| *change != 0);
    if changes.is_empty() {
        return format!("In {seconds:.1} s: nothing has changed\n");
    }
    let shown = joined(&changes, |what, change| {
        #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 sockets")]
        let pace = change as f64 / seconds;
        format!("{what} {change:+} ({pace:+.2}/s)")
    });
    format!("In {seconds:.1} s: {shown}\n")
}

/// The counters with their changes; those without a descriptor come last.
fn joined(changes: &BTreeMap<Counter, i64>, show: impl Fn(Counter, i64) -> String) -> String {
    let mut text = String::new();
    let mut is_apart = false;
    for (what, change) in changes {
        let begins_apart = matches!(what, Counter::WithoutDescriptor(_)) && !is_apart;
        text += match (text.is_empty(), begins_apart) {
            (true, false) => "",
            (false, false) => ", ",
            (true, true) => "without descriptor: ",
            (false, true) => "; without descriptor: ",
        };
        text += &show(*what, *change);
        is_apart |= begins_apart;
    }
    text
}

fn summary(processes: &Processes, sockets: &Sockets) -> String {
    format!(
        "{}: descriptors {}, {}\n",
        title(processes),
        of_limit(sockets.descriptors.open, sockets.descriptors.limit),
        counted(sockets.total(), "socket"),
    )
}

fn row(state: State, tally: Tally, meaning: &str) -> String {
    let size = |count| if count == 0 { String::new() } else { bytes(count) };
    let (unread, unsent) = (size(tally.unread_bytes), size(tally.unsent_bytes));
    format!("{state:<12} {:>8} {unread:>9} {unsent:>9}  {meaning}\n", tally.sockets)
}

fn list(states: &BTreeMap<State, usize>) -> String {
    states.iter().map(|(state, count)| format!("{state} {count}")).collect::<Vec<_>>().join(", ")
}

/// The meaning of a state for a socket with a descriptor.
fn meaning_with_descriptor(state: State) -> &'static str {
    match state {
        State::Listen => "waits for connections",
        State::SynSent => "connecting",
        State::SynReceived => "incoming connection, handshake in progress",
        State::Established => "open",
        State::CloseWait => "closed by the peer, but not by this process: a leak if they stay",
        State::LastAck => "closed on both sides, the peer first",
        State::FinWait1 => "shut down by this process, not acknowledged yet",
        State::FinWait2 => "shut down by this process, but not by the peer",
        State::Closing => "closed on both sides at once",
        State::TimeWait => "closed on both sides",
        State::Closed => "closed, with the descriptor still open",
    }
}

/// The meaning of a state for a connection without a descriptor.
fn meaning_without_descriptor(state: State) -> &'static str {
    match state {
        State::SynReceived => "incoming connection, handshake in progress",
        State::Established => "not accepted yet",
        State::CloseWait => "closed by the peer before it was accepted",
        State::LastAck | State::Closing => "closed on both sides; the peer's last acknowledgement is missing",
        State::FinWait1 => "closed by this process, not acknowledged yet",
        State::FinWait2 => "closed by this process, but not by the peer; gone within a minute",
        State::TimeWait => "closed on both sides; gone within a minute",
        State::Listen | State::SynSent | State::Closed => "",
    }
}

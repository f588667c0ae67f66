//! Sockets as text: tables of one look, and lines over time.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::change::{Counts, What};
use crate::text::{bytes, counted, of_limit, visible};
use crate::{By, Process, Sockets, State, Tally};

/// What a screen of `rows` has room for: beside the groups there are three lines above, one below, and the cursor's.
pub(super) fn groups_that_fit(rows: usize) -> usize {
    rows.saturating_sub(5).max(1)
}

/// A table of one look, by state.
pub(super) fn by_state(process: &Process, sockets: &Sockets) -> String {
    let mut text = summary(process, sockets);
    if sockets.total() > 0 {
        text += "\nSTATE         SOCKETS    UNREAD    UNSENT\n";
    }
    let not_accepted: u64 = sockets.held.iter().map(|socket| u64::from(socket.not_accepted)).sum();
    for (state, tally) in crate::by_state(&sockets.held) {
        let meaning = match state {
            State::Listen if not_accepted > 0 => {
                format!("waits for connections; {not_accepted} are there and not accepted")
            }
            state => held_meaning(state).to_owned(),
        };
        text += &row(state, tally, &meaning);
    }
    let others = [
        ("udp", sockets.udp, ""),
        ("unix", sockets.unix, ""),
        ("other", sockets.other, "never connected or bound, or of another kind"),
    ];
    for (name, count, meaning) in others {
        if count > 0 {
            text += format!("{name:<12} {count:>8} {:>9} {:>9}  {meaning}", "", "").trim_end();
            text += "\n";
        }
    }
    if !sockets.unheld.is_empty() {
        text += "\nWithout a descriptor, at its ports and to its remotes:\n";
        for (state, tally) in crate::by_state(&sockets.unheld) {
            text += &row(state, tally, unheld_meaning(state));
        }
    }
    text
}

/// A table of one look, by address.
pub(super) fn groups(process: &Process, sockets: &Sockets, by: By, rows: usize) -> String {
    let groups = sockets.grouped(by);
    let heading = match by {
        By::Remote => "REMOTE",
        By::Local => "LOCAL",
    };
    let shown = &groups[..groups.len().min(rows)];
    let width = shown.iter().map(|group| group.name.len()).max().unwrap_or(0).max(heading.len());
    let mut text = format!("{}\n{heading:<width$} {:>8}  STATES\n", summary(process, sockets), "SOCKETS");
    // A string takes whatever is written.
    for group in shown {
        let mut states = list(&group.held);
        if !group.unheld.is_empty() {
            let separator = if states.is_empty() { "" } else { "; " };
            let _ = write!(states, "{separator}without descriptor: {}", list(&group.unheld));
        }
        let _ = writeln!(text, "{:<width$} {:>8}  {states}", group.name, group.total());
    }
    if groups.len() > shown.len() {
        let hidden = groups.len() - shown.len();
        let _ = writeln!(text, "Not shown: {} with fewer (--rows)", counted(hidden, "address"));
    }
    text
}

/// What stands above the lines of a watch, and the first of them.
pub(super) fn beginning(process: &Process, counts: &Counts) -> String {
    let title = format!("{} (pid {})", visible(process.name()), process.pid());
    format!("{title}; in brackets the change since the start\n{}", line(counts, counts))
}

/// One look in a watch: `     5.0 s  descriptors 85 of 1024 (+2), sockets 82 (+2), CLOSE_WAIT 12 (+2)`.
pub(super) fn line(counts: &Counts, first: &Counts) -> String {
    let after = counts.at.saturating_duration_since(first.at).as_secs_f64();
    let shown = joined(&counts.since(first), |what, change| {
        let number = match what {
            What::Descriptors => of_limit(counts.descriptors.open, counts.descriptors.limit),
            what => counts.number(what).to_string(),
        };
        match change {
            0 => format!("{what} {number}"),
            change => format!("{what} {number} ({change:+})"),
        }
    });
    format!("{after:>8.1} s  {shown}\n")
}

/// What has changed from the first look to the last, with its pace. Nothing where there was but one.
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

/// Each with its change, those without a descriptor set off.
fn joined(changes: &BTreeMap<What, i64>, show: impl Fn(What, i64) -> String) -> String {
    let mut text = String::new();
    let mut is_apart = false;
    for (what, change) in changes {
        let begins_apart = matches!(what, What::Unheld(_)) && !is_apart;
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

fn summary(process: &Process, sockets: &Sockets) -> String {
    format!(
        "{} (pid {}): descriptors {}, {}\n",
        visible(process.name()),
        process.pid(),
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

/// What it means for a process to hold a socket of this state.
fn held_meaning(state: State) -> &'static str {
    match state {
        State::Listen => "waits for connections",
        State::SynSent => "asks for a connection",
        State::SynReceived => "is being asked for a connection",
        State::Established => "open",
        State::CloseWait => "closed by the peer, and not by this process: if they stay, it forgets to close",
        State::LastAck => "closed on both sides, the peer first",
        State::FinWait1 => "shut down by this process, and not yet acknowledged",
        State::FinWait2 => "shut down by this process, and not by the peer",
        State::Closing => "closed on both sides at once",
        State::TimeWait => "closed on both sides",
        State::Closed => "closed, with the descriptor still open",
    }
}

/// What it means for a connection of this state to belong to no descriptor.
fn unheld_meaning(state: State) -> &'static str {
    match state {
        State::SynReceived => "is being asked for a connection",
        State::Established => "not accepted yet",
        State::CloseWait => "closed by the peer before it was accepted",
        State::LastAck | State::Closing => "closed on both sides; the peer's last acknowledgement is missing",
        State::FinWait1 => "closed by this process; the peer has not acknowledged it",
        State::FinWait2 => "closed by this process, and not by the peer; gone within a minute",
        State::TimeWait => "closed on both sides; gone within a minute",
        State::Listen | State::SynSent | State::Closed => "",
    }
}

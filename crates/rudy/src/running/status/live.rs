//! `rudy status --live`: the report again and again, in place on a terminal.

use std::time::Duration;

use rudy_admin::StatusReport;
use rudy_diagnose::watch::{Destination, Keyboard, Output, Stop, Ticker, Wake};
use rudy_server::run::Exit;

use super::{Options, report, show};

/// The keys, on the last line.
const HELP: &str = "q quit, space pause";

/// Shows reports until the server or the command ends.
pub(super) fn run(options: &Options, interval: Duration) -> Exit {
    match watch(options, interval) {
        Ok(()) => Exit::Done,
        Err(stop) => stop.print(),
    }
}

fn watch(options: &Options, interval: Duration) -> Result<(), Stop> {
    let mut before = report(options).map_err(Stop::Failed)?;
    let mut ticker = Ticker::start(interval, Some(before.pid)).map_err(Stop::Waiting)?;
    let mut output = Output::new(options.plain || options.json);
    let is_screen = output.destination() == Destination::Screen;
    // Restores the terminal when the watch ends.
    let keyboard = is_screen.then(Keyboard::open).flatten();
    if keyboard.is_some() {
        ticker.read_keys();
    }
    let mut is_paused = false;
    draw(options, &mut output, &before, None)?;
    loop {
        match ticker.wait().map_err(Stop::Waiting)? {
            Wake::Stop | Wake::Key(b'q') => return Ok(()),
            Wake::Key(b' ') => is_paused = !is_paused,
            Wake::Due if !is_paused => {
                let now = report(options).map_err(Stop::Failed)?;
                draw(options, &mut output, &now, Some(&before))?;
                before = now;
            }
            Wake::Due | Wake::Key(_) => {}
        }
    }
}

fn draw(
    options: &Options,
    output: &mut Output,
    report: &StatusReport,
    before: Option<&StatusReport>,
) -> Result<(), Stop> {
    let text = show(options, report, before);
    if options.json {
        return rudy_diagnose::watch::write(&text);
    }
    match output.rows() {
        Some(rows) => output.update(&fit(&text, rows)),
        None => output.update(&text),
    }
}

/// Shortens the table of active requests so that the lists below it, and the keys, fit on the screen.
fn fit(text: &str, rows: usize) -> String {
    let mut parts: Vec<Vec<&str>> = text.split("\n\n").map(|part| part.lines().collect()).collect();
    let lines = |parts: &[Vec<&str>]| parts.iter().map(|part| part.len() + 1).sum::<usize>();
    // One row for the keys, one for the cursor.
    let room = rows.saturating_sub(2);
    let excess = lines(&parts).saturating_sub(room);
    if let Some(active) = parts.get_mut(1).filter(|part| part.len() > 1 && part[0].contains("PHASE")) {
        let left = active.len().saturating_sub(excess).max(6.min(active.len()));
        active.truncate(left);
    }
    let mut shown = parts.iter().map(|part| part.join("\n")).collect::<Vec<_>>().join("\n\n");
    let cut: Vec<_> = shown.lines().take(room).collect();
    shown = cut.join("\n");
    format!("{shown}\n{HELP}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_requests_gives_room_to_the_lists_below() {
        let active: Vec<_> = (1..=50).map(|number| format!("{number}.1  waiting")).collect();
        let text = format!("rudy\nrequests\n\nID  PHASE\n{}\n\nCLIENTS\na\n", active.join("\n"));
        let shown = fit(&text, 20);
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines.len() <= 19, "{}", lines.len());
        assert!(shown.contains("\nCLIENTS\na\n") && lines.last() == Some(&HELP), "{shown}");
        assert_eq!(fit("rudy\n", 24), format!("rudy\n{HELP}\n"));
    }
}

//! The output of updates.

use std::io::{self, IsTerminal, Write};

use rustix::termios::tcgetwinsize;

use super::Stop;
use rudy_units::visible_lines;

/// The kind of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A terminal: each update replaces the previous one.
    Screen,
    /// Anything else: updates are appended.
    Stream,
}

/// Standard output for updates with several lines.
#[derive(Debug)]
pub struct Output {
    pub(crate) destination: Destination,
    has_written: bool,
}

/// For a terminal without a known size.
const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// Move to the upper left corner; clear the rest of the line; clear the rest of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

impl Output {
    /// `is_plain` appends updates even on a terminal.
    #[must_use]
    pub fn new(is_plain: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        let is_screen = io::stdout().is_terminal() && !is_plain && !is_dumb;
        Self {
            destination: if is_screen { Destination::Screen } else { Destination::Stream },
            has_written: false,
        }
    }

    /// The kind of standard output.
    #[must_use]
    pub fn destination(&self) -> Destination {
        self.destination
    }

    /// The maximum number of lines of an update. `None` without a limit.
    #[must_use]
    pub fn rows(&self) -> Option<usize> {
        (self.destination == Destination::Screen).then(|| size().0)
    }

    /// Writes an update: replaces the previous one, or appends it after an empty line.
    ///
    /// # Errors
    ///
    /// The reader has gone.
    pub fn update(&mut self, text: &str) -> Result<(), Stop> {
        let text = &visible_lines(text);
        let text = match self.destination {
            Destination::Screen => frame(text, size()),
            Destination::Stream if self.has_written => format!("\n{text}"),
            Destination::Stream => text.to_owned(),
        };
        self.has_written = true;
        print(&text)
    }
}

/// Appends text.
///
/// # Errors
///
/// The reader has gone.
pub fn write(text: &str) -> Result<(), Stop> {
    print(&visible_lines(text))
}

fn print(text: &str) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Stop::Output)
}

/// Rows and columns of the terminal.
fn size() -> (usize, usize) {
    let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or((ROWS, COLUMNS), |size| (size.ws_row.into(), size.ws_col.into()))
}

/// Draws line by line over the previous update, to avoid flicker. Long lines are cut, because they would
/// wrap.
fn frame(text: &str, (rows, columns): (usize, usize)) -> String {
    let mut frame = HOME.to_owned();
    // The last row is for the cursor.
    for line in text.lines().take(rows.saturating_sub(1)) {
        frame.extend(line.chars().take(columns));
        frame += CLEAR_LINE;
        frame += "\n";
    }
    frame + CLEAR_BELOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_its_screen() {
        assert_eq!(frame("ab\nabcdef\nc\nd\n", (4, 3)), "\x1b[Hab\x1b[K\nabc\x1b[K\nc\x1b[K\n\x1b[J");
    }
}

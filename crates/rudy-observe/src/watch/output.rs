//! Where what was seen is written.

use std::io::{self, IsTerminal, Write};

use rustix::termios::tcgetwinsize;

use super::Stop;

/// What standard output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A terminal: each look takes the place of the last.
    Screen,
    /// Anything else: each look stands behind the last.
    Stream,
}

/// Standard output, for looks of several lines.
pub(crate) struct Output {
    pub(crate) place: Place,
    has_written: bool,
}

/// Of a terminal that does not tell.
const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// To the upper left corner; the rest of the line is cleared; the rest of the screen is cleared.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

impl Output {
    /// `is_plain`: nothing is drawn over, on a terminal neither.
    pub(crate) fn new(is_plain: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        let is_screen = io::stdout().is_terminal() && !is_plain && !is_dumb;
        Self { place: if is_screen { Place::Screen } else { Place::Stream }, has_written: false }
    }

    /// How many lines a look may have. Nothing where they do not have to fit.
    pub(crate) fn rows(&self) -> Option<usize> {
        (self.place == Place::Screen).then(|| size().0)
    }

    /// Writes a look of several lines: in the place of the last one, or behind it with an empty line between.
    pub(crate) fn look(&mut self, text: &str) -> Result<(), Stop> {
        let text = match self.place {
            Place::Screen => frame(text, size()),
            Place::Stream if self.has_written => format!("\n{text}"),
            Place::Stream => text.to_owned(),
        };
        self.has_written = true;
        write(&text)
    }
}

/// Writes behind whatever was written.
pub(crate) fn write(text: &str) -> Result<(), Stop> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Stop::Output)
}

/// Rows and columns of the terminal.
fn size() -> (usize, usize) {
    let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or((ROWS, COLUMNS), |size| (size.ws_row.into(), size.ws_col.into()))
}

/// Drawn over what was there, line by line, so that nothing flickers. A line too long would wrap and push others out.
fn frame(text: &str, (rows, columns): (usize, usize)) -> String {
    let mut frame = HOME.to_owned();
    // The last row is left for the cursor.
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

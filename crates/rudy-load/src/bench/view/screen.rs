//! Draws on the terminal.

use std::io::{self, Stderr, Write};
use std::time::{Duration, Instant};

use ratatui::backend::TermionBackend;
use ratatui::layout::Rect;
use ratatui::termion::{cursor, screen};
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::dashboard::{Dashboard, HEIGHT_MIN, WIDTH_MIN};
use crate::bench::prepare::Prepared;
use crate::bench::run::{Interval, Watch};

/// Time between updates. The remaining time should count down visibly, and an update takes about 0.2 ms of
/// CPU.
const FRAME: Duration = Duration::from_millis(200);

/// The alternate screen of the terminal, which preserves the previous contents.
pub(super) struct Screen {
    terminal: Terminal<TermionBackend<Stderr>>,
    size: Rect,
    dashboard: Dashboard,
    next: Instant,
}

impl Screen {
    /// Switches the terminal to the alternate screen. Leaves its modes and its input alone, so Ctrl-C remains
    /// a signal.
    pub(super) fn open(prepared: &Prepared) -> Option<Self> {
        let size = size()?;
        let options = TerminalOptions { viewport: Viewport::Fixed(size) };
        let terminal = Terminal::with_options(TermionBackend::new(io::stderr()), options).ok()?;
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let dashboard = Dashboard::new(prepared, has_colours);
        write!(io::stderr(), "{}{}", screen::ToAlternateScreen, cursor::Hide).ok()?;
        let mut screen = Self { terminal, size, dashboard, next: Instant::now() };
        screen.draw();
        Some(screen)
    }

    /// Draws an update. After a change of the window size, redraws everything that fits.
    fn draw(&mut self) {
        let size = window().unwrap_or(self.size);
        if size != self.size && self.terminal.resize(size).is_ok() {
            self.size = size;
        }
        let now = Instant::now();
        // Ignore errors of stderr; the report goes to stdout.
        let _ = self.terminal.draw(|frame| self.dashboard.render(now, frame.area(), frame.buffer_mut()));
        self.next = now + FRAME;
    }
}

impl Watch for Screen {
    fn goes_on(&mut self) -> bool {
        if Instant::now() >= self.next {
            self.draw();
        }
        true
    }

    fn start(&mut self, start: Instant) -> Instant {
        self.dashboard.start(start);
        start
    }

    fn opening(&mut self, open: u32, of: u32) {
        self.dashboard.opening(open, of);
    }

    fn interval(&mut self, interval: &Interval) {
        self.dashboard.interval(interval);
        self.draw();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write!(io::stderr(), "{}{}", cursor::Show, screen::ToMainScreen);
    }
}

/// The size of the window, if the dashboard fits.
fn size() -> Option<Rect> {
    window().filter(|window| window.width >= WIDTH_MIN && window.height >= HEIGHT_MIN)
}

/// The window of stderr; stdout may be a file.
fn window() -> Option<Rect> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some(Rect::new(0, 0, size.ws_col, size.ws_row))
}

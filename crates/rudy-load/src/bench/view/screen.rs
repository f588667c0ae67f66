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

/// Time between frames. The remaining time should count down visibly, and a frame takes about 0.2 ms of CPU.
const FRAME_INTERVAL: Duration = Duration::from_millis(200);

/// The alternate screen of the terminal, which preserves the previous contents.
pub(super) struct Screen {
    terminal: Terminal<TermionBackend<Stderr>>,
    size: Rect,
    dashboard: Dashboard,
    next_frame: Instant,
}

impl Screen {
    /// Switches the terminal to the alternate screen. Does not change its input mode, so Ctrl-C remains a signal.
    pub(super) fn open(prepared: &Prepared) -> Option<Self> {
        let size = dashboard_size()?;
        let options = TerminalOptions { viewport: Viewport::Fixed(size) };
        let terminal = Terminal::with_options(TermionBackend::new(io::stderr()), options).ok()?;
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let dashboard = Dashboard::new(prepared, has_colours);
        write!(io::stderr(), "{}{}", screen::ToAlternateScreen, cursor::Hide).ok()?;
        let mut screen = Self { terminal, size, dashboard, next_frame: Instant::now() };
        screen.draw();
        Some(screen)
    }

    /// Draws a frame. Follows a change of the window size.
    fn draw(&mut self) {
        let size = terminal_size().unwrap_or(self.size);
        if size != self.size && self.terminal.resize(size).is_ok() {
            self.size = size;
        }
        let now = Instant::now();
        // Ignore errors of stderr; the report goes to stdout.
        let _ = self.terminal.draw(|frame| self.dashboard.render(now, frame.area(), frame.buffer_mut()));
        self.next_frame = now + FRAME_INTERVAL;
    }
}

impl Watch for Screen {
    fn should_continue(&mut self) -> bool {
        if Instant::now() >= self.next_frame {
            self.draw();
        }
        true
    }

    fn start(&mut self, start: Instant) -> Instant {
        self.dashboard.start(start);
        start
    }

    fn opening(&mut self, open: u32, total: u32) {
        self.dashboard.opening(open, total);
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
fn dashboard_size() -> Option<Rect> {
    terminal_size().filter(|window| window.width >= WIDTH_MIN && window.height >= HEIGHT_MIN)
}

/// The size of the terminal of standard error; standard output may be a file.
fn terminal_size() -> Option<Rect> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some(Rect::new(0, 0, size.ws_col, size.ws_row))
}

//! The keyboard of a terminal, read key by key.

use std::io::{self, IsTerminal, Stdin};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// While this exists, keys arrive at once and are not echoed. Ctrl-C remains a signal.
#[derive(Debug)]
pub struct Keyboard {
    terminal: Stdin,
    before: Termios,
}

impl Keyboard {
    /// `None` if standard input is not a terminal.
    #[must_use]
    pub fn open() -> Option<Self> {
        let terminal = io::stdin();
        if !terminal.is_terminal() {
            return None;
        }
        let before = tcgetattr(&terminal).ok()?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Now, &modes).ok()?;
        Some(Self { terminal, before })
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // Fails only if the terminal has gone.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

//! Reads a password from the terminal without showing it, or from standard input.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::PASSWORD_BYTES_MAX;

/// Returns the password: typed twice on the terminal, or the first line of standard input.
///
/// # Errors
///
/// Why there is none.
pub(super) fn read_password() -> Result<Vec<u8>, String> {
    let stdin = io::stdin();
    let password = if stdin.is_terminal() { typed_twice()? } else { first_line(stdin.lock())? };
    if password.is_empty() {
        return Err("the password is empty".to_owned());
    }
    Ok(password)
}

fn first_line(input: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    // With a line break of two bytes.
    let most = PASSWORD_BYTES_MAX as u64 + 3;
    input
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > PASSWORD_BYTES_MAX {
        return Err(format!("the password is longer than {PASSWORD_BYTES_MAX} bytes"));
    }
    Ok(line.to_vec())
}

fn typed_twice() -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("cannot use the terminal: {error}");
    let mut terminal = Silent::open().map_err(cannot)?;
    let password = terminal.ask("Password: ").map_err(cannot)?;
    let again = terminal.ask("Again: ").map_err(cannot)?;
    let (Some(password), Some(again)) = (password, again) else { return Err("interrupted".to_owned()) };
    if password == again { Ok(password) } else { Err("the passwords differ".to_owned()) }
}

/// The terminal, which does not show what is typed until this is dropped.
struct Silent {
    terminal: File,
    before: Termios,
}

impl Silent {
    fn open() -> io::Result<Self> {
        let terminal = File::options().read(true).write(true).open("/dev/tty")?;
        let before = tcgetattr(&terminal)?;
        let mut silent = before.clone();
        // Without signals: Ctrl-C must not leave the terminal silent.
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }

    /// Asks for a line. `None` after Ctrl-C or Ctrl-D.
    fn ask(&mut self, question: &str) -> io::Result<Option<Vec<u8>>> {
        const INTERRUPT: u8 = 3;
        const END: u8 = 4;
        const BACKSPACE: u8 = 8;
        const DELETE: u8 = 127;
        self.terminal.write_all(question.as_bytes())?;
        let (mut line, mut byte) = (Vec::new(), [0]);
        let is_complete = loop {
            if self.terminal.read(&mut byte)? == 0 {
                break false;
            }
            match byte[0] {
                b'\r' | b'\n' => break true,
                INTERRUPT | END => break false,
                BACKSPACE | DELETE => remove_character(&mut line),
                byte if line.len() < PASSWORD_BYTES_MAX => line.push(byte),
                _ => {}
            }
        };
        self.terminal.write_all(b"\n")?;
        Ok(is_complete.then_some(line))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // If that fails, the terminal is gone.
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// Removes the last character of a line in UTF-8.
fn remove_character(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_standard_input_is_the_password() {
        for (input, expected) in [
            ("secret", "secret"),
            ("secret\n", "secret"),
            ("se cret\r\nmore", "se cret"),
            ("", ""),
            ("\nsecret", ""),
        ] {
            assert_eq!(first_line(input.as_bytes()).unwrap(), expected.as_bytes(), "{input:?}");
        }
        let longest = "x".repeat(PASSWORD_BYTES_MAX);
        assert_eq!(first_line(format!("{longest}\r\n").as_bytes()).unwrap(), longest.as_bytes());
        assert!(first_line(format!("{longest}x").as_bytes()).is_err());
    }

    #[test]
    fn backspace_removes_a_whole_character() {
        let mut line = "aé".as_bytes().to_vec();
        for expected in ["a", "", ""] {
            remove_character(&mut line);
            assert_eq!(line, expected.as_bytes());
        }
    }
}

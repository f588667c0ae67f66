//! The secrets of sessions, for programs such as Wireshark (draft-ietf-tls-keylogfile).

use std::fs::File;
use std::io::Write;

use parking_lot::Mutex;
use rustls::KeyLog;

use crate::subject::hex;

/// Writes the secrets of all sessions to a file. Who reads it can decrypt them.
#[derive(Debug)]
pub struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    /// Appends to this file.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self(Mutex::new(file))
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        let mut file = self.0.lock();
        // The log is a tool: the session does not depend on it.
        let _ = file.write_all(line.as_bytes());
    }
}

//! Child processes of tests.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::{ReservedPort, eventually};

/// A child process, which is killed when this is dropped.
pub struct Running(Child);

impl Running {
    /// Starts a program.
    pub fn start(command: &mut Command) -> Self {
        command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}")).into()
    }

    /// Starts a program without output, and waits until it accepts connections on a port.
    pub fn listening(command: &mut Command, port: &ReservedPort) -> Self {
        let running = Self::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        eventually("the program listens", || TcpStream::connect(port.address()).ok());
        running
    }
}

impl From<Child> for Running {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the lines of a pipe, even if the test does not receive them, so that the writer never blocks.
pub fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // If the receiver is gone, keep reading, so that the pipe does not fill up.
            let _ = sender.send(line);
        }
    });
    lines
}

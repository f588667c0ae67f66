//! The protocol machine of a connection, which has one only while there is something to keep.

use std::ops::{Deref, DerefMut};

use rudy_http::h1::{ServerConnection, SuspendedConnection};

use crate::scratch::Scratch;

/// The machine. It is absent between two requests and while a stream waits: the thread keeps its box for the next connection, so a
/// waiting connection does not pay for it.
#[derive(Default)]
pub(super) struct Machine(Option<Box<ServerConnection>>);

impl Machine {
    /// Restores the machine, unless it is there.
    pub(super) fn resume(&mut self, suspended: SuspendedConnection, scratch: &mut Scratch) {
        if self.0.is_some() {
            return;
        }
        let spare = scratch.machine.take();
        self.0 = Some(match spare {
            Some(mut machine) => {
                *machine = suspended.resume();
                machine
            }
            None => Box::new(suspended.resume()),
        });
    }

    /// Returns the state of the connection and gives the box to the thread, if that state fits a [`SuspendedConnection`].
    pub(super) fn suspend(&mut self, scratch: &mut Scratch) -> Option<SuspendedConnection> {
        let suspended = self.0.as_ref()?.suspend()?;
        scratch.machine = self.0.take();
        Some(suspended)
    }

    pub(super) fn into_inner(self) -> Option<Box<ServerConnection>> {
        self.0
    }
}

impl Deref for Machine {
    type Target = ServerConnection;

    fn deref(&self) -> &ServerConnection {
        self.0.as_ref().expect("resumed before anything is read or written")
    }
}

impl DerefMut for Machine {
    fn deref_mut(&mut self) -> &mut ServerConnection {
        self.0.as_mut().expect("resumed before anything is read or written")
    }
}

//! The protocol state machine of a connection, which exists only while it has state.

use std::ops::{Deref, DerefMut};

use rudy_http::h1::{ServerConnection, SuspendedConnection};

use crate::scratch::Scratch;

/// The state machine. It is absent between requests and while a stream waits: the thread reuses its box for
/// the next connection, so waiting connections do not pay for it.
#[derive(Default)]
pub(in crate::driver) struct Machine(Option<Box<ServerConnection>>);

impl Machine {
    /// Restores the machine if it is absent.
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

    /// If the state fits in a [`SuspendedConnection`], returns the state and gives the box to the thread.
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

//! The protocol machine of a connection, which has one only while there is something to keep.

use std::ops::{Deref, DerefMut};

use rudy_http::h1::{IdleConnection, ServerConnection};

use crate::scratch::Scratch;

/// The machine; none between two requests. Its box is the thread's then, as the buffers are, so that an idle connection does not
/// pay for it.
#[derive(Default)]
pub(super) struct Machine(Option<Box<ServerConnection>>);

impl Machine {
    /// Goes on where `idle` stands, unless it does already.
    pub(super) fn resume(&mut self, idle: IdleConnection, scratch: &mut Scratch) {
        if self.0.is_some() {
            return;
        }
        let spare = scratch.machine.take();
        self.0 = Some(match spare {
            Some(mut machine) => {
                *machine = idle.resume();
                machine
            }
            None => Box::new(idle.resume()),
        });
    }

    /// Gives the box back if the connection is idle, and returns what is left to know of it.
    pub(super) fn suspend(&mut self, scratch: &mut Scratch) -> Option<IdleConnection> {
        let idle = self.0.as_ref()?.suspend()?;
        scratch.machine = self.0.take();
        Some(idle)
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

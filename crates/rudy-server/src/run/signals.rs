//! What the signals of an operator ask for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What is asked of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// SIGHUP: read the configuration again and open the logs anew.
    Reload,
    /// SIGUSR1: open the access log anew and nothing else, as nginx and its log rotation have it.
    ReopenLog,
    /// SIGTERM or SIGINT: stop.
    Stop(Stop),
}

/// The signal that asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    /// Its name, for the log.
    pub(super) name: &'static str,
    /// Its number, for the exit code.
    pub(super) number: u8,
}

/// Catches the signals from its making on.
pub(super) struct Signals {
    hangup: Signal,
    user_1: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Must be called on a tokio runtime.
    pub(super) fn catch() -> io::Result<Self> {
        // A file that may not grow any more (RLIMIT_FSIZE) is an error where it is written, and no reason to end. Caught for good
        // and not ignored, which the apps that we start would inherit.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Asked {
        // The same two numbers on every Linux (signal(7)).
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop(Stop { name: "SIGTERM", number: 15 }),
            _ = self.interrupt.recv() => Asked::Stop(Stop { name: "SIGINT", number: 2 }),
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.user_1.recv() => Asked::ReopenLog,
        }
    }
}

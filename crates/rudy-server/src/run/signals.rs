//! What the signals of an operator ask for.

use std::{io, mem};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::upgrade::{Predecessor, Request, next_of};

/// What is asked of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// SIGHUP: read the configuration again and open the logs anew.
    Reload,
    /// SIGUSR1: open the access log anew and nothing else, as nginx and its log rotation have it.
    ReopenLog,
    /// SIGUSR2: have a new process take the place of this one.
    Upgrade,
    /// The server that this process replaces has left its sockets, or has ended.
    OwnSockets,
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

impl Stop {
    /// By the name of the signal.
    pub(super) fn named(name: &str) -> Self {
        match name {
            // The same numbers on every Linux (signal(7)).
            "SIGHUP" => Self { name: "SIGHUP", number: 1 },
            "SIGINT" => Self { name: "SIGINT", number: 2 },
            _ => Self { name: "SIGTERM", number: 15 },
        }
    }
}

/// Catches the signals from its making on, and what the server that this process replaces asks for.
pub(super) struct Signals {
    hangup: Signal,
    user_1: Signal,
    user_2: Signal,
    terminate: Signal,
    interrupt: Signal,
    /// The server that this process replaces, until it has ended.
    predecessor: Option<Predecessor>,
    /// Its process id, also when it has ended.
    before: Option<u32>,
    /// An upgrade was asked for.
    upgrade_waits: bool,
    /// A stop was asked for by a signal.
    was_signalled: bool,
    /// A stop was asked for by the other process.
    was_told: bool,
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
            user_2: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            predecessor: None,
            before: None,
            upgrade_waits: false,
            was_signalled: false,
            was_told: false,
        })
    }

    /// Listens to the server that this process replaces, too.
    pub(super) fn follow(&mut self, predecessor: Option<Predecessor>) {
        self.before = predecessor.as_ref().map(Predecessor::pid);
        self.predecessor = predecessor;
    }

    /// The process id of the server that this process replaces or has replaced.
    pub(super) fn before(&self) -> Option<u32> {
        self.before
    }

    /// The server that this process replaces, until it has ended.
    pub(super) fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    /// Has an upgrade be due, when the server that this process replaces has ended.
    pub(super) fn ask_for_upgrade(&mut self) {
        self.upgrade_waits = true;
    }

    /// Whether an upgrade is due, told once.
    pub(super) fn take_upgrade(&mut self) -> bool {
        self.predecessor.is_none() && mem::take(&mut self.upgrade_waits)
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Asked {
        loop {
            let asked = tokio::select! {
                _ = self.terminate.recv() => self.stop_by_signal("SIGTERM"),
                _ = self.interrupt.recv() => self.stop_by_signal("SIGINT"),
                _ = self.hangup.recv() => Some(Asked::Reload),
                _ = self.user_1.recv() => Some(Asked::ReopenLog),
                _ = self.user_2.recv() => Some(Asked::Upgrade),
                request = next_of(self.predecessor.as_ref()) => self.heard(request),
            };
            if let Some(asked) = asked {
                return asked;
            }
        }
    }

    /// Ctrl-C goes to both processes, and the other one passes it on: the same stop, which the second must not take for a further one.
    fn stop_by_signal(&mut self, name: &str) -> Option<Asked> {
        let is_known = self.was_told && !self.was_signalled;
        self.was_signalled = true;
        (!is_known).then(|| Asked::Stop(Stop::named(name)))
    }

    fn heard(&mut self, request: Request) -> Option<Asked> {
        match request {
            Request::Signal(Asked::Stop(stop)) => {
                self.was_told = true;
                (!self.was_signalled).then_some(Asked::Stop(stop))
            }
            Request::Signal(asked) => Some(asked),
            Request::End => Some(Asked::Stop(Stop::named("SIGTERM"))),
            Request::Ended => {
                self.predecessor = None;
                Some(Asked::OwnSockets)
            }
        }
    }
}

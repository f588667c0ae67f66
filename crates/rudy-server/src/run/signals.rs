//! What the signals of an operator ask for.

use std::{io, mem};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::upgrade::{Predecessor, Request, next_of};

/// What is asked of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
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
    predecessor_pid: Option<u32>,
    /// An upgrade was asked for.
    upgrade_pending: bool,
    /// A stop was asked for by a signal.
    stopped_by_signal: bool,
    /// A stop was asked for by the other process.
    stopped_by_peer: bool,
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
            predecessor_pid: None,
            upgrade_pending: false,
            stopped_by_signal: false,
            stopped_by_peer: false,
        })
    }

    /// Listens to the server that this process replaces, too.
    pub(super) fn follow(&mut self, predecessor: Option<Predecessor>) {
        self.predecessor_pid = predecessor.as_ref().map(Predecessor::pid);
        self.predecessor = predecessor;
    }

    /// The process id of the server that this process replaces or has replaced.
    pub(super) fn predecessor_pid(&self) -> Option<u32> {
        self.predecessor_pid
    }

    /// The server that this process replaces, until it has ended.
    pub(super) fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    /// Has an upgrade be due, when the server that this process replaces has ended.
    pub(super) fn request_upgrade(&mut self) {
        self.upgrade_pending = true;
    }

    /// Whether an upgrade is due, told once.
    pub(super) fn take_upgrade(&mut self) -> bool {
        self.predecessor.is_none() && mem::take(&mut self.upgrade_pending)
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Action {
        loop {
            let action = tokio::select! {
                _ = self.terminate.recv() => self.stop_by_signal("SIGTERM"),
                _ = self.interrupt.recv() => self.stop_by_signal("SIGINT"),
                _ = self.hangup.recv() => Some(Action::Reload),
                _ = self.user_1.recv() => Some(Action::ReopenLog),
                _ = self.user_2.recv() => Some(Action::Upgrade),
                request = next_of(self.predecessor.as_ref()) => self.handle_request(request),
            };
            if let Some(action) = action {
                return action;
            }
        }
    }

    /// Ctrl-C goes to both processes, and the other one passes it on: the same stop, which the second must not take for a further one.
    fn stop_by_signal(&mut self, name: &str) -> Option<Action> {
        let is_known = self.stopped_by_peer && !self.stopped_by_signal;
        self.stopped_by_signal = true;
        (!is_known).then(|| Action::Stop(Stop::named(name)))
    }

    fn handle_request(&mut self, request: Request) -> Option<Action> {
        match request {
            Request::Signal(Action::Stop(stop)) => {
                self.stopped_by_peer = true;
                (!self.stopped_by_signal).then_some(Action::Stop(stop))
            }
            Request::Signal(action) => Some(action),
            Request::End => Some(Action::Stop(Stop::named("SIGTERM"))),
            Request::Ended => {
                self.predecessor = None;
                Some(Action::OwnSockets)
            }
        }
    }
}

//! Signals, and the actions that they request.

use std::{io, mem};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::upgrade::{Predecessor, Request, next_request_of};

/// An action that a signal requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// SIGHUP: reload the configuration and reopen the logs.
    Reload,
    /// SIGUSR1: reopen the access log, as in nginx.
    ReopenLog,
    /// SIGUSR2: replace this process with a new one.
    Upgrade,
    /// Take ownership of the sockets: the replaced process has handed them over, or has ended.
    TakeOwnership,
    /// SIGTERM or SIGINT: stop.
    Stop(Stop),
}

/// A signal to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    /// The name of the signal, for the log.
    pub(super) name: &'static str,
    /// The number of the signal, for the exit code.
    pub(super) number: u8,
}

impl Stop {
    /// Returns the stop signal with this name; SIGTERM for an unknown name.
    pub(super) fn named(name: &str) -> Self {
        match name {
            // The same numbers on every Linux (signal(7)).
            "SIGHUP" => Self { name: "SIGHUP", number: 1 },
            "SIGINT" => Self { name: "SIGINT", number: 2 },
            _ => Self { name: "SIGTERM", number: 15 },
        }
    }
}

/// Receives signals, and requests from the process that this one replaces.
pub(super) struct Signals {
    hangup: Signal,
    user_1: Signal,
    user_2: Signal,
    terminate: Signal,
    interrupt: Signal,
    /// The process that this one replaces, until it has ended.
    predecessor: Option<Predecessor>,
    /// The id of the process that this one replaces or has replaced.
    predecessor_pid: Option<u32>,
    /// Whether an upgrade was requested that has not begun.
    upgrade_pending: bool,
    /// Whether a signal requested the stop.
    stopped_by_signal: bool,
    /// Whether the predecessor requested the stop.
    stopped_by_predecessor: bool,
}

impl Signals {
    /// Must be called on a tokio runtime.
    pub(super) fn catch() -> io::Result<Self> {
        // Exceeding RLIMIT_FSIZE must be a write error instead of ending the process. The signal is caught, not ignored, because
        // apps would inherit an ignored signal.
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
            stopped_by_predecessor: false,
        })
    }

    /// Sets the process that this one replaces, to receive its requests as well.
    pub(super) fn set_predecessor(&mut self, predecessor: Option<Predecessor>) {
        self.predecessor_pid = predecessor.as_ref().map(Predecessor::pid);
        self.predecessor = predecessor;
    }

    /// Returns the id of the process that this one replaces or has replaced.
    pub(super) fn predecessor_pid(&self) -> Option<u32> {
        self.predecessor_pid
    }

    /// Returns the process that this one replaces, until it has ended.
    pub(super) fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    /// Requests an upgrade, which begins when the replaced process has ended.
    pub(super) fn request_upgrade(&mut self) {
        self.upgrade_pending = true;
    }

    /// Returns whether an upgrade can begin, and clears the request.
    pub(super) fn take_upgrade(&mut self) -> bool {
        self.predecessor.is_none() && mem::take(&mut self.upgrade_pending)
    }

    /// Waits for a signal to stop. Other actions remain for [`Self::next`].
    pub(super) async fn next_stop(&mut self) -> Stop {
        loop {
            let stop = tokio::select! {
                _ = self.terminate.recv() => self.stop_by_signal("SIGTERM"),
                _ = self.interrupt.recv() => self.stop_by_signal("SIGINT"),
            };
            if let Some(stop) = stop {
                return stop;
            }
        }
    }

    /// Waits for the next action.
    pub(super) async fn next(&mut self) -> Action {
        loop {
            let action = tokio::select! {
                _ = self.terminate.recv() => self.stop_by_signal("SIGTERM").map(Action::Stop),
                _ = self.interrupt.recv() => self.stop_by_signal("SIGINT").map(Action::Stop),
                _ = self.hangup.recv() => Some(Action::Reload),
                _ = self.user_1.recv() => Some(Action::ReopenLog),
                _ = self.user_2.recv() => Some(Action::Upgrade),
                request = next_request_of(self.predecessor.as_ref()) => self.handle_request(request),
            };
            if let Some(action) = action {
                return action;
            }
        }
    }

    /// Handles a stop signal. Ctrl-C reaches both processes, and the predecessor also forwards it: that is one stop, not two.
    fn stop_by_signal(&mut self, name: &str) -> Option<Stop> {
        let is_duplicate = self.stopped_by_predecessor && !self.stopped_by_signal;
        self.stopped_by_signal = true;
        (!is_duplicate).then(|| Stop::named(name))
    }

    fn handle_request(&mut self, request: Request) -> Option<Action> {
        match request {
            Request::Signal(Action::Stop(stop)) => {
                self.stopped_by_predecessor = true;
                (!self.stopped_by_signal).then_some(Action::Stop(stop))
            }
            Request::Signal(action) => Some(action),
            Request::End => Some(Action::Stop(Stop::named("SIGTERM"))),
            Request::Ended => {
                self.predecessor = None;
                Some(Action::TakeOwnership)
            }
        }
    }
}

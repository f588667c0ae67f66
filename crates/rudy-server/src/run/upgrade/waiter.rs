//! Handles signals and events of the new process while the old process finishes.

use std::future::pending;
use std::pin::Pin;

use rudy_log::ErrorLog;
use rudy_watch::access_log::AccessLogs;

use super::successor::{Event, Successor};
use crate::run::reload::reopen_logs;
use crate::run::signals::{Action, Signals, Stop};

/// The new process, and the stop signals received while the old process finishes.
pub(super) struct Watch {
    pub(super) successor: Successor,
    /// Both processes stop.
    pub(super) both_stop: bool,
    /// This process received a signal to stop.
    was_stopped: bool,
    pub(super) second_stop: Option<Stop>,
    /// The new process has ended.
    pub(super) successor_ended: bool,
}

impl Watch {
    pub(super) fn new(successor: Successor) -> Self {
        Self { successor, both_stop: false, was_stopped: false, second_stop: None, successor_ended: false }
    }
}

/// Waits for a future while it handles signals and events of the new process.
pub(super) struct Waiter<'a> {
    pub(super) watch: &'a mut Watch,
    pub(super) signals: &'a mut Signals,
    pub(super) errors: &'a ErrorLog,
    pub(super) logs: Option<&'a AccessLogs>,
}

impl Waiter<'_> {
    /// Waits for `end`, or returns `None` after a signal to stop one of the processes. Fails with the reason if the new process ends by itself.
    pub(super) async fn run_until<T>(
        &mut self,
        mut end: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> Result<Option<T>, String> {
        loop {
            let Watch { successor, successor_ended, .. } = &mut *self.watch;
            let event = async { if *successor_ended { pending().await } else { successor.next().await } };
            tokio::select! {
                end = end.as_mut() => return Ok(Some(end)),
                event = event => match event {
                    Event::Stopping => {
                        self.watch.both_stop = true;
                        return Ok(None);
                    }
                    Event::Ended(why) => {
                        self.watch.successor_ended = true;
                        if !self.watch.both_stop {
                            return Err(why);
                        }
                    }
                },
                action = self.signals.next() => {
                    self.watch.successor.forward(action);
                    match action {
                        Action::Stop(stop) => {
                            self.record_stop(stop);
                            return Ok(None);
                        }
                        Action::ReopenLog => reopen_logs(self.logs, self.errors),
                        Action::Reload | Action::Upgrade | Action::TakeOwnership => {}
                    }
                }
            }
        }
    }

    fn record_stop(&mut self, stop: Stop) {
        let watch = &mut *self.watch;
        watch.both_stop = true;
        if watch.was_stopped {
            watch.second_stop = Some(stop);
        } else {
            watch.was_stopped = true;
            let pid = watch.successor.pid();
            self.errors.notice(&format!(
                "{}: stopping, also process {pid}; a second signal stops both at once",
                stop.name
            ));
        }
    }
}

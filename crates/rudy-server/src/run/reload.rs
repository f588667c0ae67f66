//! SIGHUP: reloads the configuration as one transaction. After a failure, the old configuration stays in effect.

use std::sync::Arc;

use rudy_log::ErrorLog;
use rudy_net::listen::{ListenError, Listener, Owner};
use rudy_service::listen_address::Address;
use rudy_watch::access_log::AccessLogs;

use super::exit::Failure;
use super::server::{Server, open_access_logs};
use super::service_manager::State;
use super::{Source, announce, conflicts, memory, outcome};
use crate::config::Config;

impl Server {
    /// Reloads the configuration. Requests in progress finish with the old one.
    pub(super) fn reload(&mut self) {
        self.notify_service_manager(State::Reloading);
        if let Err(failure) = self.try_reload() {
            let outcome = format!("{}; the configuration is unchanged", failure.summary());
            let (message, errors) = (format!("SIGHUP: {outcome}"), &self.context.errors);
            if let Failure::Config(diagnostics) = failure {
                let text = diagnostics.render(false);
                errors.error_with_details(&message, &text);
                outcome::report(&self.signals, Err(&format!("{outcome}\n{}", text.trim_end())));
            } else {
                errors.error(&message);
                outcome::report(&self.signals, Err(&errors.masked(&outcome)));
            }
            // Reopen the old log regardless, because logrotate may have renamed it.
            self.reopen_logs();
        }
        self.notify_service_manager(State::Ready);
    }

    /// Does first what can fail. The new addresses are bound last of these steps, because that may require closing an old
    /// listener, which clients notice. New listeners accept connections after the switch, so the old configuration never
    /// serves them. If accepting fails, the old configuration is restored.
    ///
    /// After a failure, dropping the new log and app closes them, including app processes that only the new configuration has.
    fn try_reload(&mut self) -> Result<(), Failure> {
        let (options, inherited) = (self.options.clone(), self.inherited.clone());
        let config = self.run_blocking(move || options.config(&inherited))?;
        let placeholders = config.placeholders().clone();
        // Values that are new in this configuration can be logged while it is applied, and later.
        self.context.errors.mask(&placeholders);
        self.apply_config(config).map_err(|failure| failure.masked(&placeholders))
    }

    fn apply_config(&mut self, mut config: Config) -> Result<(), Failure> {
        let user_changes = config.user != self.config.user;
        config.user.clone_from(&self.config.user);
        let sandbox_changes = config.sandbox != self.config.sandbox;
        config.sandbox = self.config.sandbox;
        if let Some(sandbox) = &self.sandbox {
            conflicts::check_in_sandbox(&config).map_err(Failure::Config)?;
            sandbox.check(&config)?;
        }
        let engine_changes = config.keep_engine(self.config.engine).map_err(Failure::Config)?;
        let same_logs = config.access_logs() == self.config.access_logs();
        let access_logs = if same_logs {
            self.access_logs.clone()
        } else {
            open_access_logs(&config, &self.context.errors)?
        };
        let config = Arc::new(config);
        let (context, made_of, logs) = (self.context.clone(), config.clone(), access_logs.clone());
        let app = self.run_blocking(move || context.build_app(&made_of, logs.as_ref()))?;
        self.context.prepare_renewals(&config)?;
        self.context.start_apps(&app)?;
        let admin = if config.admin_socket == self.config.admin_socket {
            None
        } else {
            Some(self.open_admin_socket(&config, None)?)
        };
        let (old, new) = (self.config.addresses(), config.addresses());
        let removed = difference(&new, &old);
        let listeners = self.bind_replacing(&removed, &difference(&old, &new))?;

        let before = self.current_app.replace(Arc::new(app));
        self.listen(listeners).inspect_err(|_| {
            self.current_app.replace(before);
            self.listen_again(&removed);
        })?;
        self.context.use_ticket_keys(&config);
        self.engine.source_changed();
        self.context.buffers.set(config.buffer.clone());
        self.context.errors.set_levels(config.error_log.levels.clone());
        let log_changes = !config.error_log.is_same_place(&self.config.error_log);
        self.access_logs = access_logs;
        self.config = Arc::unwrap_or_clone(config);
        self.context.tls.forget_unused();
        memory::return_unused();
        self.context.renew(&mut self.renewals, &self.config);
        if let Some(admin) = admin {
            self.admin = admin;
        }
        self.stop_listening(&removed);
        if same_logs {
            self.reopen_logs();
        }
        self.log_notices();
        if engine_changes {
            self.context.errors.notice("changes of `engine`, `cores` and `threads` need a restart");
        }
        if log_changes {
            let notice =
                "a change of the destination, the format or the rotation of `error_log` needs a restart";
            self.context.errors.notice(notice);
        }
        if user_changes {
            self.context.errors.notice("a change of `user` needs a restart");
        }
        if sandbox_changes {
            self.context.errors.notice("a change of `sandbox` needs a restart");
        }
        let outcome = match self.options.source {
            Source::Folder { .. } | Source::Proxy { .. } | Source::Mirror { .. } => {
                "no configuration file to reload; the logs were reopened"
            }
            Source::File(_) => "the configuration was reloaded and applies from the next request",
        };
        self.context.errors.notice(&format!("SIGHUP: {outcome}"));
        outcome::report(&self.signals, Ok(outcome));
        Ok(())
    }

    /// Runs `work` on the blocking pool and waits for it, because looking up users may wait for the network. Other tasks of the
    /// main thread continue, and a signal to stop ends the wait.
    fn run_blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let task = self.runtime.spawn_blocking(work);
        let result = self.runtime.block_on(async {
            tokio::select! {
                result = task => Ok(result),
                stop = self.signals.next_stop() => Err(stop),
            }
        });
        match result {
            Ok(result) => result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())),
            Err(stop) => {
                self.stopped = Some(stop);
                Err(Failure::Cannot(format!("finish the reload: {} stops the server", stop.name)))
            }
        }
    }

    /// Binds all of `new`, or nothing. Addresses that do not conflict with `removed` are bound first, so that an address in use by
    /// another program is found before `removed` is closed. Rudy closes `removed` only if necessary: `:80` cannot be bound
    /// while `127.0.0.1:80` is. If binding still fails, Rudy listens on `removed` again.
    fn bind_replacing(&self, removed: &[Address], new: &[Address]) -> Result<Vec<Listener>, Failure> {
        let (mut bound, mut behind) = (Vec::new(), Vec::new());
        for address in new {
            match self.bind_one(address) {
                Ok(listener) => bound.push(listener),
                Err(ListenError::InUse { owner: Owner::Ourselves, .. }) if !removed.is_empty() => {
                    behind.push(address.clone());
                }
                Err(error) => return Err(Failure::Listen(error)),
            }
        }
        if !behind.is_empty() {
            self.stop_listening(removed);
            bound.extend(self.bind(&behind).inspect_err(|_| self.listen_again(removed))?);
        }
        Ok(bound)
    }

    /// Listens again on the addresses of `removed` that were already closed, after a failure.
    fn listen_again(&self, removed: &[Address]) {
        let listening: Vec<_> = self.engine.listeners().into_iter().map(|(address, _)| address).collect();
        let closed = difference(&listening, removed);
        if let Err(failure) = self.bind(&closed).and_then(|listeners| self.listen(listeners)) {
            self.context.errors.error(&failure.summary());
        }
    }

    /// Accepts connections on all listeners, or on none.
    fn listen(&self, listeners: Vec<Listener>) -> Result<(), Failure> {
        let mut listening: Vec<(Address, String)> = Vec::new();
        for listener in listeners {
            let shown: Vec<_> =
                listener.bound().iter().map(|bound| announce::url(listener.address(), bound)).collect();
            let (address, shown) = (listener.address().clone(), shown.join(", "));
            if let Err(error) = self.engine.listen(listener) {
                let accepted: Vec<_> = listening.into_iter().map(|(address, _)| address).collect();
                self.stop_listening(&accepted);
                return Err(Failure::cannot(&format!("accept on {shown}"))(error));
            }
            listening.push((address, shown));
        }
        for (_, shown) in &listening {
            self.context.errors.notice(&format!("listening on {shown}"));
        }
        Ok(())
    }

    fn stop_listening(&self, addresses: &[Address]) {
        for address in addresses {
            if self.runtime.block_on(self.engine.stop_listening(address)) {
                self.context.errors.notice(&format!("stopped listening on {address}"));
            }
        }
    }

    pub(super) fn reopen_logs(&self) {
        reopen_logs(self.access_logs.as_ref(), &self.context.errors);
    }
}

/// Opens the access logs and the error log again.
pub(super) fn reopen_logs(logs: Option<&AccessLogs>, errors: &ErrorLog) {
    if let Err(error) = errors.reopen() {
        errors.error(&format!("cannot reopen the error log {error}; Rudy still writes to the old file"));
    }
    for (log, error) in logs.map(AccessLogs::reopen).unwrap_or_default() {
        errors.error(&format!(
            "cannot reopen the access log {}: {error}; Rudy still writes to the old file",
            log.destination()
        ));
    }
}

/// Returns the addresses in `these` that are not in `others`.
fn difference(others: &[Address], these: &[Address]) -> Vec<Address> {
    these.iter().filter(|address| !others.contains(address)).cloned().collect()
}

//! SIGHUP: reloads the configuration as one transaction. After a failure, the old configuration stays in effect.

use std::sync::Arc;

use rudy_log::ErrorLog;
use rudy_watch::access_log::AccessLogs;

use super::exit::Failure;
use super::server::Server;
use super::service_manager::State;
use super::{Source, conflicts, outcome};
use crate::config::Config;

impl Server {
    /// Reloads the configuration. Requests in progress finish with the old one.
    pub(super) fn reload(&mut self) {
        self.notify_service_manager(State::Reloading);
        if let Err(failure) = self.try_reload() {
            let outcome = format!("{}; the configuration is unchanged", failure.summary());
            let (message, errors) = (format!("SIGHUP: {outcome}"), &self.serving.context.errors);
            if let Failure::Config(diagnostics) = failure {
                let text = diagnostics.render(false);
                errors.error_with_details(&message, &text);
                outcome::report(&self.signals, "SIGHUP", Err(&format!("{outcome}\n{}", text.trim_end())));
            } else {
                errors.error(&message);
                outcome::report(&self.signals, "SIGHUP", Err(&errors.masked(&outcome)));
            }
            // Reopen the old log regardless, because logrotate may have renamed it.
            self.reopen_logs();
        }
        self.notify_service_manager(State::Ready);
    }

    /// Does first what can fail. After a failure, dropping the new log and app closes them, including app processes that only the new
    /// configuration has.
    fn try_reload(&mut self) -> Result<(), Failure> {
        let (options, inherited) = (self.options.clone(), self.serving.inherited.clone());
        let config = self.run_blocking(move || options.config(&inherited))?;
        let placeholders = config.placeholders().clone();
        // Values that are new in this configuration can be logged while it is applied, and later.
        self.serving.context.errors.mask(&placeholders);
        self.apply_config(config).map_err(|failure| failure.masked(&placeholders))
    }

    fn apply_config(&mut self, mut config: Config) -> Result<(), Failure> {
        let user_changes = config.user != self.serving.config.user;
        config.user.clone_from(&self.serving.config.user);
        let sandbox_changes = config.sandbox != self.serving.config.sandbox;
        config.sandbox = self.serving.config.sandbox;
        if let Some(sandbox) = &self.sandbox {
            conflicts::check_in_sandbox(&config).map_err(Failure::Config)?;
            sandbox.check(&config)?;
        }
        let engine_changes = config.keep_engine(self.serving.config.engine).map_err(Failure::Config)?;
        let same_logs = config.access_logs() == self.serving.config.access_logs();
        let log_changes = !config.error_log.is_same_place(&self.serving.config.error_log);
        let access_logs = self.serving.logs_for(&config)?;
        let config = Arc::new(config);
        let (context, made_of, logs) = (self.serving.context.clone(), config.clone(), access_logs.clone());
        let app = self.run_blocking(move || context.build_app(&made_of, logs.as_ref()))?;
        self.serving.context.prepare_renewals(&config)?;
        self.serving.context.start_apps(&app)?;
        let admin = if config.admin_socket == self.serving.config.admin_socket {
            None
        } else {
            Some(self.open_admin_socket(&config, None)?)
        };
        let switching = self.serving.switch(Arc::unwrap_or_clone(config), app, access_logs);
        self.runtime.block_on(switching)?;
        self.serving.context.renew(&mut self.renewals, &self.serving.config);
        if let Some(admin) = admin {
            self.admin = admin;
        }
        if same_logs {
            self.reopen_logs();
        }
        self.log_notices();
        if engine_changes {
            self.serving.context.errors.notice("changes of `engine`, `cores` and `threads` need a restart");
        }
        if log_changes {
            let notice =
                "a change of the destination, the format or the rotation of `error_log` needs a restart";
            self.serving.context.errors.notice(notice);
        }
        if user_changes {
            self.serving.context.errors.notice("a change of `user` needs a restart");
        }
        if sandbox_changes {
            self.serving.context.errors.notice("a change of `sandbox` needs a restart");
        }
        let outcome = match self.options.source {
            Source::Folder { .. } | Source::Proxy { .. } | Source::Mirror { .. } => {
                "no configuration file to reload; the logs were reopened"
            }
            Source::File(_) => "the configuration was reloaded and applies from the next request",
        };
        self.serving.context.errors.notice(&format!("SIGHUP: {outcome}"));
        outcome::report(&self.signals, "SIGHUP", Ok(outcome));
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

    pub(super) fn reopen_logs(&self) {
        reopen_logs(self.serving.access_logs.as_ref(), &self.serving.context.errors);
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

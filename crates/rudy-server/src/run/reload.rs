//! SIGHUP: another configuration takes over whole, or the old one stays whole.

use std::sync::Arc;

use rudy_net::listen::{Address, ListenError, Listener, Owner};

use super::exit::Failure;
use super::server::{Server, open_access_log};
use super::service_manager::State;
use super::{Source, announce, conflicts, outcome};
use crate::access_log::AccessLog;
use crate::config::Config;
use crate::error_log::ErrorLog;

impl Server {
    /// Reads the configuration again. Requests in progress are finished with what they began with.
    pub(super) fn reload(&mut self) {
        self.tell_service_manager(State::Reloading);
        if let Err(failure) = self.try_reload() {
            let outcome = format!("{}; the configuration stays as it was", failure.summary());
            let (message, errors) = (format!("SIGHUP: {outcome}"), &self.context.errors);
            if let Failure::Config(diagnostics) = failure {
                let text = diagnostics.render(false);
                errors.error_with_details(&message, &text);
                outcome::report(&self.signals, Err(&format!("{outcome}\n{}", text.trim_end())));
            } else {
                errors.error(&message);
                outcome::report(&self.signals, Err(&errors.masked(&outcome)));
            }
            // The old log is opened anew all the same: whoever renamed it waits for that.
            self.reopen_access_log();
        }
        self.tell_service_manager(State::Ready);
    }

    /// Does first what is likely to fail: the new addresses are bound last of it, because closing an old one for them is
    /// felt outside. Connections to them are accepted after the new configuration has taken over, so that the old one
    /// never responds there. If accepting fails, the old configuration takes over again.
    ///
    /// What was made until a failure ends when it is dropped: the log, and the application processes that only the new
    /// configuration has.
    fn try_reload(&mut self) -> Result<(), Failure> {
        let (options, inherited) = (self.options.clone(), self.inherited.clone());
        let config = self.aside(move || options.config(&inherited))?;
        let placeholders = config.placeholders().clone();
        self.replace_by(config).map_err(|failure| failure.masked(&placeholders))
    }

    fn replace_by(&mut self, mut config: Config) -> Result<(), Failure> {
        let user_changes = config.user != self.config.user;
        config.user.clone_from(&self.config.user);
        let sandbox_changes = config.sandbox != self.config.sandbox;
        config.sandbox = self.config.sandbox;
        if let Some(sandbox) = &self.sandbox {
            conflicts::check_in_sandbox(&config).map_err(Failure::Config)?;
            sandbox.check(&config)?;
        }
        let engine_changes = config.keep_engine(self.config.engine).map_err(Failure::Config)?;
        let same_log = config.access_log == self.config.access_log;
        let access_log =
            if same_log { self.access_log.clone() } else { open_access_log(&config, &self.context.errors)? };
        let (context, made_of, log) = (self.context.clone(), config.clone(), access_log.clone());
        let app = self.aside(move || context.build_app(&made_of, log.as_ref()))?;
        self.context.start_apps(&app)?;
        let gone = missing_in(&config.listen, &self.config.listen);
        let listeners = self.bind_in_place_of(&gone, &missing_in(&self.config.listen, &config.listen))?;

        let before = self.generations.replace(Arc::new(app));
        self.listen(listeners).inspect_err(|_| {
            self.generations.replace(before);
            self.listen_again(&gone);
        })?;
        self.engine.source_changed();
        self.context.buffers.set(config.buffer.clone());
        self.access_log = access_log;
        self.config = config;
        self.stop_listening(&gone);
        if same_log {
            self.reopen_access_log();
        }
        self.tell_notices();
        if engine_changes {
            self.context.errors.notice("`engine`, `cores` and `threads` change with the next start");
        }
        if user_changes {
            self.context.errors.notice("`user` changes with the next start");
        }
        if sandbox_changes {
            self.context.errors.notice("`sandbox` changes with the next start");
        }
        let outcome = match self.options.source {
            Source::Folder { .. } => "there is no configuration to read; the logs were reopened",
            Source::File(_) => "the configuration was read again and holds from the next request on",
        };
        self.context.errors.notice(&format!("SIGHUP: {outcome}"));
        outcome::report(&self.signals, Ok(outcome));
        Ok(())
    }

    /// Runs `work` on the blocking pool and waits for it. The work looks users up, which may wait for the network, while the
    /// tasks of the main thread go on.
    fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let done = self.runtime.block_on(self.runtime.spawn_blocking(work));
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    /// Binds `new`, all of it or nothing. What can be bound beside `gone` is bound first, so that an address that another
    /// program has is found before `gone` is closed. Rudy closes `gone` only if it has to: `:80` cannot be bound while
    /// `127.0.0.1:80` is. If that does not help either, it listens on `gone` again.
    fn bind_in_place_of(&self, gone: &[Address], new: &[Address]) -> Result<Vec<Listener>, Failure> {
        let (mut bound, mut behind) = (Vec::new(), Vec::new());
        for address in new {
            match self.bind_one(address) {
                Ok(listener) => bound.push(listener),
                Err(ListenError::InUse { owner: Owner::Ourselves, .. }) if !gone.is_empty() => {
                    behind.push(address.clone());
                }
                Err(error) => return Err(Failure::Listen(error)),
            }
        }
        if !behind.is_empty() {
            self.stop_listening(gone);
            bound.extend(self.bind(&behind).inspect_err(|_| self.listen_again(gone))?);
        }
        Ok(bound)
    }

    /// Listens on those of `gone` that were closed already, after a failure.
    fn listen_again(&self, gone: &[Address]) {
        let listening: Vec<_> = self.engine.listeners().into_iter().map(|(address, _)| address).collect();
        let closed = missing_in(&listening, gone);
        if let Err(failure) = self.bind(&closed).and_then(|listeners| self.listen(listeners)) {
            self.context.errors.error(&failure.summary());
        }
    }

    /// Accepts from all of them, or from none.
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
            self.context.errors.notice(&format!("listens on {shown}"));
        }
        Ok(())
    }

    fn stop_listening(&self, addresses: &[Address]) {
        for address in addresses {
            if self.runtime.block_on(self.engine.stop_listening(address)) {
                self.context.errors.notice(&format!("listens no longer on {address}"));
            }
        }
    }

    pub(super) fn reopen_access_log(&self) {
        reopen_access_log(self.access_log.as_ref(), &self.context.errors);
    }
}

pub(super) fn reopen_access_log(log: Option<&AccessLog>, errors: &ErrorLog) {
    if let Some(log) = log
        && let Err(error) = log.reopen()
    {
        errors.error(&format!(
            "cannot open the access log {} again: {error}; Rudy still writes to the file that was open",
            log.destination()
        ));
    }
}

/// What is in `these` and not in `others`.
fn missing_in(others: &[Address], these: &[Address]) -> Vec<Address> {
    these.iter().filter(|address| !others.contains(address)).cloned().collect()
}

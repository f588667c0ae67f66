//! SIGHUP: another configuration takes over whole, or the old one stays whole.

use rudy_net::listen::{Address, ListenError, Listener, Owner};

use super::exit::Failure;
use super::server::{Server, build, open_access_log};
use super::service_manager::State;
use super::{Source, announce};

impl Server {
    /// Reads the configuration again. Requests in progress are finished with what they began with.
    pub(super) fn reload(&mut self) {
        self.tell_service_manager(State::Reloading);
        if let Err(failure) = self.try_reload() {
            let message = format!("SIGHUP: {}; the configuration stays as it was", failure.summary());
            match failure {
                Failure::Config(diagnostics) => self.errors.error_with(&message, &diagnostics.render(false)),
                _ => self.errors.error(&message),
            }
            // The old log is opened anew all the same: whoever renamed it waits for that.
            self.reopen_access_log();
        }
        self.tell_service_manager(State::Ready);
    }

    /// Everything that can fail comes first, the listeners last of it, because they are felt outside. What was made until then
    /// ends when it is dropped: the log, and the application processes that only the new configuration has.
    fn try_reload(&mut self) -> Result<(), Failure> {
        let mut config = self.options.config()?;
        let engine_changes = config.go_on_with(self.config.engine).map_err(Failure::Config)?;
        let same_log = config.access_log == self.config.access_log;
        let access_log =
            if same_log { self.access_log.clone() } else { open_access_log(&config, &self.errors)? };
        let access = access_log.as_ref();
        let app = build(&config, access, &self.errors, &self.vitals, &self.topics, &self.folders)?;
        app.start_apps(&self.apps, &self.errors).map_err(Failure::cannot("start an app"))?;
        let new = missing_in(&self.config.listen, &config.listen);
        let gone = missing_in(&config.listen, &self.config.listen);
        self.listen_in_place_of(&gone, &new)?;

        self.generations.replace(app);
        self.engine.source_changed();
        self.access_log = access_log;
        self.config = config;
        self.unlisten(&gone);
        if same_log {
            self.reopen_access_log();
        }
        self.tell_notices();
        if engine_changes {
            self.errors.notice("`engine`, `cores` and `threads` change with the next start");
        }
        self.errors.notice(match self.options.source {
            Source::Folder { .. } => "SIGHUP: there is no configuration to read; the logs were opened anew",
            Source::File(_) => "SIGHUP: the configuration was read again and holds from the next request on",
        });
        Ok(())
    }

    /// Listens on `new`, all of it or nothing. What can be bound beside `gone` is bound first, so that an address that another
    /// program has is found before `gone` is given up. If need be `gone` is closed then: nobody can have `:80` while we have
    /// `127.0.0.1:80`. If that does not help either, `gone` is bound again.
    fn listen_in_place_of(&self, gone: &[Address], new: &[Address]) -> Result<(), Failure> {
        let (mut bound, mut behind) = (Vec::new(), Vec::new());
        for address in new {
            match self.bind(std::slice::from_ref(address)) {
                Ok(listeners) => bound.extend(listeners),
                Err(Failure::Listen(ListenError::InUse { owner: Owner::Ourselves, .. }))
                    if !gone.is_empty() =>
                {
                    behind.push(address.clone());
                }
                Err(failure) => return Err(failure),
            }
        }
        if behind.is_empty() {
            return self.listen(bound);
        }
        self.unlisten(gone);
        let listening = self.bind(&behind).and_then(|listeners| {
            bound.extend(listeners);
            self.listen(bound)
        });
        if listening.is_err()
            && let Err(failure) = self.bind(gone).and_then(|listeners| self.listen(listeners))
        {
            self.errors.error(&failure.summary());
        }
        listening
    }

    /// Accepts from all of them, or from none.
    fn listen(&self, listeners: Vec<Listener>) -> Result<(), Failure> {
        let mut listening: Vec<(Address, String)> = Vec::new();
        for listener in listeners {
            let shown: Vec<_> = listener.bound().iter().map(announce::url).collect();
            let (address, shown) = (listener.address().clone(), shown.join(", "));
            if let Err(error) = self.engine.listen(listener) {
                let accepted: Vec<_> = listening.into_iter().map(|(address, _)| address).collect();
                self.unlisten(&accepted);
                return Err(Failure::cannot(&format!("accept on {shown}"))(error));
            }
            listening.push((address, shown));
        }
        for (_, shown) in &listening {
            self.errors.notice(&format!("listens on {shown}"));
        }
        Ok(())
    }

    fn unlisten(&self, addresses: &[Address]) {
        for address in addresses {
            if self.runtime.block_on(self.engine.unlisten(address)) {
                self.errors.notice(&format!("listens no longer on {address}"));
            }
        }
    }

    pub(super) fn reopen_access_log(&self) {
        if let Some(log) = &self.access_log
            && let Err(error) = log.reopen()
        {
            self.errors.error(&format!(
                "cannot open the access log {} anew: {error}; the file that was open is still written",
                log.destination()
            ));
        }
    }
}

/// What is in `these` and not in `others`.
fn missing_in(others: &[Address], these: &[Address]) -> Vec<Address> {
    these.iter().filter(|address| !others.contains(address)).cloned().collect()
}

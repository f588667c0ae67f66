//! SIGHUP: another configuration takes over whole, or the old one stays whole.

use rudy_net::listen::{Address, ListenError, Listener, Owner};

use super::exit::Failure;
use super::server::{Server, build, open_access_log};
use super::service_manager::State;
use super::{Source, announce};

impl Server {
    /// Reads the configuration again. Connections under way live on with what they began with.
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

    fn try_reload(&mut self) -> Result<(), Failure> {
        let mut config = self.options.config()?;
        let engine_changes = config.go_on_with(self.config.engine).map_err(Failure::Config)?;
        // Everything that may fail comes first; the listeners last of it, because they are felt outside.
        let same_log = config.access_log == self.config.access_log;
        let access_log =
            if same_log { self.access_log.clone() } else { open_access_log(&config, &self.errors)? };
        let access = access_log.as_ref();
        let app = build(&config, access, &self.errors, &self.vitals, &self.topics, &self.folders)?;
        let new = missing_in(&self.config.listen, &config.listen);
        let gone = missing_in(&config.listen, &self.config.listen);
        let listeners = self.bind_in_place_of(&gone, &new)?;

        app.start_apps(&self.apps, &self.errors).map_err(Failure::cannot("start an app"))?;
        self.generations.replace(app);
        self.access_log = access_log;
        self.config = config;
        self.listen(listeners);
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
            Source::File(_) => "SIGHUP: the configuration was read again and holds for new connections",
        });
        Ok(())
    }

    /// Binds `new`, if need be with `gone` out of the way: nobody can have `:80` while we have `127.0.0.1:80`. If that
    /// does not help either, `gone` is bound again.
    fn bind_in_place_of(&self, gone: &[Address], new: &[Address]) -> Result<Vec<Listener>, Failure> {
        match self.bind(new) {
            Err(Failure::Listen(ListenError::InUse { owner: Owner::Ourselves, .. })) if !gone.is_empty() => {}
            result => return result,
        }
        self.unlisten(gone);
        let result = self.bind(new);
        if result.is_err() {
            match self.bind(gone) {
                Ok(listeners) => self.listen(listeners),
                Err(failure) => self.errors.error(&failure.summary()),
            }
        }
        result
    }

    fn listen(&self, listeners: Vec<Listener>) {
        for listener in listeners {
            let shown: Vec<_> = listener.bound().iter().map(announce::url).collect();
            match self.engine.listen(listener) {
                Ok(()) => self.errors.notice(&format!("listens on {}", shown.join(", "))),
                Err(error) => self.errors.error(&format!("cannot accept on {}: {error}", shown.join(", "))),
            }
        }
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

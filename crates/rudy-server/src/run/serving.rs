//! What serves: a configuration in effect, its app and its engine. It knows no signals, no runtime and no process, so that a simulation
//! starts and reloads it too.

use std::io;
use std::sync::Arc;

use rudy_caching::Cache;
use rudy_net::engine::{self, Engine, Report};
use rudy_net::listen::{InheritedSockets, ListenError, Listener, Owner};
use rudy_runtime::is_planted;
use rudy_service::ServiceSource as _;
use rudy_service::listen_address::Address;
use rudy_watch::access_log::AccessLogs;

use super::context::Context;
use super::current_app::CurrentApp;
use super::exit::Failure;
use super::{announce, memory};
use crate::App;
use crate::config::Config;

/// A configuration in effect.
pub(super) struct Serving {
    pub(super) config: Config,
    pub(super) context: Context,
    pub(super) access_logs: Option<AccessLogs>,
    pub(super) inherited: Arc<InheritedSockets>,
    pub(super) current_app: Arc<CurrentApp>,
    pub(super) engine: Box<dyn Engine>,
}

impl Serving {
    /// Builds the app of a configuration, opens `listeners`, calls `before_apps`, and starts applications and workers. Connections wait
    /// until [`Engine::listen`].
    pub(super) fn start(
        config: Config,
        context: Context,
        inherited: Arc<InheritedSockets>,
        listeners: &[Listener],
        options: &engine::Options,
        before_apps: impl FnOnce(&Context, &Arc<CurrentApp>),
    ) -> Result<Self, Failure> {
        context.errors.mask(config.placeholders());
        context.buffers.set(config.buffer.clone());
        context.prepare_renewals(&config)?;
        let access_logs = context.open_access_logs(&config)?;
        let app = memory::in_own_arena(|| context.build_app(&config, access_logs.as_ref()))?;
        let current_app = CurrentApp::new(app);
        // The certificates can be used. Connections wait while the applications start.
        listeners.iter().for_each(Listener::open);
        context.use_ticket_keys(&config);
        before_apps(&context, &current_app);
        let engine = || {
            context.start_apps(&current_app.current())?;
            start_engine(options, &current_app, &context)
        };
        // Wait until the started apps have ended, so that their socket folders are removed.
        let engine = engine().inspect_err(|_| context.apps.stop())?;
        Ok(Self { config, context, access_logs, inherited, current_app, engine })
    }

    /// Returns the logs of a configuration: the open ones, if they stay.
    pub(super) fn logs_for(&self, config: &Config) -> Result<Option<AccessLogs>, Failure> {
        if config.access_logs() == self.config.access_logs() {
            Ok(self.access_logs.clone())
        } else {
            self.context.open_access_logs(config)
        }
    }

    /// Switches to a configuration whose app is ready and has started, or changes nothing. The new addresses are bound first, because
    /// that may require closing an old listener, which clients notice. New listeners accept connections after the switch, so the old
    /// configuration never serves them. If accepting fails, the old configuration is restored.
    pub(super) async fn switch(
        &mut self,
        config: Config,
        app: App,
        access_logs: Option<AccessLogs>,
    ) -> Result<(), Failure> {
        let (old, new) = (self.config.addresses(), config.addresses());
        let kept: &[_] = if is_planted("an address that a reload closes") { &[] } else { &new };
        let removed = difference(kept, &old);
        let listeners = self.bind_replacing(&removed, &difference(&old, &new)).await?;
        self.replace_app(app, &config, listeners, &removed).await?;
        self.current_app.current().caches().for_each(Cache::take_effect);
        self.context.use_ticket_keys(&config);
        self.engine.source_changed();
        self.context.buffers.set(config.buffer.clone());
        self.context.errors.set_levels(config.error_log.levels.clone());
        self.access_logs = access_logs;
        self.config = config;
        self.context.tls.forget_unused();
        memory::return_unused();
        self.stop_listening(&removed).await;
        self.serve_http3();
        Ok(())
    }

    /// Says why an address that should have HTTP/3 does not have it.
    pub(super) fn report_http3(&self, listener: &Listener) {
        if let Some(error) = listener.http3_error() {
            self.context.errors.error(&no_http3(listener.address(), error));
        }
    }

    /// Serves HTTP/3 at the addresses that have it, and at no others.
    pub(super) fn serve_http3(&self) {
        for address in self.config.addresses() {
            if let Err(error) = self.engine.serve_http3(&address) {
                self.context.errors.error(&no_http3(&address, &error));
            }
        }
    }

    /// Replaces the app, and accepts connections on new listeners. When it returns, the old app is freed, unless requests use it: what only
    /// that app had can be forgotten, and its memory returned.
    async fn replace_app(
        &self,
        app: App,
        config: &Config,
        listeners: Vec<Listener>,
        removed: &[Address],
    ) -> Result<(), Failure> {
        let before = self.current_app.replace(Arc::new(app));
        if let Err(failure) = self.listen(config, listeners).await {
            self.current_app.replace(before);
            self.listen_again(removed).await;
            return Err(failure);
        }
        Ok(())
    }

    /// Binds all addresses, or none.
    pub(super) fn bind(&self, addresses: &[Address]) -> Result<Vec<Listener>, Failure> {
        addresses.iter().map(|address| self.bind_one(address).map_err(Failure::Listen)).collect()
    }

    fn bind_one(&self, address: &Address) -> Result<Listener, ListenError> {
        Listener::bind(address, self.engine.workers().len(), &self.inherited)
    }

    /// Binds all of `new`, or nothing. Addresses that do not conflict with `removed` are bound first, so that an address in use by
    /// another program is found before `removed` is closed. Rudy closes `removed` only if necessary: `:80` cannot be bound
    /// while `127.0.0.1:80` is. If binding still fails, Rudy listens on `removed` again.
    async fn bind_replacing(&self, removed: &[Address], new: &[Address]) -> Result<Vec<Listener>, Failure> {
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
            self.stop_listening(removed).await;
            match self.bind(&behind) {
                Ok(listeners) => bound.extend(listeners),
                Err(failure) => {
                    self.listen_again(removed).await;
                    return Err(failure);
                }
            }
        }
        Ok(bound)
    }

    /// Listens again on the addresses of `removed` that were already closed, after a failure.
    async fn listen_again(&self, removed: &[Address]) {
        let listening: Vec<_> = self.engine.listeners().into_iter().map(|(address, _)| address).collect();
        let closed = difference(&listening, removed);
        let listened = match self.bind(&closed) {
            Ok(listeners) => self.listen(&self.config, listeners).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = listened {
            self.context.errors.error(&failure.summary());
        }
    }

    /// Accepts connections on all listeners of a configuration, or on none.
    pub(super) async fn listen(&self, config: &Config, listeners: Vec<Listener>) -> Result<(), Failure> {
        let mut listening: Vec<(Address, String)> = Vec::new();
        for listener in listeners {
            let scheme = config.scheme_of(listener.address());
            let shown: Vec<_> = listener
                .bound()
                .iter()
                .map(|bound| announce::url(scheme, listener.address(), bound))
                .collect();
            let (address, shown) = (listener.address().clone(), shown.join(", "));
            self.report_http3(&listener);
            if let Err(error) = self.engine.listen(listener) {
                let accepted: Vec<_> = listening.into_iter().map(|(address, _)| address).collect();
                self.stop_listening(&accepted).await;
                return Err(Failure::cannot(&format!("accept on {shown}"))(error));
            }
            listening.push((address, shown));
        }
        for (_, shown) in &listening {
            self.context.errors.notice(&format!("listening on {shown}"));
        }
        Ok(())
    }

    async fn stop_listening(&self, addresses: &[Address]) {
        for address in addresses {
            if self.engine.stop_listening(address).await {
                self.context.errors.notice(&format!("stopped listening on {address}"));
            }
        }
    }
}

/// Starts the workers of an engine.
pub(super) fn start_engine(
    options: &engine::Options,
    current_app: &Arc<CurrentApp>,
    context: &Context,
) -> Result<Box<dyn Engine>, Failure> {
    let errors = context.errors.clone();
    let reporter = move |report: &Report| match report {
        Report::Started { .. } | Report::Ongoing { .. } => errors.error(&report.to_string()),
        Report::Resolved { .. } => errors.notice(&report.to_string()),
        Report::ConnectionPanicked => errors.bug(&report.to_string()),
    };
    let engine = engine::start(options, current_app.clone(), Arc::new(reporter))
        .map_err(Failure::cannot("start the worker threads"))?;
    context.metrics.set_engine(options.model, engine.workers().to_vec());
    Ok(engine)
}

/// Returns the addresses in `these` that are not in `others`.
fn difference(others: &[Address], these: &[Address]) -> Vec<Address> {
    these.iter().filter(|address| !others.contains(address)).cloned().collect()
}

/// Explains that an address has only the protocols over TCP.
fn no_http3(address: &Address, error: &io::Error) -> String {
    let port = address.endpoint.port().filter(|port| *port != 0);
    let port = port.map_or_else(|| "its UDP port".to_owned(), |port| format!("UDP port {port}"));
    format!("{address} has no HTTP/3, because {port} cannot be bound: {error}; clients use TCP")
}

//! A server without a process around it, for simulations: no signals, no admin socket, no user, one worker on the current thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rudy_acme::Exchange;
use rudy_admin::{PurgeRequest, Request, Response};
use rudy_net::listen::{InheritedSockets, Listener};
use rudy_net::network;
use rudy_service::ServiceSource as _;
use rudy_site_tls::acme::Renewals;
use tokio::task::AbortHandle;

use super::context::Context;
use super::exit::Failure;
use super::serving::Serving;
use crate::config::Config;

/// A running server on a [network](rudy_net::network) in memory.
pub struct SimulatedServer {
    serving: Serving,
    renewals: Renewals,
    /// Reads files that have changed. A reload does not change whether there are any.
    watching: Option<AbortHandle>,
}

/// What a start needs besides the configuration file.
#[derive(Debug)]
pub struct Surroundings {
    /// The sockets of a server that this one replaces.
    pub inherited: Vec<Listener>,
    /// The folder for certificates.
    pub state: PathBuf,
    /// What takes requests to the authority that signs them.
    pub authority: Arc<dyn Exchange>,
}

/// What a server still holds. All counts are zero when it has finished all requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Open connections of clients.
    pub connections: u64,
    /// Requests in progress at upstreams, and those that wait for one.
    pub upstream_requests: usize,
    /// Bytes of request bodies that connections of HTTP/2 store.
    pub stored_bytes: u64,
    /// Panics since the start.
    pub panics: u64,
}

impl SimulatedServer {
    /// Starts a server with a configuration file.
    ///
    /// # Errors
    ///
    /// Why it cannot start.
    ///
    /// # Panics
    ///
    /// The current thread is on the kernel's network.
    pub async fn start(file: &Path, surroundings: Surroundings) -> Result<Self, String> {
        assert!(network::current().is_some(), "a simulated server has a simulated network");
        let Surroundings { inherited, state, authority } = surroundings;
        let start = async {
            let config = load(file)?;
            let mut sockets = InheritedSockets::default();
            for listener in inherited {
                sockets.add_listener(listener);
            }
            let options = config.engine.for_start().with_known_cores();
            let context = Context::new(&config.error_log, options.worker_count(), Some(state))
                .map_err(|error| Failure::Cannot(error.to_string()))?;
            let bind = |address| Listener::bind_closed(address, 1, &sockets).map_err(Failure::Listen);
            let listeners = config.addresses().iter().map(bind).collect::<Result<Vec<_>, _>>()?;
            let serving =
                Serving::start(config, context, Arc::new(sockets), &listeners, &options, |_, _| {})?;
            serving.listen(&serving.config, listeners).await?;
            let mut renewals = Renewals::over(authority);
            serving.context.renew(&mut renewals, &serving.config);
            let watching = serving.context.watches_files(&serving.config).then(|| {
                let context = serving.context.clone();
                rudy_runtime::spawn(async move { context.watch_files(&mut None).await }).abort_handle()
            });
            Ok(Self { serving, renewals, watching })
        };
        start.await.map_err(|failure| explain(&failure))
    }

    /// Reloads with a configuration file.
    ///
    /// # Errors
    ///
    /// Why the configuration is unchanged.
    pub async fn reload(&mut self, file: &Path) -> Result<(), String> {
        self.try_reload(file).await.map_err(|failure| explain(&failure))
    }

    async fn try_reload(&mut self, file: &Path) -> Result<(), Failure> {
        let config = load(file)?;
        let Self { serving, renewals, .. } = self;
        serving.context.prepare_renewals(&config)?;
        let logs = serving.logs_for(&config)?;
        let app = serving.context.build_app(&config, logs.as_ref())?;
        serving.context.start_apps(&app)?;
        serving.switch(config, app, logs).await?;
        serving.context.renew(renewals, &serving.config);
        Ok(())
    }

    /// Returns the listeners, for a server that replaces this one.
    ///
    /// # Errors
    ///
    /// They cannot be duplicated.
    pub fn share_listeners(&self) -> Result<Vec<Listener>, String> {
        self.serving.engine.share_listeners().map_err(|error| error.to_string())
    }

    /// Leaves the listeners to the server that has them too.
    pub async fn hand_over_listeners(&self) {
        self.watching.iter().for_each(AbortHandle::abort);
        self.serving.engine.hand_over_listeners(&[]).await;
    }

    /// Becomes the only owner of the listeners.
    pub fn take_ownership(&self) {
        self.serving.engine.take_ownership();
    }

    /// Serves HTTP/3 at the ports that the server that this one replaces has had until its end.
    pub fn serve_http3(&self) {
        self.serving.serve_http3();
    }

    /// Purges from the caches, as the admin socket does. Blocks.
    ///
    /// # Errors
    ///
    /// Why nothing is purged, or not everywhere.
    pub fn purge(&self, purge: PurgeRequest) -> Result<(), String> {
        match self.serving.context.respond(&Request::CachePurge(purge), &self.serving.current_app.current()) {
            Response::Error(why) => Err(why),
            _ => Ok(()),
        }
    }

    /// Stops: idle connections close, requests in progress have this time to finish. Returns how many connections were left.
    pub async fn stop(&self, grace: Duration) -> u64 {
        self.serving.engine.stop(grace).await.aborted
    }

    /// Returns what the server holds.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let workers = self.serving.engine.workers();
        let upstreams = self.serving.context.upstreams(&self.serving.current_app.current());
        Usage {
            connections: workers.iter().map(|worker| worker.connection_states().open).sum(),
            upstream_requests: upstreams.iter().map(|upstream| upstream.active).sum(),
            stored_bytes: rudy_net::http2_stored_bytes(),
            panics: workers.iter().map(|worker| worker.counters.panics.get()).sum(),
        }
    }
}

impl Drop for SimulatedServer {
    /// Ends the thread that writes the error log.
    fn drop(&mut self) {
        self.serving.context.errors.close();
    }
}

fn load(file: &Path) -> Result<Config, Failure> {
    Config::load(file).map_err(Failure::Config)
}

fn explain(failure: &Failure) -> String {
    match failure {
        Failure::Config(diagnostics) => diagnostics.render(false),
        failure => failure.summary(),
    }
}

//! The configuration of now, made ready to answer, and the one place where a new one takes over.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rudy_net::engine;

use crate::App;

/// Gives each new connection the application of now. The one before lives as long as its last connection.
pub(super) struct Generations(ArcSwap<App>);

impl Generations {
    pub(super) fn new(app: App) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(app)))
    }

    /// Connections accepted from now on get `app`.
    pub(super) fn replace(&self, app: App) {
        self.0.store(Arc::new(app));
    }
}

impl engine::Source for Generations {
    type Service = App;

    fn current(&self) -> Arc<App> {
        self.0.load_full()
    }
}

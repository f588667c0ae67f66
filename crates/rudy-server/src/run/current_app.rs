//! The configuration of now, made ready to answer, and the one place where a new one takes over.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use rudy_net::engine;

use crate::App;

/// Gives each request the application of now. The one before lives as long as a request that it still has to answer.
pub(super) struct CurrentApp(ArcSwap<App>);

impl CurrentApp {
    pub(super) fn new(app: App) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(app)))
    }

    /// Gives later requests on every connection to `app`; returns the application before it.
    pub(super) fn replace(&self, app: Arc<App>) -> Arc<App> {
        self.0.swap(app)
    }
}

impl engine::ServiceSource for CurrentApp {
    type Service = App;
    type Current = Current;

    fn current(&self) -> Current {
        // Not `load_full`: all cores would count in the same cache line for every request.
        Current(self.0.load())
    }
}

/// The application of now, for one request.
pub(super) struct Current(Guard<Arc<App>>);

impl Deref for Current {
    type Target = App;

    fn deref(&self) -> &App {
        &self.0
    }
}

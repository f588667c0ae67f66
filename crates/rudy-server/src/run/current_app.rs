//! The app of the current configuration, which a reload replaces.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use rudy_service::ServiceSource;

use crate::App;

/// Provides the current app for each request. An old one lives until its last request has finished.
pub(super) struct CurrentApp(ArcSwap<App>);

impl CurrentApp {
    pub(super) fn new(app: App) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(app)))
    }

    /// Replaces the app for later requests on all connections, and returns the old one.
    pub(super) fn replace(&self, app: Arc<App>) -> Arc<App> {
        self.0.swap(app)
    }
}

impl ServiceSource for CurrentApp {
    type Service = App;
    type Current = Current;

    fn current(&self) -> Current {
        // Not `load_full`, which would make all cores write to the same cache line for each request.
        Current(self.0.load())
    }
}

/// The current app, for one request.
pub(super) struct Current(Guard<Arc<App>>);

impl Deref for Current {
    type Target = App;

    fn deref(&self) -> &App {
        &self.0
    }
}

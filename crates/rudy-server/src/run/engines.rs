//! The end of an engine, and of those before it that still have connections.

use std::time::Duration;

use rudy_net::engine::{Engine, Stopped};

/// Stops an engine, and waits for those that have been stopped already.
pub(super) async fn stop_engines(
    engine: &dyn Engine,
    retired: &[Box<dyn Engine>],
    grace: Duration,
) -> Stopped {
    let mut stopped = engine.stop(grace).await;
    for engine in retired {
        stopped.aborted += engine.ended().await.aborted;
    }
    stopped
}

/// Cuts all connections.
pub(super) async fn cut_engines(engine: &dyn Engine, retired: &[Box<dyn Engine>]) -> Stopped {
    engine.stop_now();
    for engine in retired {
        engine.stop_now();
    }
    let mut stopped = engine.ended().await;
    for engine in retired {
        stopped.aborted += engine.ended().await.aborted;
    }
    stopped
}

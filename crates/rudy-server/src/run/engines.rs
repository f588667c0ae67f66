//! Stops an engine, and retired engines that still have connections.

use std::time::Duration;

use rudy_net::engine::{Engine, Stopped};

/// Stops an engine, and waits for the retired engines.
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

/// Closes all connections at once.
pub(super) async fn abort_engines(engine: &dyn Engine, retired: &[Box<dyn Engine>]) -> Stopped {
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

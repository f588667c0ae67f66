//! Stops an engine, and retired engines that still have connections.

use std::time::Duration;

use rudy_net::engine::{Engine, Stopped};

/// Stops an engine, and waits for the retired engines.
pub(super) async fn stop_engines(
    engine: &dyn Engine,
    retired: &[Box<dyn Engine>],
    grace: Duration,
) -> Stopped {
    with_retired(engine.stop(grace).await, retired).await
}

/// Finishes what another process does not do, as [`Engine::finish`] does, and waits for the retired engines.
pub(super) async fn finish_engines(
    engine: &dyn Engine,
    retired: &[Box<dyn Engine>],
    grace: Duration,
) -> Stopped {
    with_retired(engine.finish(grace).await, retired).await
}

/// Waits for the retired engines.
async fn with_retired(mut stopped: Stopped, retired: &[Box<dyn Engine>]) -> Stopped {
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
    with_retired(engine.ended().await, retired).await
}

//! `percore`, the default engine: one thread with its own runtime for each core. A connection stays on the
//! core that accepted it, so cores share no connection state.

use std::io;
use std::sync::Arc;

use rudy_quic::Keys;

use super::running::RunningEngine;
use super::spawner::Tasks;
use super::{Engine, Options, Reporter, ServiceSource, worker_runner};

pub(super) fn start<S: ServiceSource>(
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    let new_keys = || Keys::new().map_err(|_| io::Error::other("the system has no randomness"));
    let quic_keys = options.quic_keys.clone().map_or_else(new_keys, Ok)?;
    let spawner = Tasks { quic_keys: Some(quic_keys) };
    let engine = RunningEngine::start(options.core_count(), spawner, source, reporter, |runners| {
        let runners = runners.into_iter().enumerate();
        runners
            .map(|(index, (runner, commands))| {
                if rudy_runtime::current().is_some() {
                    return worker_runner::spawn_here(index, runner, commands);
                }
                // The connections end with the runtime.
                let (name, ended) = (format!("rudy-core-{index}"), std::future::ready(()));
                worker_runner::spawn_thread((name, index), runner, commands, ended)
            })
            .collect()
    })?;
    Ok(Box::new(engine))
}

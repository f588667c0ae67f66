//! `percore`, the default engine: for each core a thread with a runtime of its own. A connection stays on the core that
//! accepted it, so that nothing of it is ever shared with another.

use std::io;
use std::sync::Arc;

use super::running::RunningEngine;
use super::spawner::Tasks;
use super::{Engine, Options, Reporter, ServiceSource, worker_runner};

pub(super) fn start<S: ServiceSource>(
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    let engine = RunningEngine::start(options.core_count(), Tasks, source, reporter, |runners| {
        let runners = runners.into_iter().enumerate();
        runners
            .map(|(index, (runner, commands))| {
                // Its connections end with its runtime.
                worker_runner::spawn(format!("rudy-core-{index}"), runner, commands, std::future::ready(()))
            })
            .collect()
    })?;
    Ok(Box::new(engine))
}

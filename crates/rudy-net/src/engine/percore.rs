//! `percore`, the default engine: for each core a thread with a runtime of its own. A connection stays on the core that
//! accepted it, so that nothing of it is ever shared with another.

use std::io;
use std::sync::Arc;

use super::running::Running;
use super::spawner::Tasks;
use super::{Engine, Options, Reporter, ServiceSource, lane};

pub(super) fn start<S: ServiceSource>(
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    let engine = Running::start(options.core_count(), Tasks, source, reporter, |lanes| {
        let lanes = lanes.into_iter().enumerate();
        lanes
            .map(|(index, (lane, orders))| {
                // Its connections end with its runtime.
                lane::spawn(format!("rudy-core-{index}"), lane, orders, std::future::ready(()))
            })
            .collect()
    })?;
    Ok(Box::new(engine))
}

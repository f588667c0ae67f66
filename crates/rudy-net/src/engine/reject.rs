//! Rejects connections over a limit: sends 503, and closes so that the response arrives.

use std::sync::Arc;
use std::time::Duration;

use rudy_service::Limits;
use tokio::sync::Semaphore;

use crate::close::{CloseMode, LingerLimits, close};
use crate::transport::Stream;
use crate::unavailable::UNAVAILABLE;
use crate::wire::{Wire, close_at_once};

/// Maximum number of rejected connections that linger at the same time. Further ones close without lingering,
/// and a reset may destroy the response. Each costs a reserved descriptor and a task, so a flood must not
/// increase their number.
const LINGERING_MAX: usize = 128;

/// How long a rejected client may take to acknowledge the response, and then to close: two round trips around the world.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Rejects connections of all cores.
pub(super) struct Rejecter {
    lingering: Arc<Semaphore>,
}

impl Rejecter {
    pub(super) fn new() -> Self {
        Self { lingering: Arc::new(Semaphore::new(LINGERING_MAX)) }
    }

    /// Sends 503, and closes with lingering if few connections linger. Must be called on a tokio runtime.
    pub(super) fn reject(&self, io: impl Into<Stream>, limits: &Limits) {
        let io = io.into();
        let Ok(permit) = self.lingering.clone().try_acquire_owned() else {
            return Self::reject_at_once(io);
        };
        io.send_first(UNAVAILABLE);
        let linger = LingerLimits::from(limits);
        let linger = LingerLimits {
            time: linger.time.min(LINGER_TIMEOUT),
            send_stall_timeout: linger.send_stall_timeout.min(LINGER_TIMEOUT),
            ..linger
        };
        rudy_runtime::spawn(async move {
            close(io, CloseMode::Linger, linger).await;
            drop(permit);
        });
    }

    /// Sends 503 and closes without lingering, for lack of descriptors or tasks.
    pub(super) fn reject_at_once(io: impl Wire) {
        io.send_first(UNAVAILABLE);
        close_at_once(io, CloseMode::Linger);
    }
}

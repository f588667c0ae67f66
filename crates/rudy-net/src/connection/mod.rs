//! The driver: moves bytes between a socket and the protocol machine, and requests between the machine and a service.

use std::sync::Arc;

use crate::transport::Transport;
use crate::{Client, Service, Worker};

/// Serves one connection from its first byte to its close. Ends by itself; dropping it closes the socket hard.
pub(crate) async fn serve<T: Transport, S: Service>(
    io: T,
    client: Client,
    service: Arc<S>,
    worker: Arc<Worker>,
) {
    let _ = (io, client, service, worker);
}

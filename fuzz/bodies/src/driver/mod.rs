//! Connections of the driver with a toy service, over a transport in memory. The client side of the protocols is the oracle, or the pure
//! state machine of the server.

mod arbitrary;
mod bodies;
mod conforming;
mod exchange;
mod http1;
mod http2;
mod server;
mod service;
mod task;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::{Mutex, PoisonError};

/// One connection at a time: what all of them store is counted together.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a connection. The first byte is the kind of the client.
pub(crate) fn run(input: &[u8]) {
    let [kind, input @ ..] = input else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    match kind % 4 {
        0 => conforming::run::<http2::Http2>(input),
        1 => conforming::run::<http1::Http1>(input),
        2 => arbitrary::run_http1(input),
        _ => arbitrary::run_http2(input),
    }
}

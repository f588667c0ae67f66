//! Switches a connection to HTTP/2.

use rudy_http::h2::{PREFACE, ServerConnection};
use rudy_runtime::clock;
use rudy_service::{Service, ServiceSource};

use super::Http2;
use super::protocol::Protocol;
use crate::driver::State;
use crate::driver::connection::Connection;
use crate::driver::http1::Http1;
use crate::driver::output::Output;
use crate::driver::streams::Streams;
use crate::scratch::Scratch;
use crate::wire::Wire as _;

/// How much of the output the kernel takes before it is acknowledged. With more, urgent responses wait behind others; with less,
/// the kernel runs dry between two polls.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// The start of the preface that no request of HTTP/1.1 has: `PRI` is reserved (RFC 9113 §11.6).
const PREFACE_START_BYTES: usize = 4;

impl<S: ServiceSource> Connection<S> {
    /// Switches to HTTP/2. `unread` was received already.
    pub(in crate::driver) fn start_http2(&self, unread: &[u8]) -> State {
        self.io.limit_unsent(UNSENT_BYTES_MAX);
        let mut output = Output::default();
        let mut scratch = Scratch::borrow();
        let accepts_tunnels = self.context.source.current().accepts_tunnels();
        let limits = &self.info.limits.http;
        let machine = ServerConnection::new(clock::now(), accepts_tunnels, limits, &mut scratch.out);
        output.push(&mut scratch.out, Vec::new());
        let streams =
            Streams::new(Protocol { machine, output, frames: 1 }, self.context.worker.active.kills());
        let unread = unread.to_vec();
        State::Http2(Box::new(Http2 { streams, unread, half_closed: None, shutdown_due: None }))
    }
}

impl<S: ServiceSource> Http1<S> {
    /// Switches to HTTP/2 if the first bytes of the connection are its preface (RFC 9113 §3.3), and the listener accepts that.
    pub(in crate::driver) fn detect_http2(&self, bytes: &[u8]) -> Option<State> {
        if !self.connection.context.address.h2c || self.machine.requests() > 0 {
            return None;
        }
        let buffered = self.machine.buffered();
        // Only the start: a long head can arrive in thousands of packets.
        let start: Vec<_> = buffered.iter().chain(bytes).take(PREFACE.len()).copied().collect();
        (start.len() >= PREFACE_START_BYTES && PREFACE.starts_with(&start))
            .then(|| self.connection.start_http2(&[buffered, bytes].concat()))
    }
}

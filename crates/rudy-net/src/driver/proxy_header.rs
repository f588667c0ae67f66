//! Waits for a PROXY protocol header, at the start of a connection.

use std::io::IoSlice;
use std::task::{Context, Poll};
use std::time::Instant;

use rudy_runtime::clock;
use rudy_service::{Client, Limits, Peer, Service as _, ServiceSource};
use tokio::io::ReadBuf;

use super::record::report_closed;
use super::{Connection, State};
use crate::address_key::AddressKey;
use crate::close::CloseMode;
use crate::proxy_header::{ParseStatus, ProxiedClient, parse};
use crate::unavailable::UNAVAILABLE;

/// Counts a connection for an address. Returns `false` if the address has reached its limit.
pub(crate) type CountForAddress<'a> = dyn FnMut(&Limits, &Peer) -> bool + 'a;

/// A partial header. Boxed, and dropped when the header is complete, so that idle connections do not pay for
/// it.
pub(super) struct ProxyHeader {
    bytes: Vec<u8>,
    accepted: Instant,
    is_from_trusted: bool,
}

impl ProxyHeader {
    pub(super) fn new(is_from_trusted: bool) -> Self {
        Self { bytes: Vec::new(), accepted: clock::now(), is_from_trusted }
    }
}

impl<S: ServiceSource> Connection<S> {
    /// Reads the header, and nothing after it: later bytes belong to the handshake or the first request.
    pub(super) fn poll_proxy_header(
        &mut self,
        header: &mut ProxyHeader,
        cx: &mut Context<'_>,
        count: &mut CountForAddress<'_>,
    ) -> Poll<State> {
        if !header.is_from_trusted {
            let reason = "the peer is not in `trusted_proxies`, and the listener requires a PROXY protocol header (proxy_protocol)";
            return self.reject_without_response(reason, header.accepted);
        }
        loop {
            let needs = match parse(&header.bytes) {
                Ok(ParseStatus::Incomplete(needs)) => needs,
                Ok(ParseStatus::Complete(client)) => return self.begin_for(client, cx, count),
                Err(error) => return self.reject_without_response(&error.to_string(), header.accepted),
            };
            let had = header.bytes.len();
            header.bytes.resize(had + needs, 0);
            let mut buffer = ReadBuf::new(&mut header.bytes[had..]);
            let polled = self.io.poll_read(cx, &mut buffer);
            let read = buffer.filled().len();
            header.bytes.truncate(had + read);
            match polled {
                Poll::Pending => return self.wait_for_proxy_header(header, cx),
                Poll::Ready(Err(_)) => return Poll::Ready(State::Close(CloseMode::Reset)),
                // A port scan or a health check.
                Poll::Ready(Ok(())) if read == 0 && had == 0 => {
                    return Poll::Ready(State::Close(CloseMode::PeerClosed));
                }
                Poll::Ready(Ok(())) if read == 0 => {
                    let reason = "the connection ended in its PROXY protocol header";
                    return self.reject_without_response(reason, header.accepted);
                }
                Poll::Ready(Ok(())) => self.context.worker.counters.received_bytes.add(read as u64),
            }
        }
    }

    fn wait_for_proxy_header(&mut self, header: &ProxyHeader, cx: &mut Context<'_>) -> Poll<State> {
        let deadline = header.accepted + self.info.limits.proxy_header_timeout;
        if deadline <= clock::now() && !header.bytes.is_empty() {
            let reason = "timed out waiting for the PROXY protocol header";
            return self.reject_without_response(reason, header.accepted);
        }
        if deadline <= clock::now() || self.context.worker.is_stopping() {
            return Poll::Ready(State::Close(CloseMode::NoLinger));
        }
        if self.timer.set_idle(Some(deadline), cx.waker()) {
            // The connection has been evicted.
            return Poll::Ready(State::Close(CloseMode::NoLinger));
        }
        Poll::Pending
    }

    /// Assigns the connection to the client in the header.
    fn begin_for(
        &mut self,
        client: ProxiedClient,
        cx: &mut Context<'_>,
        count: &mut CountForAddress<'_>,
    ) -> Poll<State> {
        let proxy = self.info.peer;
        match client {
            ProxiedClient::ProxyItself => return Poll::Ready(State::Handshake(None)),
            // A loopback address of another machine must not count as local here.
            ProxiedClient::Address(address) if proxy.is_local() || !address.ip().is_loopback() => {
                self.info.peer = Peer::Ip(address);
            }
            ProxiedClient::Address(_) | ProxiedClient::Unknown => {
                self.info.peer = Peer::Unnamed(proxy.ip());
                return Poll::Ready(State::Handshake(None));
            }
        }
        if self.timer.begin_request() {
            // The connection has been evicted.
            return Poll::Ready(State::Close(CloseMode::NoLinger));
        }
        self.timer = self.context.worker.timers.timer(Some(AddressKey::from(&self.info.peer)));
        if !count(&self.info.limits, &self.info.peer) {
            if !self.context.source.current().speaks_http(&self.context.address) {
                return Poll::Ready(State::Close(CloseMode::NoLinger));
            }
            // Best effort: the send buffer of a new connection is empty, so either the kernel accepts the whole
            // response or the peer is gone.
            let _ = self.io.poll_write(cx, &[IoSlice::new(UNAVAILABLE)], false);
            return Poll::Ready(State::Close(CloseMode::Linger));
        }
        Poll::Ready(State::Handshake(None))
    }

    /// Closes without a response, because the protocol of the peer is unknown.
    fn reject_without_response(&mut self, reason: &str, accepted: Instant) -> Poll<State> {
        self.context.worker.counters.rejected.add(1);
        let client = Client::new(self.info.peer, self.info.number, 0);
        report_closed(&*self.load_service(), &client, reason, accepted);
        Poll::Ready(State::Close(CloseMode::NoLinger))
    }
}

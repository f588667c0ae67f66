//! A connection that goes to an upstream, and the report about it.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use rudy_client::{Checkout, Selection, Wanted};
use rudy_pipeline::network::client_subject;
use rudy_runtime::clock;
use rudy_service::{EndReason, ExchangeOutcome, Observer, Peer, Upgrade, Upgraded, poll_time};
use rudy_units::duration;

use super::super::Shared;
use super::super::connection::Connection;
use super::super::exchange::Switched;
use super::super::failure::{Cause, Failure};
use super::super::tunnel::{Tunnel, TunnelEnd, TunnelLimits};

/// A connection of a client that may connect.
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) limits: TunnelLimits,
    /// The address of the client.
    pub(super) client: Peer,
    /// The PROXY protocol header for the upstream.
    pub(super) preamble: Option<Arc<[u8]>>,
    pub(super) report: Report,
}

/// Returns what resets the connection of a client that may not connect.
pub(super) fn reject(mut report: Report) -> Upgrade {
    report.status = StatusCode::FORBIDDEN;
    Box::new(|mut client| {
        client.io.abort();
        report.end_reason = EndReason::Aborted;
        Box::pin(async move { drop((client, report)) })
    })
}

impl Session {
    /// Connects to an upstream, and passes bytes until the connection ends.
    pub(super) async fn run(mut self, mut client: Upgraded) {
        let mut checkout = match Box::pin(self.connect()).await {
            Ok(checkout) => checkout,
            Err(failure) => {
                self.fail(&failure);
                return client.io.abort();
            }
        };
        checkout.mark_accepted();
        checkout.record_success();
        checkout.begin_tunnel();
        self.report.connected = Some(poll_time());
        self.report.status = StatusCode::OK;
        let switched = Switched { checkout, received: Bytes::new(), has_ended: false };
        let mut tunnel = Tunnel::new(client, switched, self.limits);
        let end = poll_fn(|cx| {
            let polled = tunnel.poll(cx);
            self.report.progress(&tunnel);
            polled
        });
        let end = end.await;
        self.finish(&mut tunnel, &end);
    }

    async fn connect(&self) -> Result<Checkout<Connection>, Failure> {
        let Self { shared, preamble, report, .. } = self;
        let pool = shared.pool().map_err(Cause::from)?;
        let mut selection = Selection {
            key: shared.table.choice.key_of_client(self.client),
            is_exclusive: true,
            preamble: preamble.clone(),
            ..Selection::from(Wanted::New)
        };
        let observer = Some(&report.observer);
        Ok(pool.upstream.checkout(&mut selection, observer, || pool.check_members()).await?)
    }

    /// Notes why there is no connection to an upstream.
    fn fail(&mut self, failure: &Failure) {
        self.report.status = failure.response(&HeaderMap::new()).status();
        self.report.end_reason = EndReason::Aborted;
        if let Some(log) = self.shared.log.get() {
            let upstream = &self.shared.name;
            let line = format!("{upstream}: a connection from {}: {failure}", self.client);
            log.recurring_error((&*failure.kind(), &**upstream), &line);
        }
    }

    /// Notes why the connection ends. An end that is lost may have missed something, so the other one gets no orderly end.
    fn finish(&mut self, tunnel: &mut Tunnel, end: &TunnelEnd) {
        self.report.end_reason = match end {
            TunnelEnd::Complete => EndReason::Completed,
            TunnelEnd::ClientLost => EndReason::PeerGone,
            TunnelEnd::Idle(_) => EndReason::PeerStalled,
            TunnelEnd::UpstreamLost(_) | TunnelEnd::Lifetime(_) => EndReason::Aborted,
            TunnelEnd::Stopped => EndReason::ServerStopped,
        };
        if matches!(end, TunnelEnd::ClientLost | TunnelEnd::UpstreamLost(_)) {
            tunnel.abort();
        }
        let Some(log) = self.shared.log.get() else { return };
        let (upstream, client) = (&self.shared.name, self.client);
        let because = |kind: &str, why: &str| {
            log.client(
                (kind, &*client_subject(client)),
                &format!("{upstream}: the connection from {client} ended: {why}"),
            );
        };
        match end {
            TunnelEnd::UpstreamLost(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                let line =
                    format!("{upstream}: the connection from {client} ended: the upstream is lost: {error}");
                log.recurring_error(("a connection to an upstream is lost", &**upstream), &line);
            }
            TunnelEnd::Idle(time) => {
                because("no data", &format!("no data for {} (`idle_timeout`)", duration(*time)));
            }
            TunnelEnd::Lifetime(time) => {
                because("lifetime", &format!("it was open for {} (`lifetime`)", duration(*time)));
            }
            _ => {}
        }
    }
}

/// What is known of a connection for logs and metrics, which get it when this is dropped.
pub(super) struct Report {
    pub(super) observer: Arc<dyn Observer>,
    /// When the connection was taken.
    since: Instant,
    /// When it was connected to the upstream.
    connected: Option<Instant>,
    /// In the words of HTTP, as the logs of nginx have it.
    status: StatusCode,
    to_upstream_bytes: u64,
    to_client_bytes: u64,
    end_reason: EndReason,
}

impl Report {
    pub(super) fn new(observer: Arc<dyn Observer>, since: Instant) -> Self {
        Self {
            observer,
            since,
            connected: None,
            status: StatusCode::BAD_GATEWAY,
            to_upstream_bytes: 0,
            to_client_bytes: 0,
            // If the connection is dropped before its end.
            end_reason: EndReason::ServerStopped,
        }
    }

    fn progress(&mut self, tunnel: &Tunnel) {
        (self.to_upstream_bytes, self.to_client_bytes) = tunnel.moved_bytes();
        // What drops the connection is the operator, unless the server stops.
        self.end_reason = if tunnel.is_stopping() { EndReason::ServerStopped } else { EndReason::Killed };
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.observer.body_received(self.to_upstream_bytes);
        let duration = clock::since(self.since);
        self.observer.finished(&ExchangeOutcome {
            status: Some(self.status),
            body_bytes: self.to_client_bytes,
            sent_bytes: self.to_client_bytes,
            request_framing_bytes: 0,
            wait: self
                .connected
                .map_or(duration, |connected| connected.saturating_duration_since(self.since)),
            duration,
            end_reason: self.end_reason,
        });
    }
}

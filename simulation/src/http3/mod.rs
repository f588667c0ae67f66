//! A client that speaks HTTP/3, with several requests at a time. QUIC is another side of the server's library; frames and field sections
//! are the world's own.

mod attacker;
mod carrier;
mod connection;
mod control;
mod exchange;
mod wire;

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use rudy_quic::quinn_proto::ConnectionError;
use tokio::time::{Instant, timeout};

pub(crate) use self::attacker::Http3Attacker;
use self::carrier::Carrier;
use self::connection::{Connection, End, STAY_TIME, Use};
use self::exchange::{Behaviour, Exchange, Failure, State};
use crate::client::{Client, PATIENCE};
use crate::judge::Kind;
use crate::request::Request;

/// A client over HTTP/3.
pub(crate) struct Http3Client(pub(crate) Client);

/// The share of lost datagrams with which a cancellation arrives in time, of 1,000.
const MOST_LOST: u32 = 50;

impl Http3Client {
    /// Sends all requests.
    pub(crate) async fn run(mut self) {
        let mut sent = 0;
        while sent < self.0.requests {
            self.0.pause().await;
            let count = (self.0.requests - sent).min(self.0.random.u32(1..8));
            let first = self.0.first_id + u64::from(sent);
            sent += count;
            let ids = first..first + u64::from(count);
            if timeout(PATIENCE, self.connection(ids)).await.is_err() {
                let fault = format!("the requests from {first} on have no end within {PATIENCE:?}");
                self.0.judge.fault(fault);
            }
        }
    }

    /// Sends requests on a connection.
    async fn connection(&mut self, ids: Range<u64>) {
        let how = self.choose_use();
        self.0.trace.tell(&format!("{}: connection for requests {ids:?}, {how:?}", self.0.name));
        let transport = carrier::transport(&mut self.0.random);
        let carrier = Carrier::new(&mut self.0, transport);
        let mut exchanges: Vec<_> =
            ids.map(|id| self.exchange(id, matches!(how, Use::Follows | Use::Stays))).collect();
        let concerns_all = |exchange: &Exchange| {
            matches!(exchange.behaviour, Behaviour::ReadsLate(_) | Behaviour::EndsInHead)
        };
        if exchanges.iter().any(concerns_all) {
            // What it does not read takes the window of the connection from the others, and a half frame is an error of the connection.
            for exchange in &mut exchanges {
                exchange.follows_since = None;
            }
        }
        let rebind = self.change_path(&carrier, &mut exchanges);
        let mut connection = Connection::new(carrier, exchanges, how, rebind);
        let end = connection.run().await;
        self.judge_connection(&connection, &end);
        match end {
            End::Done => connection.carrier.close(wire::NO_ERROR).await,
            End::ByClient if matches!(how, Use::Closes(_)) => {
                self.cancel_rest(&connection.exchanges);
                connection.carrier.close(wire::REQUEST_CANCELLED).await;
            }
            _ => {}
        }
    }
}

/// The choices of chance.
impl Http3Client {
    fn misbehaves(&mut self) -> bool {
        let does = self.0.random.u32(..1000) < self.0.faults_per_mille;
        if does {
            self.0.judge.count(|counts| counts.disturbances += 1);
        }
        does
    }

    fn choose_use(&mut self) -> Use {
        if !self.misbehaves() {
            return if self.0.random.u32(..8) == 0 { Use::Stays } else { Use::Follows };
        }
        self.0.judge.happens(Kind::Reset);
        let after = Duration::from_micros(self.0.random.u64(..500_000));
        match self.0.random.u32(..3) {
            0 => Use::Closes(after),
            1 => Use::Leaves(after),
            _ => Use::Sleeps(after, Duration::from_millis(self.0.random.u64(..60_000))),
        }
    }

    /// Lets the network lose everything for a time. Returns the address that the client gets, and how long after the handshake.
    fn change_path(
        &mut self,
        carrier: &Carrier,
        exchanges: &mut [Exchange],
    ) -> Option<(Duration, SocketAddr)> {
        let (network, random) = (self.0.network, &mut self.0.random);
        if network.happens(network.conditions.broken_per_mille) {
            let [from, length] = [2_000, 20_000].map(|most| Duration::from_millis(random.u64(..most)));
            carrier.socket.darken(from, length);
            // After 20 s, QUIC may try again 20 s later: too late for the body of a request (408).
            for upload in exchanges.iter_mut().filter(|exchange| exchange.request.body_length() > 0) {
                upload.follows_since = None;
            }
        }
        let mut address = self.0.address;
        address.set_port(address.port() + 10_000);
        let changes = network.happens(network.conditions.datagrams.rebound_per_mille);
        changes.then(|| (Duration::from_micros(random.u64(..500_000)), address))
    }

    fn exchange(&mut self, id: u64, follows: bool) -> Exchange {
        let misbehaves = self.misbehaves();
        let random = &mut self.0.random;
        let behaviour = match random.u32(..4) {
            _ if !misbehaves => Behaviour::Follows,
            0 => Behaviour::UploadsSlowly(Duration::from_millis(random.u64(1..4_000))),
            1 => Behaviour::ReadsLate(Duration::from_millis(random.u64(1..50_000))),
            2 => Behaviour::EndsInHead,
            _ => Behaviour::Cancels(Duration::from_micros(random.u64(..500_000)), random.bool()),
        };
        let request = Request::random(random, id);
        let (part, delay) = (random.usize(1..20_000), Duration::from_micros(random.u64(..100_000)));
        self.0.trace.tell(&format!("{}: {request}, {behaviour:?}", self.0.name));
        self.0.judge.begins(id, request.is_repeatable());
        if !follows || matches!(behaviour, Behaviour::UploadsSlowly(_) | Behaviour::ReadsLate(_)) {
            self.0.judge.occupies(request.route);
        }
        let now = Instant::now();
        Exchange {
            request,
            behaviour,
            follows_since: (follows && behaviour == Behaviour::Follows).then_some(now),
            is_carried: follows && self.0.network.conditions.datagrams.lost_per_mille <= MOST_LOST,
            part,
            begin: now + delay,
            judge: self.0.judge.clone(),
            state: State::default(),
        }
    }
}

/// What the judge hears.
impl Http3Client {
    /// The client has ended its connection.
    fn cancel_rest(&self, exchanges: &[Exchange]) {
        if self.0.network.conditions.datagrams.lost_per_mille == 0 {
            let open = exchanges.iter().filter(|exchange| exchange.result().is_none());
            open.for_each(|exchange| self.0.judge.cancels(exchange.request.id));
        }
    }

    fn judge_connection(&self, connection: &Connection, end: &End) {
        match end {
            End::Lost(lost) => {
                self.0.trace.tell(&format!("{}: connection: {lost}", self.0.name));
                if is_about_certificate(lost) {
                    self.0.judge.check_certificate(connection.begin, lost);
                }
            }
            End::Nonsense(why) => self.0.judge.fault(format!("{}: {why}", self.0.name)),
            End::Idle => {
                self.0.judge.fault(format!("{}: a connection is idle for {STAY_TIME:?}", self.0.name));
            }
            End::Done | End::ByClient | End::Announced => {}
        }
        for exchange in &connection.exchanges {
            self.judge(exchange, end, connection.carrier.is_connected);
        }
    }

    /// Judges how an exchange has ended. One whose connection was never there is excused while the server has no HTTP/3.
    fn judge(&self, exchange: &Exchange, end: &End, is_connected: bool) {
        let (judge, id) = (&self.0.judge, exchange.request.id);
        if let Some(Ok(status)) = exchange.result() {
            judge.tell(&format!("{}: request {id} got {status}", self.0.name));
            judge.count(|counts| {
                counts.responses += 1;
                counts.errors += u64::from(status >= 500);
            });
            return;
        }
        judge.count(|counts| counts.broken += 1);
        let closed_without_error = |lost: &ConnectionError| matches!(lost, ConnectionError::ApplicationClosed(close) if close.error_code.into_inner() == wire::NO_ERROR);
        let is_refused = match (exchange.result(), end) {
            (Some(Err(Failure::Reset(code))), _) => code == wire::REQUEST_REJECTED,
            (None, End::Lost(lost)) => closed_without_error(lost) && !exchange.has_head(),
            (None, End::Announced) => true,
            _ => false,
        };
        if is_refused {
            return judge.refused(id);
        }
        let Some(begin) = exchange.follows_since else { return };
        let is_certificate = matches!(end, End::Lost(lost) if is_about_certificate(lost));
        let has_no_http3 = !is_connected && judge.is_without_http3(begin);
        if !is_certificate && !has_no_http3 && !judge.is_excused(begin, Some(exchange.request.route)) {
            let why = match end {
                End::Lost(lost) => lost.to_string(),
                _ => format!("{:?}", exchange.result()),
            };
            judge.fault(format!("request {id} has no response: {why}"));
        }
    }
}

/// Whether a handshake has failed because of the certificate, by the alert (RFC 9001 §4.8).
fn is_about_certificate(lost: &ConnectionError) -> bool {
    let code = match lost {
        ConnectionError::TransportError(error) => u64::from(error.code),
        ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
        _ => return false,
    };
    (0x100..0x200).contains(&code)
}

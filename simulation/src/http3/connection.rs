//! A connection with its requests, as its client uses it.

use std::net::SocketAddr;
use std::time::Duration;

use rudy_quic::quinn_proto::ConnectionError;
use tokio::time::{Instant, sleep};

use super::carrier::Carrier;
use super::control::Control;
use super::exchange::Exchange;

/// More than the time that a connection may be idle.
pub(super) const STAY_TIME: Duration = Duration::from_secs(90);

/// How it uses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Follows,
    /// It ends the connection after this time.
    Closes(Duration),
    /// It is gone after this time.
    Leaves(Duration),
    /// After a time, it neither receives nor sends for the second one.
    Sleeps(Duration, Duration),
    /// It sends no more requests, and waits until the server ends the connection.
    Stays,
}

/// How a connection has ended.
pub(super) enum End {
    /// All requests are done.
    Done,
    /// The client has ended it.
    ByClient,
    /// It is lost, or the server has ended it.
    Lost(ConnectionError),
    /// The server takes no more requests.
    Announced,
    /// The server has sent something that it must not send.
    Nonsense(String),
    /// The server does not end an idle connection.
    Idle,
}

/// A connection.
pub(super) struct Connection {
    pub(super) carrier: Carrier,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) begin: Instant,
    control: Control,
    how: Use,
    has_slept: bool,
    /// The address that the client gets, and when: at first, how long after the handshake.
    rebind: Option<(Duration, SocketAddr)>,
    rebind_due: Option<Instant>,
    idle_since: Option<Instant>,
}

impl Connection {
    pub(super) fn new(
        carrier: Carrier,
        exchanges: Vec<Exchange>,
        how: Use,
        rebind: Option<(Duration, SocketAddr)>,
    ) -> Self {
        let (begin, control) = (Instant::now(), Control::default());
        Self {
            carrier,
            exchanges,
            begin,
            control,
            how,
            has_slept: false,
            rebind,
            rebind_due: None,
            idle_since: None,
        }
    }

    /// Moves datagrams and requests until the connection has ended.
    pub(super) async fn run(&mut self) -> End {
        loop {
            if self.misbehave().await {
                return End::ByClient;
            }
            self.carrier.receive();
            self.control.open(&mut self.carrier);
            if let Err(why) = self.control.read(&mut self.carrier) {
                return End::Nonsense(why);
            }
            self.change_address();
            for exchange in &mut self.exchanges {
                exchange.proceed(&mut self.carrier, self.control.go_away.is_some());
            }
            self.carrier.transmit();
            if let Some(end) = self.end() {
                return end;
            }
            self.carrier.wait(self.due()).await;
        }
    }

    /// When the client sleeps or goes.
    fn goes_at(&self) -> Option<Instant> {
        match self.how {
            Use::Closes(after) | Use::Leaves(after) => Some(self.begin + after),
            Use::Sleeps(after, _) if !self.has_slept => Some(self.begin + after),
            Use::Sleeps(..) | Use::Follows | Use::Stays => None,
        }
    }

    /// Returns whether the client is gone.
    async fn misbehave(&mut self) -> bool {
        if self.goes_at().is_none_or(|at| at > Instant::now()) {
            return false;
        }
        let Use::Sleeps(_, time) = self.how else { return true };
        self.has_slept = true;
        sleep(time).await;
        false
    }

    /// Changes the address of the client, once both sides know that the handshake is complete: before, it is not possible (RFC 9000 §9).
    fn change_address(&mut self) {
        let Some((after, address)) = self.rebind else { return };
        let now = Instant::now();
        match self.rebind_due {
            None if self.control.has_settings => self.rebind_due = Some(now + after),
            Some(due) if due <= now => {
                self.carrier.socket.rebind(address);
                (self.rebind, self.rebind_due) = (None, None);
            }
            _ => {}
        }
    }

    fn end(&mut self) -> Option<End> {
        if let Some(lost) = self.carrier.lost.take() {
            return Some(End::Lost(lost));
        }
        let is_waiting = |exchange: &Exchange| exchange.result().is_none() && exchange.has_begun();
        let is_done = self.exchanges.iter().all(|exchange| exchange.result().is_some());
        let has_go_away = self.control.go_away.is_some() && !self.exchanges.iter().any(is_waiting);
        // What was not sent needs another connection at once: the end of this one may get lost.
        if self.how != Use::Stays || !is_done {
            return is_done.then_some(End::Done).or(has_go_away.then_some(End::Announced));
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        (since.elapsed() > STAY_TIME).then_some(End::Idle)
    }

    /// Returns when it goes on, unless something arrives before.
    fn due(&self) -> Option<Instant> {
        let dues =
            self.exchanges.iter().filter_map(Exchange::due).chain(self.goes_at()).chain(self.rebind_due);
        // What waits for the handshake is due already.
        dues.filter(|due| *due > Instant::now()).min()
    }
}

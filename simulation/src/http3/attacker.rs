//! A client that attacks the server over QUIC.

use std::time::Duration;

use rudy_quic::quinn_proto::{ConnectionError, Dir, StreamId, Transmit, VarInt};
use rudy_quic::streams;
use tokio::time::{Instant, sleep, timeout};

use super::carrier::{self, Carrier};
use super::control::Control;
use super::wire;
use crate::client::{Client, PATIENCE};
use crate::request::Route;
use crate::tls::SITE;

/// More frames than the server takes from one client: its limits are 500 and 1,000, and a tenth recovers each second.
const FLOOD: u32 = 20_000;

/// How many of them are sent before something is received.
const BURST: u32 = 50;

/// The pause between bursts, so that a flood goes on if nothing arrives.
const PAUSE: Duration = Duration::from_millis(5);

/// The time in which the server ends a connection for a violation, also if the network loses much.
const VIOLATION_TIME: Duration = Duration::from_secs(20);

/// A malicious client.
pub(crate) struct Http3Attacker(pub(crate) Client);

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    /// Datagrams of random bytes.
    Garbage,
    /// It sends its first packets, and nothing more.
    HalfHandshake,
    /// It cancels each request at once.
    RapidReset,
    /// Frames without purpose on the stream of a request, or on the control stream.
    Frames(bool),
    /// Bytes of a body, each in a packet of its own.
    TinyData,
    /// It opens no window for the responses.
    ZeroWindow,
    /// It receives nothing, and acknowledges nothing.
    Deaf,
    /// It begins many requests with bodies, and ends none.
    Hoard,
    /// It sends nothing after the handshake.
    Silence,
    /// Random bytes on streams.
    Noise,
    /// Something that must end the connection.
    Violation(usize),
}

/// What must end a connection: the type of its stream in one direction, or none for that of a request, with its bytes (RFC 9114 §7, §8;
/// RFC 9204 §6), and whether the stream ends.
const VIOLATIONS: [(Option<u8>, &[u8], bool); 9] = [
    // Data before a head, a frame of HTTP/2, SETTINGS, and a section with an entry that is not in the table.
    (None, &[0, 1, b'a'], false),
    (None, &[6, 0], false),
    (None, &[4, 0], false),
    (None, &[1, 3, 0, 0, 0x80], false),
    // A head that ends with its stream.
    (None, &[1, 9, 0, 0], true),
    // A second control stream, one for pushes, a table that is too large, and feedback about a section that was not sent.
    (Some(0), &[4, 0], false),
    (Some(1), &[0], false),
    (Some(2), &[0x3f, 0xff, 0xff, 0x7f], false),
    (Some(3), &[0x80], false),
];

impl Attack {
    fn random(random: &mut fastrand::Rng) -> Self {
        match random.u32(..14) {
            0 => Self::Garbage,
            1 => Self::HalfHandshake,
            2 => Self::RapidReset,
            3 => Self::Frames(random.bool()),
            4 => Self::TinyData,
            5 => Self::ZeroWindow,
            6 => Self::Deaf,
            7 => Self::Hoard,
            8 => Self::Silence,
            9 => Self::Noise,
            _ => Self::Violation(random.usize(..VIOLATIONS.len())),
        }
    }

    /// Returns whether it goes on until the server has had enough.
    fn is_flood(self) -> bool {
        matches!(self, Self::RapidReset | Self::Frames(_) | Self::TinyData)
    }
}

impl Http3Attacker {
    /// Attacks once.
    pub(crate) async fn run(mut self) {
        sleep(Duration::from_millis(self.0.random.u64(..2_000))).await;
        let attack = Attack::random(&mut self.0.random);
        let (name, judge) = (self.0.name.clone(), self.0.judge.clone());
        self.0.trace.tell(&format!("{name}: attacks with {attack:?}"));
        judge.begins(self.0.first_id, true);
        judge.count(|counts| counts.disturbances += 1);
        match attack {
            Attack::Hoard | Attack::TinyData => judge.occupies(Route::Http2),
            Attack::ZeroWindow | Attack::Deaf => judge.occupies(Route::Http1),
            _ => {}
        }
        let mut transport = carrier::transport(&mut self.0.random);
        if attack == Attack::ZeroWindow {
            transport.stream_receive_window(VarInt::from_u32(0));
        }
        let carrier = Carrier::new(&mut self.0, transport);
        let begin = Instant::now();
        let patience = if let Attack::Violation(_) = attack { VIOLATION_TIME } else { PATIENCE };
        let (control, streams) = (Control::default(), Vec::new());
        let run = Run { client: self.0, carrier, control, begin, sent: 0, streams };
        match timeout(patience, Box::pin(run.attack(attack))).await {
            Ok(Some(lost)) => judge.tell(&format!("{name}: the server has ended {attack:?}: {lost}")),
            Ok(None) => {}
            Err(_) if judge.is_excused(begin, None) || judge.is_without_http3(begin) => {}
            Err(_) => judge.fault(format!("{attack:?} has no end within {patience:?}")),
        }
    }
}

/// An attack on a connection.
struct Run {
    client: Client,
    carrier: Carrier,
    control: Control,
    begin: Instant,
    /// How much of a flood was sent.
    sent: u32,
    streams: Vec<StreamId>,
}

impl Run {
    /// Returns how the server has ended the connection.
    async fn attack(mut self, attack: Attack) -> Option<ConnectionError> {
        match attack {
            Attack::Garbage => {
                self.send_garbage().await;
                return None;
            }
            Attack::HalfHandshake => {
                self.carrier.transmit();
                return None;
            }
            _ => {}
        }
        loop {
            self.carrier.receive();
            if let Some(lost) = self.carrier.lost.take() {
                return Some(lost);
            }
            self.control.open(&mut self.carrier);
            // What the server sends to an attacker is not judged.
            let _ = self.control.read(&mut self.carrier);
            if self.control.has_settings {
                self.send(attack);
            }
            self.carrier.transmit();
            if attack == Attack::Deaf && !self.streams.is_empty() {
                // Longer than a response may stall.
                sleep(Duration::from_mins(2)).await;
                return None;
            }
            if self.sent >= FLOOD {
                // A server that has crashed ends nothing.
                if !self.client.judge.is_excused(self.begin, None) {
                    self.client.judge.fault(format!("the server takes all of {attack:?}"));
                }
                return None;
            }
            self.carrier.wait(attack.is_flood().then(|| Instant::now() + PAUSE)).await;
        }
    }

    async fn send_garbage(&mut self) {
        for _ in 0..100 {
            let random = &mut self.client.random;
            let mut bytes = vec![0; random.usize(..1_300)];
            random.fill(&mut bytes);
            if let (Some(first), true) = (bytes.first_mut(), random.bool()) {
                // A packet with a long header, which may be the first one of a client.
                *first |= 0xc0;
                bytes.iter_mut().skip(1).take(4).zip([0, 0, 0, 1]).for_each(|(own, version)| *own = version);
            }
            let (destination, size) = (self.client.server, bytes.len());
            let transmit = Transmit { destination, ecn: None, size, segment_size: None, src_ip: None };
            self.carrier.socket.send(&transmit, &bytes);
            sleep(PAUSE).await;
        }
    }

    /// Sends a part of an attack.
    fn send(&mut self, attack: Attack) {
        match attack {
            Attack::ZeroWindow | Attack::Deaf => self.begin_requests("/origin/7-300000-0", 9, &[], true),
            Attack::Hoard => {
                let body = wire::frame(wire::DATA, &[b'u'; 1_000]);
                self.begin_requests("/http2/7-10-0", 100, &body, false);
            }
            Attack::TinyData => {
                self.begin_requests("/http2/7-10-0", 1, &[], false);
                let at = self.sent as usize % 3;
                self.flood(1, &wire::frame(wire::DATA, b"u")[at..=at]);
            }
            Attack::Frames(true) => {
                self.begin_requests("/http2/7-10-0", 1, &[], false);
                self.flood(BURST, &wire::frame(0x21, b""));
            }
            Attack::Frames(false) => {
                self.streams = self.control.own.first().copied().into_iter().collect();
                self.flood(BURST, &wire::frame(0x21, b""));
            }
            Attack::RapidReset => self.reset_rapidly(),
            Attack::Noise => self.make_noise(),
            Attack::Violation(number) => self.violate(VIOLATIONS[number]),
            Attack::Silence | Attack::Garbage | Attack::HalfHandshake => {}
        }
    }

    /// Begins requests, as many as the server permits, until there are `count`.
    fn begin_requests(&mut self, path: &str, count: usize, body: &[u8], ends: bool) {
        while self.streams.len() < count {
            let Some(stream) = self.carrier.machine.streams().open(Dir::Bi) else { return };
            let head = self.head(path, if ends { "GET" } else { "POST" });
            self.write(stream, &[&head, body].concat());
            if ends {
                let _ = self.carrier.machine.send_stream(stream).finish();
            }
            self.streams.push(stream);
        }
    }

    fn head(&self, path: &str, method: &str) -> Vec<u8> {
        let id = self.client.first_id.to_string();
        let target = [(":method", method), (":scheme", "https"), (":authority", SITE), (":path", path)];
        wire::headers(&[&target[..], &[("x-request", &id)]].concat())
    }

    /// Writes what there is a window for.
    fn write(&mut self, stream: StreamId, bytes: &[u8]) {
        let _ = self.carrier.machine.send_stream(stream).write(bytes);
    }

    /// Sends something on the first stream several times.
    fn flood(&mut self, count: u32, bytes: &[u8]) {
        let Some(stream) = self.streams.first().copied() else { return };
        for _ in 0..count {
            self.write(stream, bytes);
        }
        self.sent += count;
    }

    fn reset_rapidly(&mut self) {
        for stream in std::mem::take(&mut self.streams) {
            streams::reset(&mut self.carrier.machine, streams::number(stream), wire::REQUEST_CANCELLED);
            self.sent += 1;
        }
        self.begin_requests("/http2/7-10-0", 20, &[], true);
    }

    fn make_noise(&mut self) {
        let dir = if self.client.random.bool() { Dir::Uni } else { Dir::Bi };
        let Some(stream) = self.carrier.machine.streams().open(dir) else { return };
        let mut bytes = vec![0; self.client.random.usize(1..100)];
        self.client.random.fill(&mut bytes);
        self.write(stream, &bytes);
        if self.client.random.bool() {
            let _ = self.carrier.machine.send_stream(stream).finish();
        }
    }

    fn violate(&mut self, (kind, bytes, ends): (Option<u8>, &[u8], bool)) {
        if !self.streams.is_empty() {
            return;
        }
        let dir = if kind.is_some() { Dir::Uni } else { Dir::Bi };
        let Some(stream) = self.carrier.machine.streams().open(dir) else { return };
        self.write(stream, &kind.into_iter().chain(bytes.iter().copied()).collect::<Vec<_>>());
        if ends {
            let _ = self.carrier.machine.send_stream(stream).finish();
        }
        self.streams.push(stream);
    }
}

//! Attacks on servers of HTTP/2, HTTP/3 and TLS, and what they cost the server.
//!
//! [`ATTACKS`] has a bounded number of steps for each. [`Target`] starts a server with one worker, and [`fn@measure`] attacks it while other
//! clients send normal requests. The program `attacks` compares Rudy with nginx.

mod flood;
mod frames;
mod handshakes;
mod measure;
mod outcome;
mod quic;
mod quic_steps;
mod target;

pub use measure::{Cost, measure};
pub use outcome::{End, Outcome};
pub use target::Target;

use flood::Script;
use frames::{FLOOD, HELD, MADE_RESET};
use quic::QuicScript;

/// An attack.
pub struct Attack {
    /// The name, for `--only`.
    pub name: &'static str,
    /// What the client sends in a step.
    pub step: &'static str,
    /// The number of steps.
    pub steps: u32,
    kind: Kind,
}

enum Kind {
    /// Frames of HTTP/2 without TLS.
    Http2(Script),
    /// Connections whose `ClientHello` arrives in packets of one byte, and whose handshakes do not go on.
    HandshakesByByte,
    /// Connections with the first half of a `ClientHello`.
    HalfHandshakes,
    /// Streams of HTTP/3.
    Http3(QuicScript),
    /// First packets of QUIC from many ports.
    InitialFlood,
    /// Handshakes of QUIC that are not completed.
    HalfQuicHandshakes,
}

impl Attack {
    /// Whether the server needs a certificate.
    pub fn is_tls(&self) -> bool {
        !matches!(self.kind, Kind::Http2(_))
    }

    /// Whether the attack is on QUIC, which only Rudy has of the servers here.
    pub fn is_quic(&self) -> bool {
        matches!(self.kind, Kind::Http3(_) | Kind::InitialFlood | Kind::HalfQuicHandshakes)
    }

    /// Attacks a server with this number of steps. The connections that the server has not closed remain open in the result.
    fn run(&self, target: &Target, steps: u32) -> Outcome {
        match &self.kind {
            Kind::Http2(script) => flood::run(target.address(), script, steps),
            Kind::HandshakesByByte => handshakes::by_byte(target, steps),
            Kind::HalfHandshakes => handshakes::half(target, steps),
            Kind::Http3(script) => quic::run(target, script, steps),
            Kind::InitialFlood => quic::initial_flood(target, steps),
            Kind::HalfQuicHandshakes => quic::half_handshakes(target, steps),
        }
    }
}

const fn http2(name: &'static str, step: &'static str, steps: u32, script: Script) -> Attack {
    Attack { name, step, steps, kind: Kind::Http2(script) }
}

const fn http3(name: &'static str, step: &'static str, steps: u32, script: QuicScript) -> Attack {
    Attack { name, step, steps, kind: Kind::Http3(script) }
}

/// All attacks.
pub const ATTACKS: [Attack; 33] = [
    http2(
        "rapid-reset",
        "request and RST_STREAM",
        500_000,
        Script { step: frames::rapid_reset, is_request: true, ..FLOOD },
    ),
    http2(
        "rapid-reset-large",
        "request for 1 MiB and RST_STREAM",
        100_000,
        Script { step: frames::rapid_reset_of_large, is_request: true, ..FLOOD },
    ),
    http2(
        "made-reset-zero-update",
        "request and WINDOW_UPDATE of 0",
        10_000,
        Script { step: frames::zero_update, ..MADE_RESET },
    ),
    http2(
        "made-reset-overflow",
        "request and WINDOW_UPDATE over the maximum",
        50_000,
        Script { settings: &[], prologue: frames::use_up_window, step: frames::overflow, ..MADE_RESET },
    ),
    http2(
        "made-reset-half-closed",
        "request and DATA after its end",
        50_000,
        Script { step: frames::data_after_end, ..MADE_RESET },
    ),
    http2(
        "made-reset-priority",
        "request and PRIORITY of 4 bytes",
        10_000,
        Script { step: frames::short_priority, ..MADE_RESET },
    ),
    http2(
        "continuation",
        "CONTINUATION with 100 bytes",
        1_000_000,
        Script { step: frames::continuation, batch: frames::BLOCK, ..FLOOD },
    ),
    http2(
        "empty-continuation",
        "CONTINUATION without payload",
        1_000_000,
        Script { step: frames::empty_continuation, batch: frames::BLOCK, ..FLOOD },
    ),
    http2("settings", "SETTINGS", 1_000_000, Script { step: frames::settings, ..FLOOD }),
    http2("ping", "PING", 1_000_000, Script { step: frames::ping, ..FLOOD }),
    http2(
        "empty-data",
        "DATA without payload",
        1_000_000,
        Script { prologue: frames::open_request, step: frames::empty_data, ..HELD },
    ),
    http2(
        "one-byte-packets",
        "PING in 17 packets, beside 100 streams without a window",
        20_000,
        Script { prologue: frames::hundred_requests, step: frames::ping, batch: 10, by_byte: true, ..HELD },
    ),
    http2(
        "zero-windows",
        "request for 1 MiB, 100 on each connection",
        10_000,
        Script { step: frames::large_request, steps_held: 100, ..HELD },
    ),
    http2(
        "hpack-bomb",
        "request with 4,000 references to a field of 4,000 bytes",
        20_000,
        Script { step: frames::references, batch: 10, is_request: true, ..FLOOD },
    ),
    Attack {
        name: "handshakes-by-byte",
        step: "handshake: a ClientHello in packets of one byte",
        steps: 500,
        kind: Kind::HandshakesByByte,
    },
    Attack {
        name: "half-handshakes",
        step: "handshake: half of a ClientHello",
        steps: 500,
        kind: Kind::HalfHandshakes,
    },
    Attack {
        name: "quic-initials",
        step: "first packet of a connection over QUIC, from a new port",
        steps: 20_000,
        kind: Kind::InitialFlood,
    },
    Attack {
        name: "quic-half-handshakes",
        step: "handshake of QUIC without its end",
        steps: 500,
        kind: Kind::HalfQuicHandshakes,
    },
    http3("quic-ping", "PING of QUIC", 100_000, QuicScript { step: quic_steps::ping, ..quic_steps::FLOOD }),
    http3(
        "quic-retired-ids",
        "RETIRE_CONNECTION_ID of QUIC",
        20_000,
        QuicScript { step: quic_steps::retire_id, batch: 4, ..quic_steps::FLOOD },
    ),
    http3(
        "quic-new-ports",
        "packet of a connection over QUIC, from a new port",
        20_000,
        QuicScript { step: quic_steps::new_port, batch: 4, ..quic_steps::FLOOD },
    ),
    http3(
        "h3-rapid-reset",
        "request over HTTP/3, RESET_STREAM and STOP_SENDING",
        50_000,
        QuicScript { step: quic_steps::cancelled_request, batch: 1000, ..quic_steps::FLOOD },
    ),
    http3(
        "h3-rapid-reset-large",
        "request over HTTP/3 for 1 MiB, RESET_STREAM and STOP_SENDING",
        20_000,
        QuicScript { step: quic_steps::cancelled_large_request, batch: 1000, ..quic_steps::FLOOD },
    ),
    http3(
        "h3-open-streams",
        "request over HTTP/3 whose body does not end, 16 on each connection",
        2_000,
        QuicScript {
            step: |connection, _, _| {
                quic_steps::open_request(connection);
            },
            batch: 0,
            steps_held: 16,
            ..quic_steps::FLOOD
        },
    ),
    http3(
        "h3-unfinished-heads",
        "8 KB of a head over HTTP/3 that does not end, 16 on each connection",
        2_000,
        QuicScript { step: quic_steps::unfinished_head, batch: 0, steps_held: 16, ..quic_steps::FLOOD },
    ),
    http3(
        "h3-reserved-frames",
        "frame of HTTP/3 of a reserved type",
        200_000,
        QuicScript {
            // The control stream: the first that a client opens.
            prologue: |_| 2,
            step: quic_steps::reserved,
            batch: 2000,
            ..quic_steps::FLOOD
        },
    ),
    http3(
        "h3-unknown-streams",
        "unidirectional stream of an unknown type",
        20_000,
        QuicScript { step: quic_steps::unknown_stream, ..quic_steps::FLOOD },
    ),
    http3(
        "qpack-bomb",
        "request with 4,000 references to a field of 4,000 bytes, over HTTP/3",
        5_000,
        QuicScript {
            prologue: quic_steps::insert_once,
            step: quic_steps::references,
            batch: 10,
            ..quic_steps::FLOOD
        },
    ),
    http3(
        "qpack-inserts",
        "instruction of QPACK that replaces an entry of 4,000 bytes",
        10_000,
        QuicScript {
            prologue: quic_steps::insert_once,
            step: quic_steps::insert,
            batch: 2000,
            ..quic_steps::FLOOD
        },
    ),
    http3(
        "qpack-blocked",
        "request that waits for an entry of QPACK, with 8 KB",
        2_000,
        QuicScript { step: quic_steps::blocked, batch: 0, steps_held: 16, ..quic_steps::FLOOD },
    ),
    http3(
        "h3-zero-windows",
        "request over HTTP/3 for 10 MiB, 16 on each connection, without a window",
        4_000,
        QuicScript {
            window: 0,
            step: quic_steps::large_request,
            batch: 0,
            steps_held: 16,
            ..quic_steps::FLOOD
        },
    ),
    http3(
        "h3-stopped-readers",
        "request over HTTP/3 for 10 MiB, of which the client reads nothing, with a window of 64 KiB",
        1_000,
        QuicScript {
            window: 64 * 1024,
            step: quic_steps::large_request,
            batch: 0,
            steps_held: 1,
            ..quic_steps::FLOOD
        },
    ),
    http3(
        "h3-idle",
        "connection over HTTP/3 after a request",
        1_000,
        QuicScript { step: |_, _, _| {}, batch: 1, steps_held: 1, ..quic_steps::FLOOD },
    ),
];

//! Attacks on servers of HTTP/2 and TLS, and what they cost the server.
//!
//! [`ATTACKS`] has a bounded number of steps for each. [`Target`] starts a server with one worker, and [`fn@measure`] attacks it while other
//! clients send normal requests. The program `attacks` compares Rudy with nginx.

mod flood;
mod frames;
mod handshakes;
mod measure;
mod outcome;
mod target;

pub use measure::{Cost, measure};
pub use outcome::{End, Outcome};
pub use target::Target;

use flood::Script;
use frames::{FLOOD, HELD, MADE_RESET};

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
}

impl Attack {
    /// Whether the server needs a certificate.
    pub fn is_tls(&self) -> bool {
        !matches!(self.kind, Kind::Http2(_))
    }

    /// Attacks a server with this number of steps. The connections that the server has not closed remain open in the result.
    fn run(&self, target: &Target, steps: u32) -> Outcome {
        match &self.kind {
            Kind::Http2(script) => flood::run(target.address(), script, steps),
            Kind::HandshakesByByte => handshakes::by_byte(target, steps),
            Kind::HalfHandshakes => handshakes::half(target, steps),
        }
    }
}

const fn http2(name: &'static str, step: &'static str, steps: u32, script: Script) -> Attack {
    Attack { name, step, steps, kind: Kind::Http2(script) }
}

/// All attacks.
pub const ATTACKS: [Attack; 16] = [
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
];

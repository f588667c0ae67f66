//! A client that floods a server with frames of HTTP/2, and connects again when the server ends the connection.

use std::net::SocketAddr;

use super::outcome::{End, Outcome};
use crate::Http2Connection;
use crate::http2::{END, encode, kind};

/// What a client sends.
pub(super) struct Script {
    /// The settings of the client.
    pub(super) settings: &'static [(u16, u32)],
    /// The first frames of a connection.
    pub(super) prologue: fn() -> Vec<u8>,
    /// The frames of a step, by its number on the connection.
    pub(super) step: fn(u32) -> Vec<u8>,
    /// The steps after which the client waits until the server has processed them. Otherwise those that the kernel discards with the
    /// connection would count as steps without cost.
    pub(super) batch: u32,
    /// Whether each step has a stream of its own. Then GOAWAY has the number of those that the server has processed.
    pub(super) is_request: bool,
    /// Whether each byte of the steps is a packet. Otherwise the steps of a batch are sent at once.
    pub(super) by_byte: bool,
    /// The steps after which a connection remains open, and the client continues on another one.
    pub(super) steps_held: u32,
}

/// The payload of the PING after a batch.
const MARK: [u8; 8] = *b"attacked";

pub(super) fn run(address: SocketAddr, script: &Script, steps: u32) -> Outcome {
    let mut outcome = Outcome::default();
    while outcome.steps() < steps {
        let most = script.steps_held.min(steps - outcome.steps());
        let mut connection = Http2Connection::open(address, script.settings);
        connection.send(&(script.prologue)());
        let (sent, end) = attack(&mut connection, script, most);
        let socket = connection.socket().try_clone().expect("a descriptor is free");
        outcome.add(end, sent, socket);
    }
    outcome
}

/// Sends steps until the server ends the connection. Returns their number.
fn attack(connection: &mut Http2Connection, script: &Script, steps: u32) -> (u32, End) {
    let mut sent = 0;
    while sent < steps {
        let next = steps.min(sent + script.batch);
        let mut bytes: Vec<u8> = (sent..next).flat_map(script.step).collect();
        bytes.extend(encode(kind::PING, 0, 0, &MARK));
        for packet in bytes.chunks(if script.by_byte { 1 } else { bytes.len() }) {
            connection.send(packet);
        }
        sent = next;
        if let Some((end, last_stream)) = end_before_mark(connection) {
            let processed = last_stream.filter(|_| script.is_request).map(|stream| stream / 2 + 1);
            return (processed.map_or(sent, |processed| processed.clamp(1, sent)), end);
        }
    }
    (sent, End::Open)
}

/// Reads until the response to the PING of a batch, or returns how the connection ends before, and the last stream in GOAWAY.
fn end_before_mark(connection: &mut Http2Connection) -> Option<(End, Option<u32>)> {
    loop {
        let Some(frame) = connection.next_frame() else { return Some((End::Closed, None)) };
        connection.acknowledge(&frame);
        match frame.kind {
            kind::GOAWAY => {
                let [last_stream, code] = [0, 4].map(|at| number(&frame.payload[at..]));
                return Some((End::GoAway(code), Some(last_stream)));
            }
            kind::PING if frame.flags & END > 0 && frame.payload == MARK => return None,
            _ => {}
        }
    }
}

fn number(payload: &[u8]) -> u32 {
    u32::from_be_bytes(*payload.first_chunk().expect("GOAWAY has two numbers"))
}

//! A client that attacks a server of HTTP/3, and connects again when the server ends the connection.

use super::outcome::{End, Outcome};
use super::target::Target;
use crate::{Http3Client, Http3Connection};

/// What a client does.
pub(super) struct QuicScript {
    /// What a stream of the client may receive before it is read.
    pub(super) window: u32,
    /// What happens first on a connection. Returns a stream for all steps.
    pub(super) prologue: fn(&mut Http3Connection) -> u64,
    /// A step, by its number on the connection, with the stream of the prologue.
    pub(super) step: fn(&mut Http3Connection, u64, u32),
    /// The steps after which the client waits until the server has processed them, as a request between them shows. 0 for a client that does
    /// not wait, because none of its streams could have a response.
    pub(super) batch: u32,
    /// The steps after which a connection remains open, and the client continues on another one.
    pub(super) steps_held: u32,
}

pub(super) fn run(target: &Target, script: &QuicScript, steps: u32) -> Outcome {
    let client = target.http3().expect("the server has HTTP/3").clone().window(script.window);
    let mut outcome = Outcome::default();
    while outcome.steps() < steps {
        let most = script.steps_held.min(steps - outcome.steps());
        let mut connection = client.open(target.address());
        let stream = (script.prologue)(&mut connection);
        let mut sent = 0;
        while sent < most && !connection.has_ended() {
            (script.step)(&mut connection, stream, sent);
            sent += 1;
            if script.batch > 0 && (sent.is_multiple_of(script.batch) || sent == most) {
                synchronize(&mut connection);
            }
        }
        connection.settle();
        let end = match connection.has_ended() {
            true if connection.is_unknown() => End::Closed,
            true => End::Http3(connection.closed().0),
            false => End::Open,
        };
        outcome.add(end, sent.max(1), connection);
    }
    outcome
}

/// Waits until the server has processed what was sent, or has ended the connection.
fn synchronize(connection: &mut Http3Connection) {
    let Some(stream) = connection.next_stream() else { return };
    connection.queue(stream, &crate::http3::h3_headers(&crate::http3::h3_head("GET", "/")));
    connection.finish(stream);
    connection.response(stream);
}

/// Sends the first packet of a connection from a new port, and is not there for the response.
pub(super) fn initial_flood(target: &Target, packets: u32) -> Outcome {
    let client = client(target);
    let mut outcome = Outcome::default();
    for _ in 0..packets {
        let mut connection = client.begin(target.address());
        connection.transmit_only();
        connection.vanish();
        outcome.add(End::Open, 1, ());
    }
    outcome
}

/// Begins handshakes, and does not complete them when the server has responded.
pub(super) fn half_handshakes(target: &Target, connections: u32) -> Outcome {
    let client = client(target);
    let mut outcome = Outcome::default();
    for _ in 0..connections {
        let mut connection = client.begin(target.address());
        connection.transmit_only();
        connection.wait_for_datagram();
        outcome.add(End::Open, 1, connection.silent());
    }
    outcome
}

fn client(target: &Target) -> &Http3Client {
    target.http3().expect("the server has HTTP/3")
}

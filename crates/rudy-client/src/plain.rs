//! A connection without a protocol, for tests.

use std::time::Duration;

use rudy_upstream::{Choice, CircuitOptions};

use super::{Socket, SocketConnection, UpstreamOptions};

const LONG: Duration = Duration::from_mins(1);

pub(super) struct Plain(Socket);

impl SocketConnection for Plain {
    fn new(socket: Socket) -> Self {
        Self(socket)
    }

    fn socket(&mut self) -> &mut Socket {
        &mut self.0
    }
}

pub(super) fn options() -> UpstreamOptions {
    UpstreamOptions {
        workers: 1,
        queue: 0,
        queue_timeout: LONG,
        connect_timeout: LONG,
        idle_timeout: LONG,
        requests_per_member: None,
        choice: Choice::IdleFirst,
        circuit: CircuitOptions::default(),
    }
}

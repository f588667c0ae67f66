//! The flood against streams with known behaviour.

#[path = "../bench/server.rs"]
#[expect(dead_code, reason = "the generator's tests use the rest")]
mod server;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_load::flood::{FloodError, Measurement, Outcome, Plan, Progress, Ramp, Requests, Watch, run};
use rudy_request::{FailureKind, Remote, Template};

use server::{Response, Server};

const CHUNKS: &str =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3\r\none\r\n3\r\ntwo\r\n";

fn plan(server: &Server) -> Plan {
    Plan {
        remote: Remote::Ip(server.address()),
        security: None,
        requests: Arc::new(
            Requests::new(&Template::default(), &format!("http://{}/", server.address()))
                .expect("a plain request"),
        ),
        connections: NonZeroU32::new(20).expect("not zero"),
        streams: None,
        ramp: Ramp { rate: 1000.0 },
        hold: Duration::from_secs(20),
        interval: Duration::from_secs(1),
        greetings: 1,
        holds_idle: false,
        timeout: Duration::from_secs(10),
        sources: Arc::new([]),
    }
}

/// Ends the flood after enough events.
struct Until(Box<dyn Fn(&Measurement) -> bool>, bool);

impl Watch for Until {
    fn should_continue(&mut self) -> bool {
        !self.1
    }

    fn progress(&mut self, _progress: &Progress, measurement: &Measurement) {
        self.1 = (self.0)(measurement);
    }
}

fn flood(plan: &Plan, until: impl Fn(&Measurement) -> bool + 'static) -> Outcome {
    run(plan, &mut Until(Box::new(until), false)).expect("the server listens")
}

#[test]
fn chunks_are_counted_and_their_delay_is_measured() {
    let server = Server::start(|_| Response::text(CHUNKS));
    let outcome = flood(&plan(&server), |measurement| measurement.chunks == 60);
    assert_eq!((outcome.measurement.opened, outcome.last.open, outcome.max_open), (20, 20, 20));
    // A greeting, the first chunk, and one that was due a second later and came at once.
    assert_eq!((outcome.measurement.chunks, outcome.measurement.chunk_delay.len()), (60, 20));
    assert!(outcome.measurement.chunk_delay.max().is_zero());
    assert_eq!((outcome.measurement.statuses[2], outcome.measurement.first_byte.len()), (20, 20));
    assert!(outcome.is_interrupted);
}

#[test]
fn complete_and_incomplete_responses_are_counted_separately() {
    let server = Server::start(|number| match number % 4 {
        0 => Response::last(&format!("{CHUNKS}0\r\n\r\n")),
        2 => Response::last("HTTP/1.1 200 OK\r\n\r\nuntil the close"),
        _ => Response::last(CHUNKS),
    });
    let outcome = run(&plan(&server), &mut ()).expect("the server listens");
    assert_eq!(
        (outcome.measurement.closed_by_server, outcome.measurement.failures[FailureKind::Short as usize]),
        (10, 10)
    );
    assert_eq!(outcome.last.open, 0);
    assert!(!outcome.is_interrupted);
}

#[test]
fn a_connection_without_a_first_byte_times_out() {
    let server = Server::start(|_| Response::never());
    let plan = Plan { timeout: Duration::from_millis(100), ..plan(&server) };
    let outcome = run(&plan, &mut ()).expect("the server listens");
    assert_eq!(outcome.measurement.failures[FailureKind::Timeout as usize], 20);
}

#[test]
fn a_server_that_does_not_listen_is_an_error_at_once() {
    let server = Server::start(|_| Response::never());
    // The port is bound, so no other process can listen on it.
    let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    let address = held.local_addr().ok().and_then(|address| address.as_socket()).expect("it is bound");
    let plan = Plan { remote: Remote::Ip(address), ..plan(&server) };
    let error = run(&plan, &mut ()).expect_err("the port has no listener");
    assert!(matches!(error, FloodError::Connect(..)), "{error}");
}

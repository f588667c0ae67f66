//! What a request takes that waits for the app: a thousand of them, each on a connection of its own, while the app's processes
//! are all busy and stay so.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use super::fpm::{HELLO, WAITS};
use super::gateway::Gateway;
use super::{Line, WAITING};
use crate::bench::idle::{HOLD_TIME, is_open, raise_descriptor_limit, read_answer};
use crate::{Outcome, process};

/// What one may take, its connection included.
const BYTES_AT_MOST: f64 = 16.0 * 1024.0;

/// How long an answer may take that is wanted at once.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Bytes for each connection, counted from a gateway without any.
struct Taken {
    idle: f64,
    waiting: f64,
}

/// Measures both gateways, one after the other. The kernel's socket buffers are not in the figures.
pub(super) fn measure(gateways: &[Gateway; 2]) -> Outcome<[Line; 2]> {
    raise_descriptor_limit(WAITING.into())?;
    let taken = [hold(&gateways[0])?, hold(&gateways[1])?];
    let bytes = |figure: fn(&Taken) -> f64| [0, 1].map(|index| figure(&taken[index]));
    let over_none = bytes(|taken| taken.waiting);
    let over_idle = bytes(|taken| taken.waiting - taken.idle);
    Ok([
        Line {
            what: format!("memory of a request that waits, {WAITING} of them"),
            figures: over_none.map(written),
            measured: written(over_none[0]),
            target: format!("at most {}", written(BYTES_AT_MOST)),
            is_met: Some(over_none[0] <= BYTES_AT_MOST),
        },
        Line {
            what: "more than of an idle connection".into(),
            figures: over_idle.map(written),
            measured: written(over_idle[0]),
            target: String::new(),
            is_met: None,
        },
    ])
}

fn written(bytes: f64) -> String {
    format!("{bytes:.0} B")
}

/// Memory with no connection, with all of them idle, and with a request on each.
fn hold(gateway: &Gateway) -> Outcome<Taken> {
    let (name, server) = (gateway.name(), &gateway.server);
    let none = process::memory_bytes(server.pid())?;
    let mut connections = Vec::new();
    for number in 1..=WAITING {
        let connection =
            open(server.address).map_err(|error| format!("{name}: connection {number}: {error}"))?;
        connections.push(connection);
    }
    eprintln!("{name}: {WAITING} connections open, held for {} s", HOLD_TIME.as_secs());
    let idle = memory_of(gateway, &connections)?;
    for connection in &mut connections {
        ask(connection, "GET", WAITS).map_err(|error| format!("{name}: cannot send a request: {error}"))?;
    }
    eprintln!("{name}: {WAITING} requests wait, held for {} s", HOLD_TIME.as_secs());
    let waiting = memory_of(gateway, &connections)?;
    #[expect(clippy::cast_precision_loss, reason = "memory in bytes stays far below 2^52")]
    let each = |bytes: u64| (bytes as f64 - none as f64) / f64::from(WAITING);
    let taken = Taken { idle: each(idle), waiting: each(waiting) };
    eprintln!("{name}: {:.0} bytes idle, {:.0} bytes waiting", taken.idle, taken.waiting);
    Ok(taken)
}

/// An answer or a closed connection meanwhile means that something else was measured.
fn memory_of(gateway: &Gateway, connections: &[TcpStream]) -> Outcome<u64> {
    thread::sleep(HOLD_TIME);
    let bytes = process::memory_bytes(gateway.server.pid())?;
    match connections.iter().position(|connection| !is_open(connection)) {
        Some(index) => Err(format!("{} answered on connection {} or closed it", gateway.name(), index + 1)),
        None => Ok(bytes),
    }
}

/// Opens a connection and has one request answered on it, by its head alone: scripts do not say how long their answers are.
fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    ask(&mut stream, "HEAD", HELLO)?;
    read_answer(&mut BufReader::new(&mut stream))?;
    Ok(stream)
}

fn ask(stream: &mut TcpStream, method: &str, script: &str) -> io::Result<()> {
    stream.write_all(format!("{method} /{script} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
}

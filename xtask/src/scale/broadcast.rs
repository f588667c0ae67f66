//! Listeners to one topic, to which a line is published each second.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::client::{Seen, Streams};
use super::server::Server;
use super::{Line, STREAMS};
use crate::bench::idle::raise_descriptor_limit;
use crate::{Outcome, process};

const INTERVAL: Duration = Duration::from_secs(1);
const BYTES_AT_MOST: f64 = 1.5 * 1024.0;
const TOPIC: &str = "/topic/news";

pub(super) fn measure(engine: &str, seconds: u32) -> Outcome<Line> {
    raise_descriptor_limit(u64::from(STREAMS))?;
    let server = Server::rudy(engine)?;
    publish(server.address, 0)?;
    let before = process::memory_bytes(server.pid())?;
    let mut listeners = Streams::open(server.address, STREAMS, |_| TOPIC.into(), b"data: line", INTERVAL)?;
    listeners.read_for(INTERVAL, &mut Seen::default())?;
    let mut seen = Seen::default();
    let cpu = process::cpu_us(server.pid());
    for number in 1..=seconds {
        publish(server.address, number)?;
        listeners.read_for(INTERVAL, &mut seen)?;
    }
    let cpu = (process::cpu_us(server.pid()) - cpu) / (f64::from(seconds) * 1e6) * 100.0;
    let expected = u64::from(STREAMS) * u64::from(seconds);
    if seen.pieces != expected {
        return Err(format!(
            "{expected} messages should have come to all listeners together, and {} did",
            seen.pieces
        ));
    }
    #[expect(clippy::cast_precision_loss, reason = "memory in bytes stays far below 2^52")]
    let each = (process::memory_bytes(server.pid())? as f64 - before as f64) / f64::from(STREAMS);
    eprintln!(
        "broadcast: {each:.0} B a listener, {cpu:.1} % of a core at a line a second, {expected} messages, none lost"
    );
    Ok(Line {
        what: format!("memory per listener, {STREAMS} to one topic, {engine}"),
        rudy: format!("{each:.0} B"),
        peer: String::new(),
        measured: format!("{each:.0}"),
        at_most: format!("{BYTES_AT_MOST:.0}"),
        is_met: each <= BYTES_AT_MOST,
    })
}

fn publish(address: SocketAddr, number: u32) -> Outcome {
    let body = format!("line {number}\n");
    let request = format!(
        "POST {TOPIC} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    let asked = TcpStream::connect(address).and_then(|mut socket| {
        socket.write_all(request.as_bytes())?;
        socket.read_to_string(&mut answer)
    });
    match asked {
        Ok(_) if answer.starts_with("HTTP/1.1 2") => Ok(()),
        Ok(_) => Err(format!("a line could not be published: {answer}")),
        Err(error) => Err(format!("a line could not be published: {error}")),
    }
}

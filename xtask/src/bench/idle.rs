//! Memory per idle connection: opens them, has one request answered on each, holds them, and divides.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::report::{Measured, Spread, Unit};
use super::server::Server;
use super::{IDLE, IDLE_BYTES_AT_MOST, IDLE_CONNECTIONS, site};
use crate::{Outcome, process};

/// Long enough for a server to give back what it needed only for the requests.
pub(crate) const HOLD_TIME: Duration = Duration::from_secs(5);

/// What this process has open beside the connections, with room to spare.
const OTHER_DESCRIPTORS: u64 = 100;

/// Measures both servers, one after the other. The kernel's socket buffers are not in the figures.
pub(super) fn measure(servers: &[Server; 2]) -> Outcome<Measured> {
    raise_descriptor_limit(u64::from(IDLE_CONNECTIONS))?;
    let sides = [bytes_per_connection(&servers[0])?, bytes_per_connection(&servers[1])?];
    Ok(Measured {
        name: IDLE,
        what: format!("memory per idle connection, {IDLE_CONNECTIONS} of them"),
        unit: Unit::BytesPerConnection,
        sides,
        requests_per_second: None,
        judged: Spread::of([sides[0]]),
        at_most: Some(IDLE_BYTES_AT_MOST),
        command: format!("{IDLE_CONNECTIONS} connections, one GET /{} on each, held idle", site::KIB_1),
    })
}

fn bytes_per_connection(server: &Server) -> Outcome<f64> {
    let name = server.kind.name();
    let before = process::memory_bytes(server.pid())?;
    let mut connections = Vec::new();
    for number in 1..=IDLE_CONNECTIONS {
        let connection = open(server).map_err(|error| format!("{name}: connection {number}: {error}"))?;
        connections.push(connection);
    }
    eprintln!("{name}: {IDLE_CONNECTIONS} connections open, held for {} s", HOLD_TIME.as_secs());
    thread::sleep(HOLD_TIME);
    let after = process::memory_bytes(server.pid())?;
    if let Some(index) = connections.iter().position(|connection| !is_open(connection)) {
        return Err(format!("{name} closed connection {} while it was idle", index + 1));
    }
    #[expect(clippy::cast_precision_loss, reason = "memory in bytes stays far below 2^52")]
    let each = (after as f64 - before as f64) / f64::from(IDLE_CONNECTIONS);
    eprintln!("{name}: {each:.0} bytes per connection");
    Ok(each)
}

/// Opens a connection and has one request answered on it.
fn open(server: &Server) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let request = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", site::KIB_1);
    stream.write_all(request.as_bytes())?;
    read_answer(&mut BufReader::new(&mut stream))?;
    Ok(stream)
}

/// Reads one answer to its end, whose length is given, so that nothing of it waits in the kernel.
pub(crate) fn read_answer(reader: &mut impl BufRead) -> io::Result<()> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    if io::copy(&mut reader.take(length), &mut io::sink())? == length {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

pub(crate) fn is_open(connection: &TcpStream) -> bool {
    let waits = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
    connection.set_nonblocking(true).is_ok() && connection.peek(&mut [0]).is_err_and(waits)
}

/// Lets this process hold so many connections.
pub(crate) fn raise_descriptor_limit(connections: u64) -> Outcome {
    let limit = getrlimit(Resource::Nofile);
    let needed = connections + OTHER_DESCRIPTORS;
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(format!(
            "{needed} descriptors are needed for {connections} connections: raise the limit with `ulimit -Hn`"
        ));
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .map_err(|error| format!("cannot raise the descriptor limit: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_to_its_end_and_no_further() {
        let mut bytes = &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcrest"[..];
        read_answer(&mut bytes).expect("whole");
        assert_eq!(bytes, b"rest");
    }

    #[test]
    fn an_answer_that_is_cut_is_an_error() {
        assert!(read_answer(&mut &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"[..]).is_err());
        assert!(read_answer(&mut &b"HTTP/1.1 200 OK\r\n"[..]).is_err());
    }
}

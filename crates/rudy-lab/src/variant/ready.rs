//! Checks whether a variant is ready.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rudy_experiment::plan::Ready;

/// Timeout of a single try.
const TRY: Duration = Duration::from_secs(1);

/// Whether the port accepts a connection.
pub(super) fn listens(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, TRY).is_ok()
}

/// Whether a path returns a status below 400.
pub(super) fn answers(address: SocketAddr, path: &str) -> bool {
    ask(address, path).is_ok_and(|status| status < 400)
}

/// A description of the condition.
pub(super) fn expected(ready: &Ready, address: SocketAddr) -> String {
    match ready {
        Ready::Tcp => format!("nothing accepts connections at {address}"),
        Ready::Http(path) => match ask(address, path) {
            Ok(status) => format!("http://{address}{path} returned {status}"),
            Err(error) => format!("http://{address}{path} did not respond: {error}"),
        },
        Ready::Line(text) => format!("it has not printed {text:?}"),
    }
}

/// The status of the response to a request.
fn ask(address: SocketAddr, path: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, TRY)?;
    stream.set_read_timeout(Some(TRY))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut line = [0; 12];
    stream.read_exact(&mut line)?;
    // RFC 9112 §4: `HTTP/1.1 200`.
    let status = std::str::from_utf8(&line).ok().and_then(|line| line.strip_prefix("HTTP/1."));
    let status = status.and_then(|rest| rest.get(2..)?.parse().ok());
    status.ok_or_else(|| io::Error::other("the response is not HTTP/1"))
}

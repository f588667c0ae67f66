//! One HTTPS request and its response, over a connection of its own. It blocks.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version, header};
use rudy_http::Limits;
use rudy_http::h1::client::{ClientConnection, ResponseEvent};
use rudy_message::BodyLength;
use rudy_message::client::{RequestHead, ResponseHead};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection as TlsConnection, StreamOwned};

/// The maximum time of an exchange. Authorities may check a name before they respond.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The maximum time to connect to one of the addresses of a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum size of a response body: a certificate chain has a few KiB.
const BODY_BYTES_MAX: u64 = 1024 * 1024;

/// Sends a request and returns the response.
///
/// # Errors
///
/// The host cannot be reached or is not trusted, or its response is invalid or incomplete.
pub(crate) fn exchange(config: &Arc<ClientConfig>, request: &Request<Bytes>) -> io::Result<Response<Bytes>> {
    let deadline = Instant::now() + TIMEOUT;
    let uri = request.uri();
    let host = host(uri)?;
    let within = |error: io::Error| {
        let untrusted = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let help = match untrusted {
            Some(rustls::Error::InvalidCertificate(_)) => {
                " (set `authority` in [acme] to the certificates that it is trusted by)"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("{host}: {error}{help}"))
    };
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|error| within(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let tls = TlsConnection::new(config.clone(), name).map_err(io::Error::other)?;
    let socket = connect(host, uri.port_u16().unwrap_or(443)).map_err(within)?;
    let mut stream = StreamOwned::new(tls, Timed { socket, deadline });
    let (head, mut connection) = encode(request, host).map_err(within)?;
    let mut exchange = || {
        stream.write_all(&head)?;
        stream.write_all(request.body())?;
        stream.flush()?;
        receive(&mut stream, &mut connection)
    };
    exchange().map_err(within)
}

fn host(uri: &Uri) -> io::Result<&str> {
    let is_secure = uri.scheme_str() == Some("https");
    uri.host().filter(|_| is_secure).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("expected an https URL, not \"{uri}\""))
    })
}

/// Connects to the first address that accepts.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (host.trim_matches(['[', ']']), port).to_socket_addrs()?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => {
                last = io::Error::new(error.kind(), format!("cannot connect to {address}: {error}"));
            }
        }
    }
    Err(last)
}

fn encode(request: &Request<Bytes>, host: &str) -> io::Result<(BytesMut, ClientConnection)> {
    let invalid = |what: &dyn ToString| io::Error::new(io::ErrorKind::InvalidInput, what.to_string());
    let mut fields = request.headers().clone();
    let authority = request.uri().authority().map_or(host, |authority| authority.as_str());
    fields.insert(header::HOST, HeaderValue::try_from(authority).map_err(|error| invalid(&error))?);
    fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let agent = concat!("rudy/", env!("CARGO_PKG_VERSION"), " instant-acme");
    fields.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    let length = u64::try_from(request.body().len()).unwrap_or(u64::MAX);
    let head = RequestHead {
        method: request.method(),
        target: request.uri().path_and_query().map_or("/", |target| target.as_str()),
        version: Version::HTTP_11,
        fields: (&fields).into(),
        body: BodyLength::Known(length),
    };
    let mut bytes = BytesMut::new();
    head.encode(&mut bytes).map_err(|error| invalid(&error))?;
    let mut connection = ClientConnection::new();
    connection.expect_response(head.info());
    Ok((bytes, connection))
}

/// Reads until the response is complete.
fn receive(stream: &mut impl Read, connection: &mut ClientConnection) -> io::Result<Response<Bytes>> {
    let limits = Limits { body_bytes: BODY_BYTES_MAX, ..Limits::for_responses() };
    let invalid = |error: &dyn ToString| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    let (mut input, mut response) = (BytesMut::new(), Response::new(BytesMut::new()));
    let mut buffer = [0; 16 * 1024];
    loop {
        loop {
            let (used, event) = connection.decode(&input, &limits).map_err(|fault| invalid(&fault))?;
            match event {
                ResponseEvent::Head(head) => set_head(&mut response, &head)?,
                ResponseEvent::Data(bytes) => response.body_mut().extend_from_slice(bytes),
                ResponseEvent::End(_) => return Ok(response.map(BytesMut::freeze)),
                ResponseEvent::Informational(_) => {}
                ResponseEvent::NeedData => {
                    drop(input.split_to(used));
                    break;
                }
            }
            drop(input.split_to(used));
        }
        match stream.read(&mut buffer) {
            Ok(0) => {
                connection.end_of_input().map_err(|fault| invalid(&fault))?;
                return Ok(response.map(BytesMut::freeze));
            }
            Ok(read) => input.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn set_head(response: &mut Response<BytesMut>, head: &ResponseHead<'_>) -> io::Result<()> {
    let invalid = |error: http::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    *response.status_mut() = StatusCode::from_u16(head.status()).map_err(|error| invalid(error.into()))?;
    for (name, value) in head.fields() {
        let name = header::HeaderName::try_from(name).map_err(|error| invalid(error.into()))?;
        let value = HeaderValue::from_bytes(value).map_err(|error| invalid(error.into()))?;
        response.headers_mut().append(name, value);
    }
    Ok(())
}

/// A socket with a deadline for all that is read and written: a server that sends a byte now and then does not extend it.
struct Timed {
    socket: TcpStream,
    deadline: Instant,
}

impl Timed {
    /// Returns the time until the deadline, which is never zero: a socket would wait without limit.
    fn remaining(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(timed_out()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.remaining()?))?;
        self.socket.read(buffer).map_err(explain_timeout)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.remaining()?))?;
        self.socket.write(bytes).map_err(explain_timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// A socket with a timeout reports `WouldBlock`.
fn explain_timeout(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { timed_out() } else { error }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no response within {} s", TIMEOUT.as_secs()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn bytes_that_arrive_now_and_then_do_not_extend_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&[7; 3]).unwrap();
        let mut timed = Timed { socket, deadline: Instant::now() };
        for result in [timed.read(&mut [0]), timed.write(&[0])] {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        timed.deadline += TIMEOUT;
        assert_eq!(timed.read(&mut [0]).unwrap(), 1);
        // Without a byte, it waits until the deadline.
        let (socket, deadline) = (timed.socket, Instant::now() + Duration::from_millis(20));
        let mut timed = Timed { socket, deadline };
        let error = timed.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

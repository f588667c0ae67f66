//! Sends requests in sequence, over one reusable connection per server.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use rudy_http::Limits;
use rudy_http::h1::client::Fault;
use rudy_tls::{Inspector, RevocationLists, ServerCertificate};
use rustix::event::PollFlags;
use rustls::ClientConfig;

use crate::Protocols;
use crate::dial;
use crate::exchange::{Sending, exchange};
use crate::observer::{IdleObserver, RequestObserver};
use crate::report::{ConnectionEnd, ConnectionInfo, NewConnectionReason, Report};
use crate::transport::Transport;
use crate::waiter::{WaitResult, Waiter};
use crate::{
    AccessError, Connection, DriveStatus, Encoded, Error, Failure, Options, Output, Remote, Security,
    Template, Trust, TrustError, Url,
};

/// Size of the read buffer.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Maximum number of idle connections to other servers: enough for most command lines, and below any limit of
/// descriptors.
const IDLE_MAX: usize = 15;

/// Sends requests and holds the connections that they share.
pub struct Session<'a> {
    options: &'a Options,
    waiter: &'a Waiter,
    limits: Limits,
    scratch: Vec<u8>,
    /// Created once, because it is expensive and holds the TLS session cache.
    tls: Option<Arc<ClientConfig>>,
    /// Finds what is wrong with certificates that are accepted without a check.
    inspector: Option<Arc<Inspector>>,
    /// The connection to the current server.
    current: Option<PooledConnection>,
    /// Idle connections to other servers, the most recently used last.
    idle: Vec<PooledConnection>,
    /// The reason why the next connection is new, if it is.
    new_reason: NewConnectionReason,
}

/// A connection, with a URL of its server.
struct PooledConnection {
    connection: Connection,
    url: Url,
    remote: Remote,
}

/// The deadlines of a request.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    connect: Option<Instant>,
    whole: Option<Instant>,
}

impl<'a> Session<'a> {
    /// A session without connections.
    #[must_use]
    pub fn new(options: &'a Options, waiter: &'a Waiter) -> Self {
        Self {
            options,
            waiter,
            limits: Limits::for_responses(),
            scratch: vec![0; SCRATCH_BYTES],
            tls: None,
            inspector: None,
            current: None,
            idle: Vec::new(),
            new_reason: NewConnectionReason::First,
        }
    }

    /// Uses this TLS configuration instead of one made from the trusted certificates of the options.
    #[must_use]
    pub fn with_tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(self.options.protocols.configure(config));
        self
    }

    /// Sends a request and returns its report. `is_last` means that no other request follows.
    pub fn send(
        &mut self,
        url: &Url,
        template: &Template,
        is_last: bool,
        output: &mut dyn Output,
    ) -> (Report, Option<Error>) {
        let prepared = self.prepare(url, template);
        let started = Instant::now();
        let mut observer = RequestObserver::new(started, self.options, output);
        let mut info = ConnectionInfo { new_reason: Some(self.new_reason), ..ConnectionInfo::default() };
        let result =
            prepared.and_then(|request| self.exchange(url, &request, started, &mut observer, &mut info));
        observer.phases.total = observer.elapsed();
        let (connection_end, error) = match result {
            Ok(status) => (self.finish(status, is_last && !observer.is_followed_redirect()), None),
            Err(error) => (self.abort(&error), Some(error)),
        };
        let report = Report {
            method: template.method.clone(),
            url: url.clone(),
            connection: info,
            head: observer.head.take(),
            informational: std::mem::take(&mut observer.informational),
            trailers: observer.trailers.take(),
            head_bytes: observer.head_bytes,
            body_bytes: observer.body_bytes,
            phases: observer.phases,
            connection_end,
            error: error.as_ref().map(|error| (error.name(), error.to_string())),
        };
        (report, error)
    }

    /// Prepares everything that needs no connection: the request and the TLS configuration.
    fn prepare(&mut self, url: &Url, template: &Template) -> Result<Encoded, Error> {
        if url.is_secure() && self.tls.is_none() {
            let config = self.client_config().map_err(AccessError::Trust)?;
            self.tls = Some(self.options.protocols.configure(config));
        }
        template.encode(url).map_err(Error::Request)
    }

    /// The TLS configuration. Without a check of certificates, an inspector reports what is wrong with them.
    fn client_config(&mut self) -> Result<Arc<ClientConfig>, TrustError> {
        let trust = &self.options.access.trust;
        // A machine without trusted certificates cannot judge.
        if *trust == Trust::All
            && let Ok((config, inspector)) = Trust::Platform.inspecting_config()
        {
            self.inspector = Some(inspector);
            return Ok(Arc::new(config));
        }
        trust.client_config()
    }

    /// Sends the request and reads the response. Repeats an idempotent request if the reused connection was
    /// closed before a byte of the response (RFC 9110 §9.2.2).
    fn exchange(
        &mut self,
        url: &Url,
        request: &Encoded,
        started: Instant,
        observer: &mut RequestObserver<'_>,
        info: &mut ConnectionInfo,
    ) -> Result<DriveStatus, Error> {
        let until = |time: Option<_>| time.and_then(|time| started.checked_add(time));
        let whole = until(self.options.timeout);
        let connect = until(self.options.connect_timeout).into_iter().chain(whole).min();
        let deadlines = Deadlines { connect, whole };
        self.select_connection(url);
        if self.current.is_some() {
            info.new_reason = None;
            self.describe_connection(info);
            match self.send_and_receive(url, request, deadlines, observer) {
                Err(error) if can_be_repeated(&error, request, observer) => {
                    self.close_current(NewConnectionReason::SentAgain);
                }
                result => return result,
            }
        }
        info.new_reason = Some(self.new_reason);
        let opened = self.open(url, deadlines, started, observer);
        let result = opened.and_then(|()| self.send_and_receive(url, request, deadlines, observer));
        self.describe_connection(info);
        result
    }

    /// Makes the idle connection to the server the current one, unless the server has closed it.
    fn select_connection(&mut self, url: &Url) {
        if self.current.as_ref().is_some_and(|current| !current.url.same_origin(url)) {
            self.set_current_idle();
        }
        if self.current.is_none() {
            let idle = self.idle.iter().position(|idle| idle.url.same_origin(url));
            self.current = idle.map(|index| self.idle.remove(index));
        }
        self.check_current();
    }

    /// Waits. Meanwhile closes an idle connection when its server does, which otherwise is half-closed until the next request. The error
    /// is a signal.
    pub fn rest(&mut self, until: Option<Instant>) -> Result<(), u8> {
        loop {
            let current = self.current.as_ref();
            let socket = current.map(|current| (current.connection.transport().as_fd(), PollFlags::IN));
            match self.waiter.wait(socket.as_slice(), until) {
                Ok(WaitResult::Interrupted(signal)) => return Err(signal),
                Ok(WaitResult::Ready) => self.check_current(),
                // If the kernel cannot wait, continue without waiting.
                Ok(WaitResult::TimedOut) | Err(_) => return Ok(()),
            }
        }
    }

    /// Receives what the server has sent on the idle connection, and closes it if it cannot be used again.
    fn check_current(&mut self) {
        let Some(current) = &mut self.current else { return };
        let result = current.connection.drive(None, &self.limits, true, &mut self.scratch, &mut IdleObserver);
        // Data without a request is an error. QUIC sends packets without data at any time.
        let is_open = matches!(result, Ok(DriveStatus::Waiting | DriveStatus::Yielded));
        if !is_open || !current.connection.can_be_reused() {
            self.close_current(NewConnectionReason::ServerClosed);
        }
    }

    /// Adds the current connection to the idle ones.
    fn set_current_idle(&mut self) {
        self.idle.extend(self.current.take());
        self.new_reason = NewConnectionReason::OtherServer;
        if self.idle.len() > IDLE_MAX {
            self.idle.remove(0).connection.close();
        }
    }

    fn close_current(&mut self, new_reason: NewConnectionReason) {
        if let Some(current) = self.current.take() {
            current.connection.close();
        }
        self.new_reason = new_reason;
    }

    /// Opens a connection to the server.
    fn open(
        &mut self,
        url: &Url,
        deadlines: Deadlines,
        started: Instant,
        observer: &mut RequestObserver<'_>,
    ) -> Result<(), Error> {
        let remotes = match &self.options.access.unix_socket {
            Some(path) => vec![Remote::Unix(path.clone())],
            None => dial::resolve(url.host(), url.port(), self.waiter, deadlines.connect)?,
        };
        observer.phases.name_lookup = started.elapsed();
        let (transport, remote) = if self.options.protocols == Protocols::Http3 {
            let first =
                remotes.into_iter().next().ok_or_else(|| Failure::Connect(io::ErrorKind::NotFound.into()))?;
            (Transport::datagrams(&first, None).map_err(Failure::Connect)?, first)
        } else {
            dial::connect(&remotes, self.waiter, deadlines.connect)?
        };
        let connection = Connection::new(transport, self.options.protocols);
        self.current = Some(PooledConnection { connection, url: url.clone(), remote });
        Ok(())
    }

    /// Sends the request over the current connection, and reads until the response is complete.
    fn send_and_receive(
        &mut self,
        url: &Url,
        request: &Encoded,
        deadlines: Deadlines,
        observer: &mut RequestObserver<'_>,
    ) -> Result<DriveStatus, Error> {
        let security = self.security(url)?;
        let Some(current) = &mut self.current else {
            return Err(Failure::Short(Fault::ClosedBeforeResponse).into());
        };
        let deadline = |connection: &Connection| {
            if connection.is_open() {
                (deadlines.whole, Error::Failed(Failure::Timeout))
            } else {
                (deadlines.connect, Error::ConnectTimeout)
            }
        };
        exchange(
            &mut current.connection,
            &Sending {
                request,
                security: security.as_ref(),
                limits: &self.limits,
                waiter: self.waiter,
                deadline,
            },
            &mut self.scratch,
            observer,
            |observer, _| match (observer.write_error.take(), observer.failure.take()) {
                (Some(error), _) => Err(Error::Output(error)),
                (None, Some(failure)) => Err(failure.into()),
                (None, None) => Ok(observer.has_ended),
            },
        )
    }

    fn security(&self, url: &Url) -> Result<Option<Security>, Error> {
        match &self.tls {
            Some(config) if url.is_secure() => Ok(Some(Security::new(config.clone(), url.host())?)),
            _ => Ok(None),
        }
    }

    fn describe_tls(&self, current: &PooledConnection, info: &mut ConnectionInfo) {
        let transport = current.connection.transport();
        info.tls = transport.version_and_suite().map(|(version, suite)| {
            let group = transport.key_exchange_group().map(|group| format!(" / {group}"));
            format!("{version} / {suite}{}", group.unwrap_or_default())
        });
        let Some(chain) = transport.tls().and_then(|tls| tls.peer_certificates()) else { return };
        if let (Some(handshake), true) = (transport.tls_handshake(), info.new_reason.is_some()) {
            info.tls_handshake = Some(if handshake.is_resumed { "resumed" } else { "full" });
        }
        let certificates = chain.iter().filter_map(|der| ServerCertificate::read(der).ok());
        info.certificate_expiry = certificates.map(|certificate| certificate.not_after).min();
        if let (Some(inspector), Ok(security)) = (&self.inspector, self.security(&current.url))
            && let Some(security) = security
        {
            let lists = RevocationLists::default();
            let inspection = inspector.inspect(chain, &security.name, SystemTime::now(), &lists);
            info.certificate_problems = inspection.problems.iter().map(ToString::to_string).collect();
        }
    }

    fn describe_connection(&self, info: &mut ConnectionInfo) {
        if let Some(current) = &self.current {
            let transport = current.connection.transport();
            info.remote = Some(current.remote.to_string());
            info.local = transport.local_address().map(|address| address.to_string());
            self.describe_tls(current, info);
        }
    }

    /// Keeps or closes the connection after a complete response.
    fn finish(&mut self, status: DriveStatus, is_last: bool) -> ConnectionEnd {
        // HTTP/1.1 announces the end in a field, HTTP/2 does not.
        let can_be_reused = self.options.keeps_alive
            && self.current.as_ref().is_some_and(|current| current.connection.can_be_reused());
        let (connection_end, new_reason) = match (status, can_be_reused, is_last) {
            (DriveStatus::Closed, ..) => (ConnectionEnd::ClosedByServer, NewConnectionReason::ServerClosed),
            (_, false, _) => (ConnectionEnd::ClosedAsAnnounced, NewConnectionReason::NotKept),
            (_, true, true) => (ConnectionEnd::ClosedByClient, NewConnectionReason::NotKept),
            (_, true, false) => return ConnectionEnd::Kept,
        };
        self.close_current(new_reason);
        connection_end
    }

    /// Closes the connection after an error.
    fn abort(&mut self, error: &Error) -> ConnectionEnd {
        let connection_end = match (&self.current, error) {
            (None, _) => ConnectionEnd::NeverOpen,
            (_, Error::Failed(Failure::Short(_) | Failure::Closed(_))) => ConnectionEnd::ClosedEarly,
            (_, Error::Failed(Failure::Read(_) | Failure::Write(_))) => ConnectionEnd::Failed,
            _ => ConnectionEnd::Aborted,
        };
        self.close_current(NewConnectionReason::NotKept);
        connection_end
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for idle in self.idle.drain(..) {
            idle.connection.close();
        }
        self.close_current(NewConnectionReason::NotKept);
    }
}

/// Whether a request on a reused connection can be sent again: it is idempotent, and no part of a response was
/// received; or the server has refused it before it processed anything (RFC 9113 §8.7).
fn can_be_repeated(error: &Error, request: &Encoded, observer: &RequestObserver<'_>) -> bool {
    if matches!(error, Error::Failed(Failure::Refused)) {
        return true;
    }
    is_stale_connection(error) && !observer.has_received() && is_idempotent(&request.bytes)
}

/// Whether the error is that of a connection which the server closed while it was idle.
fn is_stale_connection(error: &Error) -> bool {
    matches!(
        error,
        Error::Failed(
            Failure::Short(Fault::ClosedBeforeResponse)
                | Failure::Closed(_)
                | Failure::Read(_)
                | Failure::Write(_)
        )
    )
}

/// Whether the method of an encoded request is idempotent (RFC 9110 §9.2.2).
fn is_idempotent(request: &Bytes) -> bool {
    let method = request.split(|byte| *byte == b' ').next().unwrap_or_default();
    [&b"GET"[..], b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"].contains(&method)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::{Memory, Stop};

    /// A server that sends the pieces of a response, each after a pause, and returns when the client closes.
    fn serve(pieces: Vec<&'static str>, pause: Duration) -> (Url, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            assert_ne!(client.read(&mut [0; 1024]).unwrap(), 0);
            for piece in pieces {
                thread::sleep(pause);
                if client.write_all(piece.as_bytes()).is_err() {
                    return;
                }
            }
            let _ = client.read(&mut [0]);
        });
        (url, server)
    }

    fn send(url: &Url, timeout: Duration) -> (Vec<u8>, Option<Error>) {
        let (_stop, stopped) = Stop::new().unwrap();
        let (options, waiter) =
            (Options { timeout: Some(timeout), ..Options::default() }, Waiter::stoppable(stopped));
        let mut body = Memory::new(10);
        let (_, error) = Session::new(&options, &waiter).send(url, &Template::default(), true, &mut body);
        (body.into_bytes(), error)
    }

    #[test]
    fn bytes_that_arrive_now_and_then_do_not_extend_the_timeout() {
        let timeout = Duration::from_millis(50);
        let dribbling = std::iter::once("HTTP/1.1 200 OK\r\n").chain(std::iter::repeat_n("a: b\r\n", 1000));
        for pieces in [vec![], dribbling.collect()] {
            let (url, server) = serve(pieces, Duration::from_millis(5));
            let begun = Instant::now();
            let (_, error) = send(&url, timeout);
            assert!(matches!(error, Some(Error::Failed(Failure::Timeout))), "{error:?}");
            assert!(begun.elapsed() >= timeout);
            server.join().unwrap();
        }
    }

    #[test]
    fn memory_for_a_body_is_limited() {
        for (body, is_allowed) in [("0123456789", true), ("0123456789a", false)] {
            let (url, server) = serve(
                vec![
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: ",
                    if is_allowed { "10" } else { "11" },
                    "\r\n\r\n",
                    body,
                ],
                Duration::ZERO,
            );
            let (bytes, error) = send(&url, Duration::from_mins(1));
            assert_eq!(error.is_none(), is_allowed, "{error:?}");
            assert_eq!(bytes == body.as_bytes(), is_allowed);
            server.join().unwrap();
        }
    }
}

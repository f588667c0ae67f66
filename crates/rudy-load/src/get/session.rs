//! Sends requests in sequence, over one reusable connection per server.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rudy_http::Limits;
use rudy_http::h1::client::Fault;
use rustix::event::PollFlags;
use rustls::ClientConfig;

use super::dial;
use super::error::GetError;
use super::options::Options;
use super::output::Output;
use super::report::{Closing, Connected, Report, Why};
use super::wait::{Waiter, Woken};
use super::watch::{Nothing, Rules, Watch};
use crate::connection::{Connection, DriveStatus};
use crate::request::Encoded;
use crate::transport::{Remote, Security};
use crate::{AccessError, Failure, Template, Url};

/// Size of the read buffer.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Maximum number of idle connections to other servers: enough for most command lines, and below any limit of
/// descriptors.
const PARKED_MAX: usize = 15;

/// Sends requests and holds the connections that they share.
pub(super) struct Session<'a> {
    options: &'a Options,
    waiter: &'a Waiter,
    output: Output,
    limits: Limits,
    scratch: Vec<u8>,
    /// Created once, because it is expensive and holds the TLS session cache.
    tls: Option<Arc<ClientConfig>>,
    /// The connection to the current server.
    current: Option<OpenConnection>,
    /// Idle connections to other servers, the most recently used last.
    parked: Vec<OpenConnection>,
    /// The reason that there is no reusable connection.
    why: Why,
}

/// A connection, and a URL of the server to which it leads.
struct OpenConnection {
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
    pub(super) fn new(options: &'a Options, waiter: &'a Waiter, output: Output) -> Self {
        Self {
            options,
            waiter,
            output,
            limits: Limits::for_responses(),
            scratch: vec![0; SCRATCH_BYTES],
            tls: None,
            current: None,
            parked: Vec::new(),
            why: Why::First,
        }
    }

    /// Sends a request. `is_last` means that no other request follows.
    pub(super) fn ask(
        &mut self,
        url: &Url,
        template: &Template,
        is_last: bool,
    ) -> (Report, Option<GetError>) {
        let prepared = self.prepare(url, template);
        let started = Instant::now();
        let mut output = std::mem::replace(&mut self.output, Output::Nowhere);
        let rules = Rules {
            shows_head: self.options.shows_head,
            follows: self.options.redirects.is_some(),
            fails: self.options.fails,
        };
        let mut watch = Watch::new(started, rules, &mut output);
        let mut connected = Connected { new: Some(self.why), ..Connected::default() };
        let result =
            prepared.and_then(|request| self.exchange(url, &request, started, &mut watch, &mut connected));
        watch.phases.total = watch.elapsed();
        let (closing, error) = match result {
            Ok(status) => (self.settle(status, is_last && !watch.leads_on()), None),
            Err(error) => (self.give_up(&error), Some(error)),
        };
        let report = Report {
            method: template.method.clone(),
            url: url.clone(),
            connection: connected,
            head: watch.head.take(),
            informational: std::mem::take(&mut watch.informational),
            trailers: watch.trailers.take(),
            head_bytes: watch.head_bytes,
            body_bytes: watch.body_bytes,
            phases: watch.phases,
            closing,
            error: error.as_ref().map(|error| (error.name(), error.to_string())),
        };
        self.output = output;
        (report, error)
    }

    /// Prepares everything that needs no connection: the request and the TLS configuration.
    fn prepare(&mut self, url: &Url, template: &Template) -> Result<Encoded, GetError> {
        if url.is_secure() && self.tls.is_none() {
            let config = self.options.access.trust.client_config().map_err(AccessError::Trust)?;
            self.tls = Some(config);
        }
        template.encode(url).map_err(GetError::Request)
    }

    /// Sends the request and reads the response. Repeats an idempotent request if the reused connection was
    /// closed before a byte of the response (RFC 9110 §9.2.2).
    fn exchange(
        &mut self,
        url: &Url,
        request: &Encoded,
        started: Instant,
        watch: &mut Watch<'_>,
        connected: &mut Connected,
    ) -> Result<DriveStatus, GetError> {
        let until = |time: Option<_>| time.and_then(|time| started.checked_add(time));
        let whole = until(self.options.timeout);
        let connect = until(self.options.connect_timeout).into_iter().chain(whole).min();
        let deadlines = Deadlines { connect, whole };
        self.choose(url);
        if self.current.is_some() {
            connected.new = None;
            self.describe(connected);
            match self.converse(url, request, deadlines, watch) {
                Err(error)
                    if is_stale(&error) && !watch.has_started() && is_safe_to_repeat(&request.bytes) =>
                {
                    self.drop_current(Why::SentAgain);
                }
                result => return result,
            }
        }
        connected.new = Some(self.why);
        let opened = self.open(url, deadlines, started, watch);
        let result = opened.and_then(|()| self.converse(url, request, deadlines, watch));
        self.describe(connected);
        result
    }

    /// Selects the idle connection to the server, unless the server has closed it.
    fn choose(&mut self, url: &Url) {
        if self.current.as_ref().is_some_and(|current| !current.url.same_origin(url)) {
            self.park();
        }
        if self.current.is_none() {
            let parked = self.parked.iter().position(|parked| parked.url.same_origin(url));
            self.current = parked.map(|place| self.parked.remove(place));
        }
        let Some(held) = &mut self.held else { return };
        let driven = held.connection.drive(None, &self.limits, true, &mut self.scratch, &mut Nothing);
        if !matches!(driven, Ok(DriveStatus::Waiting)) {
            self.drop_held(Why::ServerClosed);
        }
    }

    fn park(&mut self) {
        self.parked.extend(self.current.take());
        self.why = Why::OtherServer;
        if self.parked.len() > PARKED_MAX {
            self.parked.remove(0).connection.close();
        }
    }

    fn drop_current(&mut self, why: Why) {
        if let Some(current) = self.current.take() {
            current.connection.close();
        }
        self.why = why;
    }

    fn open(
        &mut self,
        url: &Url,
        deadlines: Deadlines,
        started: Instant,
        watch: &mut Watch<'_>,
    ) -> Result<(), GetError> {
        let remotes = match &self.options.access.unix_socket {
            Some(path) => vec![Remote::Unix(path.clone())],
            None => dial::resolve(url.host(), url.port(), self.waiter, deadlines.connect)?,
        };
        watch.phases.name_lookup = started.elapsed();
        let (transport, remote) = dial::connect(&remotes, self.waiter, deadlines.connect)?;
        self.held = Some(Held { connection: Connection::new(transport), url: url.clone(), remote });
        Ok(())
    }

    /// Sends the request over the current connection, and reads until the response is complete.
    fn converse(
        &mut self,
        url: &Url,
        request: &Encoded,
        deadlines: Deadlines,
        watch: &mut Watch<'_>,
    ) -> Result<DriveStatus, GetError> {
        let security = self.security(url)?;
        let Some(current) = &mut self.current else {
            return Err(Failure::Short(Fault::ClosedBeforeResponse).into());
        };
        let connection = &mut held.connection;
        connection.send(&request.bytes, [request.info]);
        loop {
            let driven = connection.drive(security.as_ref(), &self.limits, true, &mut self.scratch, watch);
            if let Some(error) = watch.write_error.take() {
                return Err(GetError::Output(error));
            }
            let status = driven?;
            if watch.has_ended {
                return Ok(status);
            }
            if status == DriveStatus::Closed {
                return Err(Failure::Short(Fault::ClosedBeforeResponse).into());
            }
            let (until, error) = if connection.is_open() {
                (deadlines.whole, GetError::Failed(Failure::Timeout))
            } else {
                (deadlines.connect, GetError::ConnectTimeout)
            };
            self.waiter.pause(connection, status, until, error)?;
        }
    }

    fn security(&self, url: &Url) -> Result<Option<Security>, GetError> {
        match &self.tls {
            Some(config) if url.is_secure() => Ok(Some(Security::of(config.clone(), url.host())?)),
            _ => Ok(None),
        }
    }

    fn describe(&self, connected: &mut Connected) {
        if let Some(held) = &self.held {
            let transport = held.connection.transport();
            connected.remote = Some(held.remote.to_string());
            connected.local = transport.local_address().map(|address| address.to_string());
            connected.tls = transport.negotiated();
        }
    }

    /// Decides whether to keep the connection after a complete response.
    fn settle(&mut self, status: DriveStatus, is_last: bool) -> Closing {
        let can_be_reused = self.held.as_ref().is_some_and(|held| held.connection.can_be_reused());
        let (closing, why) = match (status, can_be_reused, is_last) {
            (DriveStatus::Closed, ..) => (Closing::ByServer, Why::ServerClosed),
            (_, false, _) => (Closing::AsAgreed, Why::NotKept),
            (_, true, true) => (Closing::ByUs, Why::NotKept),
            (_, true, false) => return Closing::Kept,
        };
        self.drop_current(why);
        closing
    }

    fn give_up(&mut self, error: &GetError) -> Closing {
        let closing = match (&self.current, error) {
            (None, _) => Closing::NeverOpen,
            (_, GetError::Failed(Failure::Short(_))) => Closing::Early,
            (_, GetError::Failed(Failure::Read(_) | Failure::Write(_))) => Closing::Broken,
            _ => Closing::Cut,
        };
        self.drop_current(Why::NotKept);
        closing
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for parked in self.parked.drain(..) {
            parked.connection.close();
        }
        self.drop_current(Why::NotKept);
    }
}

impl Waiter {
    /// Waits until a connection can continue.
    fn pause(
        &self,
        connection: &Connection,
        status: DriveStatus,
        until: Option<Instant>,
        timed_out: GetError,
    ) -> Result<(), GetError> {
        let now = Instant::now();
        if until.is_some_and(|until| until <= now) {
            return Err(timed_out);
        }
        let is_busy = status == DriveStatus::Yielded;
        let room = if connection.wants_to_write() { PollFlags::OUT } else { PollFlags::empty() };
        let sockets = [(connection.transport().as_fd(), PollFlags::IN | room)];
        match self.wait(&sockets, if is_busy { Some(now) } else { until }).map_err(GetError::Wait)? {
            Woken::Interrupted(signal) => Err(GetError::Interrupted(signal)),
            Woken::TimedOut if !is_busy => Err(timed_out),
            Woken::TimedOut | Woken::Ready => Ok(()),
        }
    }
}

/// Whether the failure is that of a connection which the server closed while it was idle.
fn is_stale(error: &GetError) -> bool {
    matches!(
        error,
        GetError::Failed(Failure::Short(Fault::ClosedBeforeResponse) | Failure::Read(_) | Failure::Write(_))
    )
}

/// The idempotent methods (RFC 9110 §9.2.2).
fn is_safe_to_repeat(request: &Bytes) -> bool {
    let method = request.split(|byte| *byte == b' ').next().unwrap_or_default();
    [&b"GET"[..], b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"].contains(&method)
}

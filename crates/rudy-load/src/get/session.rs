//! Sends requests in sequence, over one reusable connection per server.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::header::{HOST, HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, Version};
use rudy_http::Limits;
use rudy_http::h1::BodyLength;
use rudy_http::h1::client::{Fault, RequestError, RequestHead, RequestInfo};
use rustix::event::PollFlags;
use rustls::ClientConfig;

use super::dial;
use super::error::GetError;
use super::options::Options;
use super::output::Output;
use super::proxy::Proxy;
use super::report::{Closing, Connected, Report, Why};
use super::wait::{Waiter, Woken};
use super::watch::{Nothing, Rules, Tunnel, Watch};
use crate::connection::{Connection, Standing};
use crate::link::{Remote, Security};
use crate::request::Encoded;
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
    held: Option<Held>,
    /// Idle connections to other servers, the most recently used last.
    parked: Vec<Held>,
    /// Why there is no reusable connection.
    why: Why,
}

/// A connection, and the requests that can use it.
struct Held {
    connection: Connection,
    way: Way,
    remote: Remote,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// Directly, at its scheme, host and port.
    Direct(Url),
    /// Through a proxy that receives whole URLs.
    Forward(Proxy),
    /// Through a tunnel of a proxy.
    Tunnel(Proxy, Url),
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
            held: None,
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
        let result = prepared.and_then(|(way, request)| {
            connected.proxy = way.proxy().map(Proxy::to_string);
            self.exchange(url, &way, &request, started, &mut watch, &mut connected)
        });
        watch.phases.total = watch.elapsed();
        let (closing, error) = match result {
            Ok(standing) => (self.settle(standing, is_last && !watch.leads_on()), None),
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

    /// Prepares everything that needs no connection: the route, the request, the TLS configuration.
    fn prepare(&mut self, url: &Url, template: &Template) -> Result<(Way, Encoded), GetError> {
        let way = self.way(url)?;
        if url.is_secure() && self.tls.is_none() {
            let config = self.options.access.trust.client_config().map_err(AccessError::Trust)?;
            self.tls = Some(config);
        }
        let request = match &way {
            Way::Forward(Proxy { authorization: Some(authorization), .. }) => {
                let mut template = template.clone();
                template.fields.entry(PROXY_AUTHORIZATION).or_insert(authorization.clone());
                template.encode(url, true)
            }
            way => template.encode(url, matches!(way, Way::Forward(_))),
        };
        Ok((way, request.map_err(GetError::Request)?))
    }

    fn way(&self, url: &Url) -> Result<Way, GetError> {
        let proxy = match self.options.access.unix_socket {
            Some(_) => None,
            None => self.options.proxies.choose(url).map_err(GetError::Proxy)?,
        };
        Ok(match proxy {
            None => Way::Direct(url.clone()),
            Some(proxy) if url.is_secure() => Way::Tunnel(proxy, url.clone()),
            Some(proxy) => Way::Forward(proxy),
        })
    }

    /// Sends the request and reads the response. Repeats an idempotent request if the reused connection was
    /// closed before a byte of the response (RFC 9110 §9.2.2).
    fn exchange(
        &mut self,
        url: &Url,
        way: &Way,
        request: &Encoded,
        started: Instant,
        watch: &mut Watch<'_>,
        connected: &mut Connected,
    ) -> Result<Standing, GetError> {
        let until = |time: Option<_>| time.and_then(|time| started.checked_add(time));
        let whole = until(self.options.timeout);
        let connect = until(self.options.connect_timeout).into_iter().chain(whole).min();
        let deadlines = Deadlines { connect, whole };
        self.choose(way);
        if self.held.is_some() {
            connected.new = None;
            self.describe(connected);
            match self.converse(url, request, deadlines, watch) {
                Err(error) if is_stale(&error) && !watch.has_begun() && is_safe_to_repeat(&request.bytes) => {
                    self.drop_held(Why::SentAgain);
                }
                result => return result,
            }
        }
        connected.new = Some(self.why);
        let opened = self.open(url, way, deadlines, started, watch);
        let result = opened.and_then(|()| self.converse(url, request, deadlines, watch));
        self.describe(connected);
        result
    }

    /// Selects the idle connection for the route, unless the server has closed it.
    fn choose(&mut self, way: &Way) {
        if self.held.as_ref().is_some_and(|held| !held.way.serves(way)) {
            self.park();
        }
        if self.held.is_none() {
            let parked = self.parked.iter().position(|parked| parked.way.serves(way));
            self.held = parked.map(|place| self.parked.remove(place));
        }
        let Some(held) = &mut self.held else { return };
        let driven = held.connection.drive(None, &self.limits, true, &mut self.scratch, &mut Nothing);
        if !matches!(driven, Ok(Standing::Open)) {
            self.drop_held(Why::ServerClosed);
        }
    }

    fn park(&mut self) {
        self.parked.extend(self.held.take());
        self.why = Why::OtherServer;
        if self.parked.len() > PARKED_MAX {
            self.parked.remove(0).connection.close();
        }
    }

    fn drop_held(&mut self, why: Why) {
        if let Some(held) = self.held.take() {
            held.connection.close();
        }
        self.why = why;
    }

    fn open(
        &mut self,
        url: &Url,
        way: &Way,
        deadlines: Deadlines,
        started: Instant,
        watch: &mut Watch<'_>,
    ) -> Result<(), GetError> {
        let remotes = match (&self.options.access.unix_socket, way.proxy()) {
            (Some(path), _) => vec![Remote::Unix(path.clone())],
            (None, Some(proxy)) => dial::resolve(&proxy.host, proxy.port, self.waiter, deadlines.connect)?,
            (None, None) => dial::resolve(url.host(), url.port(), self.waiter, deadlines.connect)?,
        };
        watch.phases.name_lookup = started.elapsed();
        let (link, remote) = dial::connect(&remotes, self.waiter, deadlines.connect)?;
        self.held = Some(Held { connection: Connection::over(link), way: way.clone(), remote });
        if let Way::Tunnel(proxy, _) = way {
            self.open_tunnel(url, proxy, deadlines, watch)?;
        }
        Ok(())
    }

    /// RFC 9110 §9.3.6.
    fn open_tunnel(
        &mut self,
        url: &Url,
        proxy: &Proxy,
        deadlines: Deadlines,
        watch: &mut Watch<'_>,
    ) -> Result<(), GetError> {
        let request = connect_request(url, proxy).map_err(GetError::Request)?;
        let security = self.security(url)?;
        let mut tunnel = Tunnel { watch, status: None, has_ended: false };
        let Some(held) = &mut self.held else { return Ok(()) };
        held.connection.send(&request.bytes, [request.asked]);
        loop {
            let standing =
                held.connection.drive(None, &self.limits, false, &mut self.scratch, &mut tunnel)?;
            match tunnel.status {
                Some(status) if !(200..=299).contains(&status) => {
                    return Err(GetError::TunnelRefused(status));
                }
                Some(_) if held.connection.is_tunnel() => break,
                _ if tunnel.has_ended || standing == Standing::Ended => {
                    return Err(Failure::Short(Fault::ClosedBeforeResponse).into());
                }
                _ => self.waiter.pause(
                    &held.connection,
                    standing,
                    deadlines.connect,
                    GetError::ConnectTimeout,
                )?,
            }
        }
        if let Some(security) = security {
            held.connection.secure_tunnel(&security)?;
        }
        Ok(())
    }

    /// Sends the request over the current connection, and reads until the response is complete.
    fn converse(
        &mut self,
        url: &Url,
        request: &Encoded,
        deadlines: Deadlines,
        watch: &mut Watch<'_>,
    ) -> Result<Standing, GetError> {
        let security = self.security(url)?;
        let Some(held) = &mut self.held else {
            return Err(Failure::Short(Fault::ClosedBeforeResponse).into());
        };
        let connection = &mut held.connection;
        connection.send(&request.bytes, [request.asked]);
        loop {
            let driven = connection.drive(security.as_ref(), &self.limits, true, &mut self.scratch, watch);
            if let Some(error) = watch.write_error.take() {
                return Err(GetError::Output(error));
            }
            let standing = driven?;
            if watch.has_ended {
                return Ok(standing);
            }
            if standing == Standing::Ended {
                return Err(Failure::Short(Fault::ClosedBeforeResponse).into());
            }
            let (until, error) = if connection.is_open() {
                (deadlines.whole, GetError::Failed(Failure::Timeout))
            } else {
                (deadlines.connect, GetError::ConnectTimeout)
            };
            self.waiter.pause(connection, standing, until, error)?;
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
            let link = held.connection.link();
            connected.remote = Some(held.remote.to_string());
            connected.local = link.local().map(|address| address.to_string());
            connected.tls = link.agreed();
        }
    }

    /// Decides whether to keep the connection after a complete response.
    fn settle(&mut self, standing: Standing, is_last: bool) -> Closing {
        let can_be_reused = self.held.as_ref().is_some_and(|held| held.connection.can_be_reused());
        let (closing, why) = match (standing, can_be_reused, is_last) {
            (Standing::Ended, ..) => (Closing::ByServer, Why::ServerClosed),
            (_, false, _) => (Closing::AsAgreed, Why::NotKept),
            (_, true, true) => (Closing::ByUs, Why::NotKept),
            (_, true, false) => return Closing::Kept,
        };
        self.drop_held(why);
        closing
    }

    fn give_up(&mut self, error: &GetError) -> Closing {
        let closing = match (&self.held, error) {
            (None, _) => Closing::NeverOpen,
            (_, GetError::Failed(Failure::Short(_))) => Closing::Early,
            (_, GetError::Failed(Failure::Read(_) | Failure::Write(_))) => Closing::Broken,
            _ => Closing::Cut,
        };
        self.drop_held(Why::NotKept);
        closing
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for parked in self.parked.drain(..) {
            parked.connection.close();
        }
        self.drop_held(Why::NotKept);
    }
}

impl Way {
    fn proxy(&self) -> Option<&Proxy> {
        match self {
            Self::Direct(_) => None,
            Self::Forward(proxy) | Self::Tunnel(proxy, _) => Some(proxy),
        }
    }

    /// Whether a connection of this route can be used for `other`.
    fn serves(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Direct(one), Self::Direct(other)) => one.same_origin(other),
            (Self::Forward(one), Self::Forward(other)) => one == other,
            (Self::Tunnel(one, url), Self::Tunnel(other, to)) => one == other && url.same_origin(to),
            _ => false,
        }
    }
}

impl Waiter {
    /// Waits until a connection can continue.
    fn pause(
        &self,
        connection: &Connection,
        standing: Standing,
        until: Option<Instant>,
        late: GetError,
    ) -> Result<(), GetError> {
        let now = Instant::now();
        if until.is_some_and(|until| until <= now) {
            return Err(late);
        }
        let is_busy = standing == Standing::Busy;
        let room = if connection.wants_to_write() { PollFlags::OUT } else { PollFlags::empty() };
        let sockets = [(connection.link().as_fd(), PollFlags::IN | room)];
        match self.wait(&sockets, if is_busy { Some(now) } else { until }).map_err(GetError::Wait)? {
            Woken::Interrupted(signal) => Err(GetError::Interrupted(signal)),
            Woken::TimedOut if !is_busy => Err(late),
            Woken::TimedOut | Woken::Ready => Ok(()),
        }
    }
}

fn connect_request(url: &Url, proxy: &Proxy) -> Result<Encoded, RequestError> {
    let target = url.host_and_port();
    let mut fields = HeaderMap::new();
    fields.insert(HOST, HeaderValue::from_str(&target).map_err(|_| RequestError::BadHost(target.clone()))?);
    fields.insert(USER_AGENT, HeaderValue::from_static(concat!("rudy/", env!("CARGO_PKG_VERSION"))));
    if let Some(authorization) = &proxy.authorization {
        fields.insert(PROXY_AUTHORIZATION, authorization.clone());
    }
    let head = RequestHead {
        method: &Method::CONNECT,
        target: &target,
        version: Version::HTTP_11,
        fields: &fields,
        body: BodyLength::Known(0),
    };
    let mut bytes = BytesMut::new();
    head.encode(&mut bytes)?;
    let asked: RequestInfo = head.info();
    Ok(Encoded { bytes: bytes.freeze(), asked })
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

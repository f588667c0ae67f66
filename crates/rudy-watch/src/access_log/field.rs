//! The fields of a line, by name.

use std::sync::Arc;

use http::{HeaderName, StatusCode, header};
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::exchange::trace::{TRACEPARENT, Trace};
use rudy_pipeline::exchange::{
    Finished, LoggedParts, NotedFields, Notes, RequestInfo, UpstreamNote, noted_field,
};
use rudy_service::{EndReason, Peer};
use rudy_trace::Parent;

use super::masking::Masking;
use super::micros;

/// The value of a field in a line.
pub(super) enum Value<'a> {
    /// Text of a client, which must be escaped.
    Text(&'a [u8]),
    /// Texts of a client with spaces between them.
    Texts([&'a [u8]; 3]),
    /// Text that needs no escape.
    Plain(&'a str),
    Address(Peer),
    Number(u64),
    Flag(bool),
    Status(StatusCode),
}

/// What the values of a line are read from.
pub(super) struct Source<'a> {
    pub(super) exchange: &'a Finished<'a>,
    pub(super) times: Times<'a>,
    pub(super) masking: &'a Masking,
}

/// The time of a request, formatted.
pub(super) struct Times<'a> {
    /// As in the common log format.
    pub(super) local: &'a str,
    /// As in RFC 3339.
    pub(super) rfc3339: &'a str,
}

macro_rules! fields {
    ($($name:literal: $variant:ident,)+) => {
        /// A field of a line.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) enum Field {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
            /// `header.NAME`: a field of the request.
            Header(HeaderName),
            /// `response.NAME`: a field of the response.
            Response(HeaderName),
            /// `upstream.NAME`: a field of the upstream's response.
            OfUpstream(HeaderName),
        }

        impl Field {
            /// The names without those of fields in messages.
            pub(super) const NAMES: &[&str] = &[$($name),+];

            fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// Returns the name, without the prefix of a field in a message.
            pub(super) fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Header(name) | Self::Response(name) | Self::OfUpstream(name) => name.as_str(),
                }
            }
        }
    };
}

fields! {
    "time": Time,
    "time_local": TimeLocal,
    "client": Client,
    "client_port": ClientPort,
    "proxy": Proxy,
    "connection": Connection,
    "tls": Tls,
    "cipher": Cipher,
    "tls_group": TlsGroup,
    "early_data": EarlyData,
    "client_certificate": ClientCertificate,
    "request": Request,
    "method": Method,
    "target": Target,
    "path": Path,
    "version": Version,
    "scheme": Scheme,
    "host": Host,
    "referer": Referer,
    "user_agent": UserAgent,
    "request_id": RequestId,
    "traceparent": Traceparent,
    "trace_id": TraceId,
    "span_id": SpanId,
    "user": User,
    "site": Site,
    "route": Route,
    "upstream": Upstream,
    "attempts": Attempts,
    "upstream_connect_us": UpstreamConnect,
    "upstream_wait_us": UpstreamWait,
    "upstream_head_us": UpstreamHead,
    "upstream_response_us": UpstreamResponse,
    "upstream_status": UpstreamStatus,
    "upstream_addresses": UpstreamAddresses,
    "upstream_statuses": UpstreamStatuses,
    "cache": Cache,
    "limit": Limit,
    "rejected": Rejected,
    "status": Status,
    "request_body_bytes": RequestBodyBytes,
    "body_bytes": BodyBytes,
    "received_bytes": ReceivedBytes,
    "sent_bytes": SentBytes,
    "duration_us": Duration,
    "wait_us": Wait,
    "ended": Ended,
}

/// Fields with credentials, which no log may contain.
const SECRET: [HeaderName; 4] =
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION, header::SET_COOKIE];

/// What the names of fields in messages begin with, and the fields of such names.
type InMessage = (&'static str, fn(HeaderName) -> Field);

const IN_MESSAGES: [InMessage; 3] =
    [("header.", Field::Header), ("response.", Field::Response), ("upstream.", Field::OfUpstream)];

impl Field {
    /// Parses a name.
    ///
    /// # Errors
    ///
    /// Why there is no such field.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let in_message =
            IN_MESSAGES.iter().find_map(|(prefix, variant)| Some((name.strip_prefix(prefix)?, variant)));
        let Some((field, variant)) = in_message else {
            return Self::named(name).ok_or_else(|| {
                format!(
                    "no field is named {{{name}}}; expected header.NAME, response.NAME, upstream.NAME or one of: {}",
                    Self::NAMES.join(", ")
                )
            });
        };
        let field = HeaderName::try_from(field).map_err(|_| format!("\"{field}\" is not a field name"))?;
        if SECRET.contains(&field) {
            return Err(format!("{{{name}}} is a secret, which no log may contain"));
        }
        Ok(variant(field))
    }

    /// Returns the request field that the value is read from.
    pub(super) fn request_field(&self) -> Option<HeaderName> {
        match self {
            Self::Host => Some(header::HOST),
            Self::Referer => Some(header::REFERER),
            Self::UserAgent => Some(header::USER_AGENT),
            Self::Traceparent => Some(TRACEPARENT.clone()),
            Self::Header(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// Adds what must be noted for the value.
    pub(super) fn add_to(&self, logged: &mut LoggedParts) {
        match self {
            Self::Response(name) => logged.response_fields = with(&logged.response_fields, name),
            Self::OfUpstream(name) => logged.upstream_fields = with(&logged.upstream_fields, name),
            Self::UpstreamAddresses | Self::UpstreamStatuses => logged.attempts = true,
            Self::UpstreamResponse => logged.upstream_end = true,
            _ => {}
        }
    }

    /// Passes the value to `put`: `None` if it is unknown.
    pub(super) fn with_value(&self, source: &Source<'_>, put: impl FnOnce(Option<Value<'_>>)) {
        let Source { exchange, times, masking } = source;
        let Finished { client, request, notes, outcome, .. } = **exchange;
        let upstream = notes.upstream.as_ref();
        // Values that are computed here.
        let (path, scheme, field, address, url, list, id);
        let value = match self {
            Self::Time => Some(Value::Plain(times.rfc3339)),
            Self::TimeLocal => Some(Value::Plain(times.local)),
            Self::Client => Some(Value::Address(masking.address(client.address()))),
            Self::ClientPort => client.address().port().map(|port| Value::Number(port.into())),
            Self::Proxy => client.forwarded.as_ref().map(|_| Value::Address(client.peer)),
            Self::Connection => Some(Value::Number(client.connection_number)),
            Self::Tls | Self::Cipher | Self::TlsGroup | Self::EarlyData | Self::ClientCertificate => {
                self.tls_value(exchange)
            }
            Self::Request => {
                url = request.map(|request| masking.query_of(request.target()));
                request.zip(url.as_deref()).map(|(request, target)| {
                    let version = request.protocol().as_bytes();
                    Value::Texts([request.method().as_str().as_bytes(), target, version])
                })
            }
            Self::Method => request.map(|request| Value::Text(request.method().as_str().as_bytes())),
            Self::Target => {
                url = request.map(|request| masking.query_of(request.target()));
                url.as_deref().map(Value::Text)
            }
            Self::Path => {
                // The canonical path, which routes match: all spellings of a path have the same value here.
                let sent = request.map(RequestInfo::path).filter(|path| *path != b"*");
                path = sent.and_then(|path| RequestPath::parse(path).ok());
                path.as_ref().map(|path| Value::Text(path.as_bytes()))
            }
            Self::Version => request.map(|request| Value::Text(request.protocol().as_bytes())),
            Self::Scheme => {
                scheme = client.scheme();
                Some(Value::Text(scheme.as_str().as_bytes()))
            }
            Self::Host | Self::UserAgent => {
                field = self.request_field();
                field.as_ref().and_then(|name| exchange.request_field(name)).map(Value::Text)
            }
            Self::Referer => {
                url = exchange.request_field(&header::REFERER).map(|value| masking.query_of(value));
                url.as_deref().map(Value::Text)
            }
            Self::Header(name) => {
                url = exchange.request_field(name).map(|value| masking.query_of(value));
                list = url.as_deref().map(|value| masking.addresses_in(value));
                list.as_deref().map(Value::Text)
            }
            Self::Response(name) | Self::OfUpstream(name) => {
                let fields = self.noted_fields(notes);
                url = noted_field(fields, name).map(|value| masking.query_of(value));
                url.as_deref().map(Value::Text)
            }
            Self::Traceparent => exchange
                .request_field(&TRACEPARENT)
                .filter(|value| Parent::parse(value).is_some())
                .map(Value::Text),
            Self::TraceId | Self::SpanId => {
                id = exchange.trace.map(|trace| self.id_in(trace));
                id.as_deref().map(Value::Plain)
            }
            Self::RequestId => exchange.id.map(|id| Value::Text(id.as_bytes())),
            Self::User => notes.user.as_deref().map(|user| Value::Text(user.as_bytes())),
            Self::Site => notes.route.as_ref().map(|route| Value::Text(route.site.as_bytes())),
            Self::Route => notes
                .route
                .as_ref()
                .and_then(|route| route.path.as_ref())
                .map(|path| Value::Text(path.as_bytes())),
            Self::Upstream => {
                address = upstream.and_then(|upstream| Some(upstream.address.as_ref()?.to_string()));
                address.as_ref().map(|address| Value::Text(address.as_bytes()))
            }
            Self::Attempts => upstream.map(|upstream| Value::Number(upstream.attempts.into())),
            Self::UpstreamConnect => upstream_time(upstream, UpstreamNote::connect_time),
            Self::UpstreamWait => upstream_time(upstream, UpstreamNote::wait_time),
            Self::UpstreamHead => upstream_time(upstream, UpstreamNote::head_time),
            Self::UpstreamResponse => upstream_time(upstream, UpstreamNote::response_time),
            Self::UpstreamAddresses | Self::UpstreamStatuses => {
                address = self.of_attempts(notes);
                address.as_ref().map(|list| Value::Text(list.as_bytes()))
            }
            Self::UpstreamStatus => upstream.and_then(|upstream| upstream.status).map(Value::Status),
            Self::Cache => notes.cache.map(|status| Value::Text(status.as_bytes())),
            Self::Limit => notes.limit.as_deref().map(|limit| Value::Text(limit.as_bytes())),
            Self::Rejected => exchange.rejection.map(|reason| Value::Text(reason.as_bytes())),
            Self::Status => outcome.status.map(Value::Status),
            Self::RequestBodyBytes => Some(Value::Number(exchange.request_body_bytes)),
            Self::BodyBytes => Some(Value::Number(outcome.body_bytes)),
            Self::ReceivedBytes => request.map(|request| {
                let body_bytes = exchange.request_body_bytes + outcome.request_framing_bytes;
                Value::Number(request.head_bytes() + body_bytes)
            }),
            // Unknown for a connection that was rejected.
            Self::SentBytes => request.map(|_| Value::Number(outcome.sent_bytes)),
            Self::Duration => Some(Value::Number(micros(outcome.duration))),
            Self::Wait => Some(Value::Number(micros(outcome.wait))),
            Self::Ended => Some(Value::Text(ended_word(outcome.end_reason).as_bytes())),
        };
        put(value);
    }

    /// Returns the id of a trace or of its span.
    fn id_in(&self, trace: &Trace) -> String {
        if *self == Self::TraceId { trace.own.trace.to_string() } else { trace.own.span.to_string() }
    }

    fn noted_fields<'a>(&self, notes: &'a Notes) -> &'a NotedFields {
        if matches!(self, Self::Response(_)) { &notes.response_fields } else { &notes.upstream_fields }
    }

    /// Whether the value is a list with a member for each attempt.
    pub(super) fn is_of_attempts(&self) -> bool {
        matches!(self, Self::UpstreamAddresses | Self::UpstreamStatuses)
    }

    /// Returns the addresses or the statuses of all attempts, with commas between them.
    fn of_attempts(&self, notes: &Notes) -> Option<String> {
        let texts = notes.all_attempts().map(|(address, status)| match status {
            _ if *self == Self::UpstreamAddresses => address.to_string(),
            Some(status) => status.as_str().to_owned(),
            None => "-".to_owned(),
        });
        Some(texts.collect::<Vec<_>>().join(",")).filter(|list| !list.is_empty())
    }

    fn tls_value<'a>(&self, exchange: &Finished<'a>) -> Option<Value<'a>> {
        let tls = exchange.client.tls.as_deref()?;
        match self {
            Self::Cipher => Some(Value::Text(tls.cipher.as_bytes())),
            Self::TlsGroup => {
                Some(tls.group).filter(|group| !group.is_empty()).map(|group| Value::Text(group.as_bytes()))
            }
            Self::EarlyData => tls.is_early.then_some(Value::Flag(true)),
            Self::ClientCertificate => {
                tls.client_certificate.as_ref().map(|certificate| Value::Text(certificate.subject.as_bytes()))
            }
            _ => Some(Value::Text(tls.version.as_bytes())),
        }
    }
}

/// Returns the names with another one.
fn with(names: &[HeaderName], name: &HeaderName) -> Arc<[HeaderName]> {
    let others = names.iter().filter(|known| *known != name);
    others.chain([name]).cloned().collect()
}

fn upstream_time<'a>(
    upstream: Option<&UpstreamNote>,
    time: impl FnOnce(&UpstreamNote) -> Option<std::time::Duration>,
) -> Option<Value<'a>> {
    upstream.and_then(time).map(|time| Value::Number(micros(time)))
}

/// Returns the word for how an exchange ended.
pub(crate) fn ended_word(end_reason: EndReason) -> &'static str {
    match end_reason {
        EndReason::Completed => "complete",
        EndReason::PeerGone => "peer_gone",
        EndReason::PeerStalled => "peer_stalled",
        EndReason::Aborted => "cut",
        EndReason::ServerStopped => "stopped",
        EndReason::Killed => "killed",
    }
}
